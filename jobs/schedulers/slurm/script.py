"""The batch script of one submission, the same for `plan`, which shows it, and `sweep`.

submitit writes it. What submitit cannot express is added around it: text that arrives unchanged,
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
from jobs.errors import InvalidValue
from jobs.runner.slot import JOB_UPTIME
from jobs.schedulers.slurm.node_archive import ENTRY_ZIP
from jobs.schedulers.slurm.resources import BY_CPU_OR_GPU, Resources

SUBMISSION_SH = "submission.sh"
PICKLE = "entry.pkl"
# SLURM replaces %j and the like in paths, and a backslash turns that off; PYTHONPATH and the
# mounts of a container are lists.
_PATH_MARKS = {"%": "%", "\\": "a backslash", ":": "a colon"}


@dataclass(frozen=True)
class Submission:
    """One call of sbatch.

    Attributes:
        sweep: The sweep's folder, absolute.
        number: Number of the submission within the sweep.
        resources: Request of each job.
        time_min: Minutes of each job.
        tasks: Point ids of each job, in the order of array indices.
        max_parallel: Number of array tasks that may run at once; None: all.
        waits: True if it starts only when the submission before it has ended.
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
        """Folder with everything that the jobs need, complete before sbatch is called."""
        return self.sweep / "submissions" / str(self.number)

    @property
    def name(self) -> str:
        """Name of the job, which identifies it if its id was never written down."""
        return f"{self.sweep.name}.{self.number}"

    @property
    def comment(self) -> str:
        """Comment of the job: its name, then the user's comment."""
        return f"{self.name} {self.resources.comment or ''}".rstrip()

    @property
    def is_array(self) -> bool:
        """True if its jobs have array indices; a single one has none."""
        return len(self.tasks) > 1

    @property
    def warning_s(self) -> int:
        """Seconds before its time limit at which a job is warned."""
        return min(90, max(10, self.time_min * 60 // 6))

    @property
    def points_by_task(self) -> dict[str, list[str]]:
        """Point ids by array index, as the ledger records them."""
        return {str(index): list(ids) for index, ids in enumerate(self.tasks)}


class BatchExecutor(submitit.SlurmExecutor):  # type: ignore[misc] # submitit has no types here
    """submitit's executor; only its script and its side on the node are used."""

    @classmethod
    def affinity(cls) -> int:
        """Always available: a script can be shown on a machine without srun."""
        return 2

    @property
    def _submitit_command_str(self) -> str:
        """Submitit's command, with our own entry point, which reports an interpreter too old."""
        return f"{self.python} -u -m jobs.runner.bootstrap {shlex.quote(str(self.folder))}"

    def script(self, tasks: int) -> str:
        """Return the batch script for a number of tasks."""
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
    """Quote any value the way that sbatch reads directives."""
    text = str(value)
    if shlex.quote(text) == text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def script_of(submission: Submission, cluster: Cluster, python: str, root: str) -> str:
    """Return the batch script.

    Args:
        submission: The submission.
        cluster: Setup lines, environment and container.
        python: The node's interpreter.
        root: The checkout from which the points run.

    Raises:
        InvalidValue: SLURM would change the name of the sweep's folder.
    """
    check_folder(submission.sweep, container=cluster.container.image is not None)
    executor = BatchExecutor(
        submission.sweep / ("%A" if submission.is_array else "%j"),
        python=_interpreter(cluster, python, submission.folder),
    )
    executor.parameters.update(_parameters(submission, cluster, root))
    return executor.script(len(submission.tasks))


def check_folder(sweep: Path, *, container: bool) -> None:
    """Raise InvalidValue if SLURM would change the name of a sweep's folder."""
    path = str(sweep)
    marks = _PATH_MARKS | ({",": "a comma"} if container else {})
    bad = [name for mark, name in marks.items() if mark in path]
    if bad or not path.isprintable():
        constraint = f"be a path without {' or '.join(bad) or 'control characters'}"
        raise InvalidValue("runs_dir", constraint, path, "SLURM would change it")


def _parameters(submission: Submission, cluster: Cluster, root: str) -> dict[str, Any]:
    resources = submission.resources
    ids = "%A_%a" if submission.is_array else "%j"
    # The shell's own log is in a folder that is certain to exist: the job's own folder is named by
    # an id that is unknown before sbatch has answered.
    log = f"{submission.folder}/{ids}_batch.out"
    more: dict[str, Any] = {
        "output": log,
        "error": log,
        # Not the current folder: Python would import from there first.
        "chdir": str(submission.sweep),
    }
    for key in ("reservation", "nice", "gpus_per_node", "dependency"):
        if getattr(resources, key) is not None:
            more[key] = getattr(resources, key)
    more |= {name: value if value else True for name, value in resources.options}
    by_cpu = BY_CPU_OR_GPU & {name for name, _ in resources.options}
    given = {
        "job_name": submission.name,
        "comment": submission.comment,
        "time": submission.time_min,
        "signal_delay_s": submission.warning_s,
        "mem": None if by_cpu or resources.memory_mib is None else f"{resources.memory_mib}M",
        "cpus_per_task": resources.cpus_per_task,
        "partition": resources.partition,
        "account": resources.account,
        "qos": resources.qos,
        "constraint": resources.constraint,
        "gres": resources.gres,
        "nodelist": resources.nodelist,
        "exclude": resources.exclude,
        "array_parallelism": submission.max_parallel or len(submission.tasks),
        "wckey": resources.wckey,
        "setup": [*_folders(submission), *_setup(cluster)],
        "srun_args": _srun(submission, cluster, root),
        "additional_parameters": more,
    }
    # submitit's own default for the wckey is refused by some clusters: it must be None.
    return {key: value for key, value in given.items() if value is not None or key == "wckey"}


def _folders(submission: Submission) -> list[str]:
    """Return shell lines that create the job's folder with the entry; they hold no user's text."""
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
    """Return the job's variables, then the user's lines, the only ones that a shell expands."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in cluster.env.items()]
    for number, line in enumerate(cluster.setup, 1):
        message = shlex.quote(f"setup line {number} failed: {line}")
        lines += [f"{{ {line}", f"}} || {{ echo {message} >&2; exit 1; }}"]
    return lines


def _srun(submission: Submission, cluster: Cluster, root: str) -> list[str]:
    resources = submission.resources
    options = ["--export=ALL"]
    if resources.cpus_per_task is not None:
        # Since SLURM 22.05 srun does not inherit it.
        options.append(f"--cpus-per-task={resources.cpus_per_task}")
    return [*options, *_container(cluster.container, submission.sweep, root), *resources.srun]


def _container(container: Container, sweep: Path, root: str) -> list[str]:
    """Return srun's options of the container in pyxis syntax, with every necessary mount."""
    if container.image is None:
        return []
    mounts = [f"{sweep}:{sweep}", *container.mounts]
    if container.pythonpath is None and not Path(root).is_relative_to(sweep):
        mounts.append(f"{root}:{root}")
    options = [
        f"--container-image={container.image}",
        f"--container-mounts={','.join(dict.fromkeys(mounts))}",
    ]
    if container.workdir is not None:
        options.append(f"--container-workdir={container.workdir}")
    return options


def _interpreter(cluster: Cluster, python: str, folder: Path) -> str:
    """Return the shell words that start the node's Python with the entry on its path."""
    path = os.pathsep.join(filter(None, (str(folder / ENTRY_ZIP), cluster.env.get("PYTHONPATH"))))
    # Set by env inside the container, because an image may set its own; env by its full path,
    # because a job may have no PATH.
    return shlex.join(["/usr/bin/env", f"PYTHONPATH={path}", python])
