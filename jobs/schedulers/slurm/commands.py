"""Calls of SLURM's commands: a clean environment, a time limit, and the meaning of an error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from jobs.text import join_sentences

# The commands themselves give up on a dead slurmctld only after 9 to 18 s.
TIME_LIMIT_S = 25.0

# Variables that locate the cluster; everything else named SLURM_ describes a job, or changes what
# a command does or prints.
_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
_REMOVED_PREFIXES = (
    *("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SACCT_", "SQUEUE_", "SINFO_", "SCANCEL_"),
    *("SUBMITIT_", "PMI_", "PMIX_", "MXFP8_JOB_"),
)
_REMOVED = frozenset(
    {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"}
    | {"PYTHONPATH", "PYTHONHOME"}
)


class Meaning(Enum):
    """Meanings of SLURM's error messages that decide what happens next.

    The value is the phrases of SLURM, in lower case; any of them is enough.
    """

    MAY_BE_ACCEPTED = ("timed out", "zero bytes")  # sbatch; the controller may have the job
    ALREADY_ENDED = ("already completed", "already completing or completed")  # scancel
    UNKNOWN_JOB = ("invalid job id",)  # squeue
    NO_ACCOUNTING = ("disabled",)  # sacct


@dataclass(frozen=True)
class Answer:
    """Answer of a command.

    Attributes:
        out: Standard output.
        error: Why there is no answer, in one line; None if there is one.
        warning: Standard error, whether the command failed or not.
        silent: True if the command failed without a message, or was ended by the time limit.
    """

    out: str
    error: str | None = None
    warning: str = ""
    silent: bool = False

    def means(self, meaning: Meaning) -> bool:
        """True if this is an error with that meaning."""
        error = (self.error or "").lower()
        return any(phrase in error for phrase in meaning.value)


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without the variables of a surrounding job and users' defaults.

    No SLURM_ or SBATCH_ variable changes what a command does, and no GPU or import path of this
    process is passed on to a job.
    """
    variables = os.environ if environ is None else environ
    return {
        name: value
        for name, value in variables.items()
        if name in _KEPT or not (name.startswith(_REMOVED_PREFIXES) or name in _REMOVED)
    }


def unused_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a note for each SBATCH_ variable, none of which reaches sbatch."""
    variables = os.environ if environ is None else environ
    return [
        f"{name}={variables[name]} has no effect; set "
        f"cluster.{name.removeprefix('SBATCH_').lower()} instead"
        for name in sorted(variables)
        if name.startswith("SBATCH_")
    ]


def call(
    command: Sequence[str], *, time_limit_s: float = TIME_LIMIT_S, lock: int | None = None
) -> Answer:
    """Run one SLURM command; a failure is an answer too.

    With `lock`, a descriptor, the command outlives this process and holds the lock until it ends.
    """
    outlives = lock is not None
    try:
        process = subprocess.Popen(
            command,
            env=clean_environment() | ({} if outlives else {"SLURM_TIME_FORMAT": "standard"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=outlives,
            pass_fds=() if lock is None else (lock,),
        )
    except FileNotFoundError:
        return Answer("", f"{command[0]} is not installed here")
    except OSError as error:
        return Answer("", f"cannot run {command[0]}: {error.strerror}")
    with process:
        try:
            streams = process.communicate(timeout=time_limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()  # not communicate: a child of the command may hold its pipes open
            message = f"{command[0]} did not answer within {time_limit_s:.0f} s"
            return Answer("", message, silent=True)
        except BaseException:
            if not outlives:
                process.kill()
            raise
    out, warning = (stream.decode("utf-8", "replace") for stream in streams)
    if process.returncode == 0:
        return Answer(out, None, warning.strip())
    lines = [line.strip() for line in warning.splitlines() if line.strip()]
    # SLURM puts the error last, and sbatch its reason after a general line.
    message = join_sentences(
        *dict.fromkeys(line.removeprefix(f"{command[0]}: ") for line in lines[-2:])
    )
    silent = not message
    message = f": {message}" if message else f" exited with code {process.returncode}"
    return Answer(out, command[0] + message, warning.strip(), silent)
