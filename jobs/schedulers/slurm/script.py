"""The exact batch script of one submission: the same for `plan`, which shows it, and `sweep`.

submitit writes it. What it cannot say by itself is added around it: text that arrives unchanged,
setup lines that fail the job, the folders that the job needs, a container.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit

from conf.site import Cluster, Container
from jobs.errors import UsageError
from jobs.runner.slot import JOB_UPTIME
from jobs.schedulers.slurm.node_archive import ENTRY_ZIP
from jobs.schedulers.slurm.resources import BY_CPU_OR_GPU, Resources

SUBMISSION_SH = "submission.sh"
PICKLE = "entry.pkl"
# SLURM replaces %j and the like in paths, a backslash turns that off; PYTHONPATH and a container's
# mounts are lists.
_PATH_MARKS = {"%": "%", "\\": "a backslash", ":": "a colon"}


@dataclass(frozen=True)
class Submission:
    """One call of sbatch.

    Attributes:
        sweep: The sweep's folder, absolute.
        number: Which submission of the sweep it is.
        resources: What it asks for.
        time_min: Minutes of each job.
        tasks: Point ids of each job, in the order of array indices.
        max_parallel: Array tasks that may run at once; None: all.
        waits: It begins when the submission before it has ended.
    """

    sweep: Path
    number: int
    resources: Resources
    time_min: int
    tasks: tuple[tuple[str, ...], ...]
    max_parallel: int | None = None
    waits: bool = False

    @property
    def folder(self) -> Path:
        """Where everything of this submission lies before sbatch is called."""
        return self.sweep / "submissions" / str(self.number)

    @property
    def name(self) -> str:
        """The job's name, by which it is found if its id was never written down."""
        return f"{self.sweep.name}.{self.number}"

    @property
    def comment(self) -> str:
        """The job's comment: the same again, then the user's own words."""
        return f"{self.name} {self.resources.comment or ''}".rstrip()

    @property
    def is_array(self) -> bool:
        """Whether its jobs have array indices; a single one has none."""
        return len(self.tasks) > 1

    @property
    def warning_s(self) -> int:
        """How long before its time limit a job is warned."""
        return min(90, max(10, self.time_min * 60 // 6))


class BatchExecutor(submitit.SlurmExecutor):  # type: ignore[misc] # submitit has no types here
    """submitit's executor, of which the script and the node's side are used."""

    @classmethod
    def affinity(cls) -> int:
        """Always there: a script can be shown on a machine without srun."""
        return 2

    @property
    def _submitit_command_str(self) -> str:
        """As submitit has it, by a start that tells an interpreter that is too old."""
        return f"{self.python} -u -m jobs.runner.bootstrap {shlex.quote(str(self.folder))}"

    def script(self, tasks: int) -> str:
        """The batch script for a number of tasks."""
        self.parameters["map_count"] = tasks if tasks > 1 else None
        text: str = self._make_submission_file_text(self._submitit_command_str, "")
        values = {**self.parameters, **self.parameters["additional_parameters"]}
        for key, value in values.items():
            # sbatch reads its directives by rules of its own: a backslash escapes inside single
            # quotes too, and the quoting that submitit uses does not survive that.
            flag = f"#SBATCH --{key.replace('_', '-')}="
            text = text.replace(
                f"{flag}{shlex.quote(str(value))}\n", f"{flag}{quoted(value)}\n", 1
            )
        return text


def quoted(value: object) -> str:
    """A value as sbatch reads it from a directive, whatever it holds."""
    text = str(value)
    if shlex.quote(text) == text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def script_of(submission: Submission, cluster: Cluster, python: str, root: str) -> str:
    """Writes the batch script.

    Args:
        submission: What is submitted.
        cluster: Setup lines, environment and container.
        python: The node's interpreter.
        root: The tree that the points run from.

    Returns:
        The script, exactly as sbatch is given it.

    Raises:
        UsageError: The sweep's folder has a name that SLURM would change.
    """
    path = str(submission.sweep)
    marks = _PATH_MARKS | ({",": "a comma"} if cluster.container.image is not None else {})
    bad = [word for mark, word in marks.items() if mark in path]
    if bad or not path.isprintable():
        raise UsageError(
            f"runs_dir must have a path without {' and '.join(bad) or 'control characters'}, "
            f"got {path!r}; SLURM would change it"
        )
    executor = BatchExecutor(
        submission.sweep / ("%A" if submission.is_array else "%j"),
        python=_interpreter(cluster, python, submission.folder),
    )
    executor.parameters.update(_parameters(submission, cluster, root))
    return executor.script(len(submission.tasks))


def _parameters(submission: Submission, cluster: Cluster, root: str) -> dict[str, Any]:
    asked = submission.resources
    ids = "%A_%a" if submission.is_array else "%j"
    # The shell's own log lies where a folder is sure to be: the job's own is named by an id
    # that nobody knows before sbatch has answered.
    log = f"{submission.folder}/{ids}_batch.out"
    more: dict[str, Any] = {
        "output": log,
        "error": log,
        # Not where the command was typed: Python would import from there first.
        "chdir": str(submission.sweep),
    }
    for key in ("reservation", "nice", "gpus_per_node", "dependency"):
        if getattr(asked, key) is not None:
            more[key] = getattr(asked, key)
    more |= {name: value if value else True for name, value in asked.options}
    by_cpu = BY_CPU_OR_GPU & {name for name, _ in asked.options}
    given = {
        "job_name": submission.name,
        "comment": submission.comment,
        "time": submission.time_min,
        "signal_delay_s": submission.warning_s,
        "mem": None if by_cpu or asked.memory_mib is None else f"{asked.memory_mib}M",
        "cpus_per_task": asked.cpus_per_task,
        "partition": asked.partition,
        "account": asked.account,
        "qos": asked.qos,
        "constraint": asked.constraint,
        "gres": asked.gres,
        "nodelist": asked.nodelist,
        "exclude": asked.exclude,
        "array_parallelism": submission.max_parallel or len(submission.tasks),
        "wckey": asked.wckey,
        "setup": [*_folders(submission), *_setup(cluster)],
        "srun_args": _srun(submission, cluster, root),
        "additional_parameters": more,
    }
    # submitit's own default for the key is a word that some clusters refuse: it must be None.
    return {key: value for key, value in given.items() if value is not None or key == "wckey"}


def _folders(submission: Submission) -> list[str]:
    """Shell lines that make the job's folder and lay the entry there; only our own words."""
    sweep, source = shlex.quote(str(submission.sweep)), shlex.quote(str(submission.folder))
    entry = f"../submissions/{submission.number}/{PICKLE}"
    log = f'{source}/"${{task}}_batch.out" {sweep}/"$job/${{task}}_batch_log.out"'
    return [
        'job="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"',
        'task="$job${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"',
        f'mkdir -p {sweep}/"$job" || exit 1',
        f"read -r {JOB_UPTIME} _ < /proc/uptime && export {JOB_UPTIME}",
        f'ln -sfn {entry} {sweep}/"$job/${{task}}_submitted.pkl" || exit 1',
        # The same file by a second name; a requeued job has it already.
        f"ln {log} 2>/dev/null || true",
    ]


def _setup(cluster: Cluster) -> list[str]:
    """The job's variables, then the user's own lines, the only ones that a shell interprets."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in cluster.env.items()]
    for number, line in enumerate(cluster.setup, 1):
        told = shlex.quote(f"setup line {number} failed, so the job does: {line}")
        lines += [f"{{ {line}", f"}} || {{ echo {told} >&2; exit 1; }}"]
    return lines


def _srun(submission: Submission, cluster: Cluster, root: str) -> list[str]:
    asked = submission.resources
    words = ["--export=ALL"]
    if asked.cpus_per_task is not None:
        # Since SLURM 22.05 srun does not inherit it.
        words.append(f"--cpus-per-task={asked.cpus_per_task}")
    return [*words, *_container(cluster.container, submission.sweep, root), *asked.srun]


def _container(container: Container, sweep: Path, root: str) -> list[str]:
    """The container as pyxis takes it from srun, with what every job must see mounted."""
    if container.image is None:
        return []
    mounts = [f"{sweep}:{sweep}", *container.mounts]
    if container.pythonpath is None and not Path(root).is_relative_to(sweep):
        mounts.append(f"{root}:{root}")
    words = [
        f"--container-image={container.image}",
        f"--container-mounts={','.join(dict.fromkeys(mounts))}",
    ]
    if container.workdir is not None:
        words.append(f"--container-workdir={container.workdir}")
    return words


def _interpreter(cluster: Cluster, python: str, folder: Path) -> str:
    """The shell words that start the node's Python with the entry to import from."""
    path = os.pathsep.join(filter(None, (str(folder / ENTRY_ZIP), cluster.env.get("PYTHONPATH"))))
    # Set by env inside the container: an image may set one of its own.
    # And by its whole path: a job may come without PATH.
    return shlex.join(["/usr/bin/env", f"PYTHONPATH={path}", python])
