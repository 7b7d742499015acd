"""Job states from one squeue and one sacct call, however many jobs.

squeue is up to date and forgets; sacct remembers and lags. A job that squeue lists as pending or
running is exactly that, whatever sacct reports of an earlier run of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from jobs.schedulers.slurm.commands import Meaning, call
from jobs.schedulers.slurm.task import SlurmTask, array_of, full_state
from jobs.text import parse_int

_SQUEUE_FIELDS = (
    *("ArrayJobID", "ArrayTaskID", "JobID", "State", "RestartCnt", "TimeUsed", "NodeList"),
    *("Reason", "Name", "Comment"),
)
_SACCT_FIELDS = (
    *("JobID", "JobIDRaw", "State", "ExitCode", "ElapsedRaw", "NodeList", "Reason"),
    "JobName",
)
_NO_NAME_YET = "allocation"  # printed by sacct for a job whose start it has not heard of
# slurmstepd ends a batch step that could not be launched with this "signal".
_LAUNCH_SIGNAL = 53


@dataclass(frozen=True)
class QueueRow:
    """One row of squeue, with the name and comment that identify a submission."""

    task: SlurmTask
    name: str
    comment: str


@dataclass(frozen=True)
class JobStates:
    """States that squeue and sacct reported, joined.

    Attributes:
        tasks: By job id as users type it.
        queue_error: Why squeue gave no answer.
        accounting_error: Why sacct gave none.
        no_accounting: True if the cluster keeps no accounting.
        unsure: Arrays with pending tasks in accounting of which squeue lists no task.
    """

    tasks: Mapping[str, SlurmTask] = field(default_factory=dict)
    queue_error: str | None = None
    accounting_error: str | None = None
    unsure: frozenset[str] = frozenset()
    no_accounting: bool = False


def query_states(job_ids: Iterable[str]) -> JobStates:
    """Query squeue and sacct once each, at the same time; of a task, its whole array."""
    arrays = sorted(set(map(array_of, job_ids)), key=int)
    if not arrays:
        return JobStates()
    listed = ",".join(arrays)
    with ThreadPoolExecutor(2) as pool:
        queue = pool.submit(query_queue, "--jobs", listed)
        accounting = pool.submit(
            call,
            # Without -X: only the row of a step shows that it ran out of memory.
            ["sacct", "-n", "--parsable2", "--jobs", listed, "--format", ",".join(_SACCT_FIELDS)],
        )
    rows, queue_error = queue.result()
    answer = accounting.result()
    booked = None if answer.error else parse_sacct(answer.out)
    queued = None if queue_error else {row.task.job_id: row.task for row in rows}
    unsure = arrays_with_pending_row(answer.out) - set(map(array_of, queued or ()))
    no_accounting = answer.means(Meaning.NO_ACCOUNTING)
    return JobStates(
        join(queued, booked), queue_error, answer.error, frozenset(unsure), no_accounting
    )


def query_queue(*selection: str) -> tuple[list[QueueRow], str | None]:
    """Return squeue's rows, recently ended jobs included, and why there are none if it failed.

    `selection` is for example `--jobs 14,15` or `--me --name=s-1.0`.
    """
    # A suffix instead of a width: a width would cut long values.
    fields = ",".join(f"{name}:|" for name in _SQUEUE_FIELDS)
    command = ["squeue", "--noheader", "--array", "--states=all", *selection, f"--Format={fields}"]
    answer = call(command)
    if answer.error is None:
        return parse_squeue(answer.out), None
    return [], None if answer.means(Meaning.UNKNOWN_JOB) else answer.error


def parse_squeue(text: str) -> list[QueueRow]:
    """Parse squeue's rows; other lines are ignored."""
    rows = []
    for line in text.splitlines():
        parts = line.split("|")
        # A name or a comment may contain the separator; they come last, and ours contain none.
        if len(parts) < len(_SQUEUE_FIELDS):
            continue
        array, index, raw, state, restarts, used, node, reason, name = parts[:9]
        comment = "|".join(parts[9:]).removesuffix("|")
        if not raw.isdecimal():
            continue
        count = parse_int(restarts)
        word = full_state(state)
        task = SlurmTask(
            job_id=f"{array}_{index}" if index.isdecimal() else raw,
            raw_job_id=raw,
            state="REQUEUED" if word == "PENDING" and count else word,
            # squeue keeps the pending reason of a cancelled job.
            reason="" if reason in ("None", "(null)") or word == "CANCELLED" else reason,
            node=node.strip(),
            elapsed_s=seconds(used),
            restarts=count,
            evidence=(f"squeue: {'|'.join(parts[:8])}",),
            names=(name, *comment.split()[:1]),
        )
        rows.append(QueueRow(task, name, "" if comment == "(null)" else comment))
    return rows


def parse_sacct(text: str) -> dict[str, SlurmTask]:
    """Parse sacct's rows, steps included, into one state for each job or array task."""
    tasks: dict[str, SlurmTask] = {}
    steps: list[tuple[str, str, str]] = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) < len(_SACCT_FIELDS):
            continue
        job_id, raw, state, exit_code, elapsed, node, reason = parts[:7]
        job_id, _, step = job_id.partition(".")
        word = full_state(state)
        if step:
            steps.append((job_id, word, line))
        elif raw.isdecimal() and ("[" not in job_id or not _is_pending(word)):
            # Tasks that are pending, or were cancelled while pending, share a row; squeue lists
            # the former.
            job_id = job_id.partition("_[")[0]
            name = "|".join(parts[7:])
            tasks[job_id] = SlurmTask(
                job_id=job_id,
                raw_job_id=raw,
                state=word,
                reason=_end_reason(state, exit_code, reason),
                node="" if node == "None assigned" else node,
                elapsed_s=parse_int(elapsed),
                evidence=(f"sacct: {'|'.join(parts[:7])}",),
                names=() if name in ("", _NO_NAME_YET) else (name,),
            )
    for job_id, word, line in steps:
        task = tasks.get(job_id)
        if task and word == "OUT_OF_MEMORY" and task.state in ("FAILED", "OUT_OF_MEMORY"):
            rows = (*task.evidence, f"sacct: {line}")
            tasks[job_id] = replace(
                task, state=word, reason="a job step ran out of memory", evidence=rows
            )
    return tasks


def arrays_with_pending_row(text: str) -> set[str]:
    """Return the arrays with a row of sacct that pending tasks share.

    The row's id is "14_[2-7]", and "14" until accounting has heard that it is an array.
    """
    rows = (line.split("|") for line in text.splitlines())
    return {
        array_of(row[0])
        for row in rows
        if len(row) >= len(_SACCT_FIELDS)
        and ("[" in row[0] or row[0].isdecimal())
        and _is_pending(full_state(row[2]))
    }


def _is_pending(state: str) -> bool:
    return SlurmTask("", "", state).pending


def join(
    queued: Mapping[str, SlurmTask] | None, booked: Mapping[str, SlurmTask] | None
) -> dict[str, SlurmTask]:
    """Join the answers of squeue and sacct; None means that there is no answer."""
    listed = queued or {}
    tasks: dict[str, SlurmTask] = {}
    for job_id, task in (booked or {}).items():
        if job_id in listed:
            continue
        if task.final or queued is None:
            tasks[job_id] = task
        else:
            reason = f"squeue no longer lists it, but sacct still reports {task.state}"
            tasks[job_id] = replace(task, state="LOST", reason=reason)
    for job_id, task in listed.items():
        row = (booked or {}).get(job_id)
        # Only accounting has the steps; its row of a requeued job's earlier run does not count.
        final = task.final and row is not None and row.final
        tasks[job_id] = (
            replace(row, restarts=task.restarts, names=task.names or row.names)
            if final and row is not None
            else task
        )
    return tasks


def seconds(text: str) -> int | None:
    """Parse SLURM's [days-][hours:]minutes:seconds; None for words like UNLIMITED."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})", text.strip())
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _end_reason(state: str, exit_code: str, reason: str) -> str:
    """Return how a job ended; of one that has not, why it is pending."""
    code, _, number = exit_code.partition(":")
    word = full_state(state)
    if word == "CANCELLED":
        return state.partition(" ")[2] and f"cancelled {state.partition(' ')[2]}"
    if number == str(_LAUNCH_SIGNAL):
        return "JobLaunchFailure"
    if word == "FAILED":
        return f"ended by signal {number}" if number not in ("", "0") else f"exit code {code}"
    # Accounting keeps the last pending reason of a job that has ended.
    final = SlurmTask("", "", word).final
    return "" if final or reason in ("None", "(null)") else reason
