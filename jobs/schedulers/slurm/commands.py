"""One call of a SLURM command: a clean environment, a time limit, and its answer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.text import join_sentences

# The clients themselves give up on a dead slurmctld only after 9 to 18 s.
TIME_LIMIT_S = 25.0

# What tells a client where its cluster is; everything else named SLURM_ describes a job, or
# changes what a command does or prints.
_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
_LEAKING = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SACCT_", "SQUEUE_", "SINFO_", "SCANCEL_")
_LEAKING_TOO = ("SUBMITIT_", "PMI_", "PMIX_", "MXFP8_JOB_")
_LEAKING_NAMES = frozenset(
    {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"}
    | {"PYTHONPATH", "PYTHONHOME"}
)


@dataclass(frozen=True)
class Answer:
    """What a command answered.

    Attributes:
        out: Its standard output.
        error: Why there is no answer, in one line; None: there is one.
        warning: What it wrote to standard error, whether it failed or not.
    """

    out: str
    error: str | None = None
    warning: str = ""


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without what another job, or a user's own defaults, left in it.

    Args:
        environ: What to clean; this process's environment if None.

    Returns:
        A copy in which no SLURM_ or SBATCH_ variable changes what a command does, and no GPU or
        import path of this process is handed on to a job.
    """
    found = os.environ if environ is None else environ
    prefixes = _LEAKING + _LEAKING_TOO
    return {
        key: value
        for key, value in found.items()
        if key in _KEPT or not (key.startswith(prefixes) or key in _LEAKING_NAMES)
    }


def unused_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """A note for each of sbatch's own variables that is set and does not reach it."""
    found = os.environ if environ is None else environ
    return [
        f"{name}={found[name]} is not used: every request is a key, like "
        f"cluster.{name.removeprefix('SBATCH_').lower()}"
        for name in sorted(found)
        if name.startswith("SBATCH_")
    ]


def call(command: Sequence[str], *, time_limit_s: float = TIME_LIMIT_S) -> Answer:
    """Runs one SLURM command; a failure is an answer too.

    Args:
        command: Program and arguments; no shell reads them.
        time_limit_s: Seconds until the answer counts as missing.

    Returns:
        The output, or the reason why there is none.
    """
    env = clean_environment() | {"SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=time_limit_s,
            check=False,
        )
    except FileNotFoundError:
        return Answer("", f"{command[0]} is not installed here")
    except OSError as error:
        return Answer("", f"{command[0]} cannot be run: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Answer("", f"{command[0]} did not answer within {time_limit_s:.0f} s")
    out, warning = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    if done.returncode == 0:
        return Answer(out, None, warning.strip())
    return Answer(out, said(command[0], warning, done.returncode), warning.strip())


def said(program: str, stderr: str, code: int) -> str:
    """Why a program failed, from what it wrote to standard error, in one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # SLURM puts what went wrong last, and sbatch's reason after a general line.
    words = join_sentences(
        *dict.fromkeys(line.removeprefix(f"{program}: ") for line in lines[-2:])
    )
    return f"{program}: {words}" if words else f"{program} ended with exit code {code}"
