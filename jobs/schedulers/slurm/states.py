"""What the scheduler says of jobs: one squeue and one sacct call, joined into one state each.

squeue is right at once and forgets; sacct remembers and lags. A job that squeue still lists as
waiting or running is exactly that, whatever sacct says of an earlier run of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from jobs.record import Cause
from jobs.schedulers.slurm.commands import call
from jobs.text import parse_int

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"})
RUNNING = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
)
LOST = "LOST"
"""Our own word: the scheduler was asked, and knows the job no longer, or never did."""

CAUSES: Mapping[str, Cause] = {
    "TIMEOUT": Cause.timeout,
    "DEADLINE": Cause.timeout,
    "OUT_OF_MEMORY": Cause.out_of_memory_host,
    "NODE_FAIL": Cause.node_fail,
    "BOOT_FAIL": Cause.node_fail,
    "PREEMPTED": Cause.preempted,
    "CANCELLED": Cause.cancelled,
    "REVOKED": Cause.cancelled,
    LOST: Cause.lost,
}
_KNOWN = (
    *WAITING,
    *RUNNING,
    *CAUSES,
    *("COMPLETED", "FAILED", "SPECIAL_EXIT", "LAUNCH_FAILED", "RECONFIG_FAIL"),
)
_SQUEUE_FIELDS = (
    *("ArrayJobID", "ArrayTaskID", "JobID", "State", "RestartCnt", "TimeUsed", "NodeList"),
    *("Reason", "Name", "Comment"),
)
_SACCT_FIELDS = (
    *("JobID", "JobIDRaw", "State", "ExitCode", "ElapsedRaw", "NodeList", "Reason"),
    "JobName",
)
_NO_NAME_YET = "allocation"  # what sacct prints of a job whose start it has not heard of
# slurmstepd ends a batch step that could not be launched with this "signal".
_LAUNCH_SIGNAL = 53
# What a shell and env end with where a program cannot be run; the entry never does.
_NOT_RUN = frozenset({"exit code 126", "exit code 127"})


@dataclass(frozen=True)
class TaskState:
    """One job, or one task of an array.

    Attributes:
        job_id: As people type it: "14", or "14_2" for a task.
        raw_job_id: SLURM's own number of it.
        state: SLURM's word, or LOST; REQUEUED for a job that waits to run again.
        reason: Why it waits, or how it ended.
        node: Where it runs or ran.
        elapsed_s: Seconds that it has run.
        restarts: How often it was requeued; None where only squeue could say.
        evidence: The rows that show the state, as the commands printed them.
        names: What the job is called: its name, and where known the first word of its comment.
    """

    job_id: str
    raw_job_id: str
    state: str
    reason: str = ""
    node: str = ""
    elapsed_s: int | None = None
    restarts: int | None = None
    evidence: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether it can no longer change."""
        return self.state not in WAITING and self.state not in RUNNING

    @property
    def cause(self) -> Cause | None:
        """Why it ended, as far as the scheduler can tell; a job's own files may know better."""
        if self.state in CAUSES:
            return CAUSES[self.state]
        launch = "Launch" in self.reason or self.reason in _NOT_RUN
        failed = self.final and (launch or self.state == "LAUNCH_FAILED")
        return Cause.launch_failed if failed else None


@dataclass(frozen=True)
class QueueRow:
    """One row of squeue, with what identifies a submission of ours."""

    task: TaskState
    name: str
    comment: str


@dataclass(frozen=True)
class Knowledge:
    """What is known of the jobs that were asked for, and what could not be asked.

    Attributes:
        tasks: By job id as people type it.
        queue_error: Why squeue gave no answer.
        accounting_error: Why sacct gave none.
        unsure: Arrays of which accounting has tasks that wait, and the controller none at all.
    """

    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    queue_error: str | None = None
    accounting_error: str | None = None
    unsure: frozenset[str] = frozenset()


def ask_states(job_ids: Iterable[str]) -> Knowledge:
    """Asks squeue and sacct once each, at the same time, for any number of jobs.

    Args:
        job_ids: Jobs, arrays or tasks: "14" or "14_2"; arrays are asked for whole.

    Returns:
        A state for every task that either of them knows.
    """
    asked = sorted(set(map(array_of, job_ids)), key=int)
    if not asked:
        return Knowledge()
    listed = ",".join(asked)
    with ThreadPoolExecutor(2) as pool:
        queue = pool.submit(ask_queue, "--jobs", listed)
        accounting = pool.submit(
            call,
            # Without -X: only a step's own row tells that it ran out of memory.
            ["sacct", "-n", "--parsable2", "--jobs", listed, "--format", ",".join(_SACCT_FIELDS)],
        )
    rows, queue_error = queue.result()
    answer = accounting.result()
    ended = None if answer.error else parse_sacct(answer.out)
    waiting = None if queue_error else {row.task.job_id: row.task for row in rows}
    unsure = waiting_arrays(answer.out) - set(map(array_of, waiting or ()))
    return Knowledge(join(waiting, ended), queue_error, answer.error, frozenset(unsure))


def array_of(job_id: str) -> str:
    """The array of a task, as people type it; of any other job, the job."""
    return job_id.partition("_")[0]


def ask_queue(*selection: str) -> tuple[list[QueueRow], str | None]:
    """Asks squeue for jobs, those it will soon forget included.

    Args:
        selection: Further arguments: `--jobs 14,15`, `--name s-1.c0`, `--me`.

    Returns:
        The rows, and why there are none if it could not be asked.
    """
    # A suffix instead of a width: a width would cut long values.
    fields = ",".join(f"{name}:|" for name in _SQUEUE_FIELDS)
    command = ["squeue", "--noheader", "--array", "--states=all", *selection, f"--Format={fields}"]
    answer = call(command)
    if answer.error is None:
        return parse_squeue(answer.out), None
    if "Invalid job id" in answer.error:  # how squeue says that it knows none of them
        return [], None
    return [], answer.error


def parse_squeue(text: str) -> list[QueueRow]:
    """Reads squeue's rows; a row that is none is left out."""
    rows = []
    for line in text.splitlines():
        parts = line.split("|")
        # A name or a comment may hold the separator; they come last, and ours hold none.
        if len(parts) < len(_SQUEUE_FIELDS):
            continue
        array, index, raw, state, restarts, used, node, reason, name = parts[:9]
        comment = "|".join(parts[9:]).removesuffix("|")
        if not raw.isdecimal():
            continue
        count = parse_int(restarts)
        word = _word(state)
        task = TaskState(
            job_id=f"{array}_{index}" if index.isdecimal() else raw,
            raw_job_id=raw,
            state="REQUEUED" if word == "PENDING" and count else word,
            # Of a cancelled job squeue still says what it was waiting for.
            reason="" if reason in ("None", "(null)") or word == "CANCELLED" else reason,
            node=node.strip(),
            elapsed_s=seconds(used),
            restarts=count,
            evidence=(f"squeue: {'|'.join(parts[:8])}",),
            names=(name, *comment.split()[:1]),
        )
        rows.append(QueueRow(task, name, "" if comment == "(null)" else comment))
    return rows


def parse_sacct(text: str) -> dict[str, TaskState]:
    """Reads sacct's rows, steps included, into one state for each job or array task."""
    found: dict[str, TaskState] = {}
    steps: list[tuple[str, str, str]] = []
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) < len(_SACCT_FIELDS):
            continue
        job_id, raw, state, exit_code, elapsed, node, reason = parts[:7]
        job_id, _, step = job_id.partition(".")
        if step:
            steps.append((job_id, _word(state), line))
        elif raw.isdecimal() and ("[" not in job_id or _word(state) not in WAITING):
            # Tasks that wait, or were cancelled as they did, share a row; squeue lists the former.
            job_id = job_id.partition("_[")[0]
            found[job_id] = TaskState(
                job_id=job_id,
                raw_job_id=raw,
                state=_word(state),
                reason=_ended_how(state, exit_code, reason),
                node="" if node == "None assigned" else node,
                elapsed_s=parse_int(elapsed),
                evidence=(f"sacct: {'|'.join(parts[:7])}",),
                names=_booked_names("|".join(parts[7:])),
            )
    for job_id, word, line in steps:
        task = found.get(job_id)
        if task and word == "OUT_OF_MEMORY" and task.state in ("FAILED", "OUT_OF_MEMORY"):
            shown = (*task.evidence, f"sacct: {line}")
            found[job_id] = replace(
                task, state=word, reason="its step ran out of memory", evidence=shown
            )
    return found


def waiting_arrays(text: str) -> set[str]:
    """The arrays of which sacct has a row that tasks share as they wait.

    Its id is "14_[2-7]", and "14" until accounting has heard that it is an array.
    """
    rows = (line.split("|") for line in text.splitlines())
    return {
        array_of(row[0])
        for row in rows
        if len(row) >= len(_SACCT_FIELDS)
        and ("[" in row[0] or row[0].isdecimal())
        and _word(row[2]) in WAITING
    }


def _booked_names(name: str) -> tuple[str, ...]:
    """What accounting calls a job; none where only its end has arrived there so far."""
    return () if name in ("", _NO_NAME_YET) else (name,)


def join(
    queue: Mapping[str, TaskState] | None, accounting: Mapping[str, TaskState] | None
) -> dict[str, TaskState]:
    """Joins both answers; None stands for an answer that could not be had."""
    joined: dict[str, TaskState] = {}
    for job_id in {**(accounting or {}), **(queue or {})}:
        listed = (queue or {}).get(job_id)
        booked = (accounting or {}).get(job_id)
        joined[job_id] = _joined(listed, booked, queue is not None)
    return joined


def _joined(listed: TaskState | None, booked: TaskState | None, asked_queue: bool) -> TaskState:
    if listed is None:
        assert booked is not None
        if booked.final or not asked_queue:
            return booked
        reason = f"squeue lists it no longer, and sacct still says {booked.state}"
        return replace(booked, state=LOST, reason=reason)
    # Only accounting sees into the steps; a row of a requeued job's earlier run does not count.
    if listed.final and booked is not None and booked.final:
        return replace(booked, restarts=listed.restarts, names=listed.names or booked.names)
    return listed


def state_of(
    job_id: str, sweeps: Iterable[str], states: Mapping[str, TaskState]
) -> TaskState | None:
    """The state of a sweep's job, LOST where its number is another job's by now.

    A controller that was killed may have forgotten the jobs of its last seconds; it then gives
    their numbers a second time.

    Args:
        job_id: As people type it.
        sweeps: The sweep's names, by one of which its jobs are called.
        states: What the scheduler said.

    Returns:
        The state; None where nothing was said.
    """
    state = states.get(job_id)
    if state is None or not state.names:
        return state
    if not {name.rpartition(".")[0] for name in state.names}.isdisjoint(sweeps):
        return state
    reason = f"SLURM has given the number {job_id} to another job, {state.names[0]!r}"
    return TaskState(job_id, state.raw_job_id, LOST, reason, evidence=state.evidence)


def seconds(used: str) -> int | None:
    """SLURM's [days-][hours:]minutes:seconds as seconds; None for words like UNLIMITED."""
    match = re.fullmatch(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})", used.strip())
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _word(state: str) -> str:
    """SLURM's state without "by 1000" and, where a column was too narrow, whole again."""
    word = state.split()[0] if state.split() else "UNKNOWN"
    if not word.endswith("+"):
        return word
    stem = word[:-1]
    return next((known for known in _KNOWN if known.startswith(stem)), stem)


def _ended_how(state: str, exit_code: str, reason: str) -> str:
    code, _, number = exit_code.partition(":")
    word = _word(state)
    if word == "CANCELLED":
        return state.partition(" ")[2] and f"cancelled {state.partition(' ')[2]}"
    if number == str(_LAUNCH_SIGNAL):
        return "JobLaunchFailure"
    if word == "FAILED":
        return f"ended by signal {number}" if number not in ("", "0") else f"exit code {code}"
    # Of a job that has ended, accounting still says what it waited for last.
    ended = word not in WAITING | RUNNING
    return "" if ended or reason in ("None", "(null)") else reason
