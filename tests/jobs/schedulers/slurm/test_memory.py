"""What became of tasks of which squeue and sacct have no row."""

from __future__ import annotations

from collections.abc import Set

import pytest

from jobs.record import Cause
from jobs.schedulers.scheduler import QueryResult
from jobs.schedulers.slurm import memory
from jobs.schedulers.slurm import query as states
from jobs.schedulers.slurm.commands import Answer
from jobs.schedulers.slurm.memory import LastSeen, infer_missing, lost
from jobs.schedulers.slurm.query import JobStates, query_states
from jobs.schedulers.slurm.task import SlurmTask

# LastSeen: scancel 9_3 of an array whose task 0 ran and whose others waited.
QUEUE = """\
9|4|9|PENDING|0|0:00||JobArrayTaskLimit|s-1.0|s|
9|0|10|RUNNING|0|0:01|n1|None|s-1.0|s|
"""
WAITED = {"9_3": SlurmTask("9_3", "9", "PENDING")}
DISABLED = Answer("", "sacct: Slurm accounting storage is disabled")
CONFIG = "MessageTimeout = 10 sec\nMinJobAge               = 300 sec\n"


class Slurm:
    """What the commands answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = {"scontrol": Answer(CONFIG)}
        for module in (states, memory):
            monkeypatch.setattr(module, "call", lambda command: self.answers[command[0]])

    def infer(
        self,
        name: str,
        queue: str,
        accounting: Answer,
        seen: LastSeen = LastSeen(),  # noqa: B008 - frozen
        began: Set[str] = frozenset(),
    ) -> SlurmTask:
        """What is expected of a task that has no row."""
        self.answers |= {"squeue": Answer(queue), "sacct": accounting}
        knowledge = query_states([name])
        assert name not in knowledge.tasks
        return infer_missing({name}, knowledge, seen, began)[name]


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    return Slurm(monkeypatch)


def test_tasks_that_were_cancelled_as_they_waited_share_one_row(slurm: Slurm) -> None:
    # LastSeen: scancel of an array of which two tasks had begun.
    queue = """\
9|N/A|9|CANCELLED|0|0:00||JobArrayTaskLimit|s|s|
9|0|10|CANCELLED|0|0:05|n1|None|s|s|
"""
    booked = """\
9_0|10|CANCELLED by 0|0:0|5|n1|None|s-1.0
9_[1-39%3]|9|CANCELLED by 0|0:0|0|None assigned|None|s-1.0
"""
    for accounting in (Answer(booked), DISABLED):
        task = slurm.infer("9_39", queue, accounting)
        assert (task.job_id, task.state) == ("9_39", "CANCELLED")
        # One that ran and was forgotten since is not among them.
        assert slurm.infer("9_1", queue, accounting, began={"9_1"}).state == "LOST"
    assert slurm.infer("9_5", "", Answer(booked)).reason == "cancelled by 0"
    # By whom is known later than that.
    seen = LastSeen({"9_5": SlurmTask("9_5", "9", "CANCELLED")}, 1.0)
    assert slurm.infer("9_5", queue, Answer(booked), seen).reason == "cancelled by 0"
    ran = SlurmTask("9_5", "15", "COMPLETED", node="n1")
    assert slurm.infer("9_5", queue, Answer(booked), LastSeen({"9_5": ran}, 1.0)) == ran
    ended = "9|9|COMPLETED|0:0|5|n1|None|allocation\n"  # its last task, by the array's own number
    assert slurm.infer("9_5", "", Answer(ended)).state == "LOST"


def test_a_task_that_was_cancelled_as_it_waited_leaves_no_row(slurm: Slurm) -> None:
    booked = "9_0|10|COMPLETED|0:0|5|n1|None|s-1.0\n"
    forgotten = "9_[3-4%1]|9|PENDING|0:0|0|None assigned|None|s-1.0\n"
    no_array_yet = "9|9|PENDING|0:0|0|None assigned|None|s-1.0\n"
    for queued, accounted in (
        (QUEUE, ""),
        (QUEUE, no_array_yet),
        (QUEUE, forgotten),
        ("", booked),  # the next day
    ):
        task = slurm.infer("9_3", queued, Answer(accounted))
        assert (task.state, task.cause) == ("CANCELLED", Cause.cancelled)
        assert "never started" in task.reason
        assert task.evidence
        assert QueryResult({"9_3": task}).task("9_3", ["s-1"]) == task
        other = QueryResult({"9_3": task}).task("9_3", ["s-2"])
        assert other is not None
        assert other.state == "LOST"
        # Accounting may hear of what ran long after squeue has forgotten it.
        assert slurm.infer("9_3", queued, Answer(accounted), began={"9_3"}).state == "LOST"
    # A controller that has forgotten the whole array; accounting that cannot say what began.
    for waiting in (forgotten, no_array_yet):
        assert slurm.infer("9_3", "", Answer(booked + waiting)).state == "LOST"
    assert slurm.infer("9_3", "", Answer("")).state == "LOST"


@pytest.mark.parametrize(
    ("seen", "config", "state"),
    [
        (LastSeen(WAITED, 15.0), CONFIG, "CANCELLED"),
        (LastSeen(WAITED, 290.0), CONFIG, "LOST"),  # both answers took their time
        (LastSeen(WAITED, 4000.0), CONFIG, "LOST"),
        (LastSeen(WAITED, 4000.0), "MinJobAge = 0 sec\n", "CANCELLED"),  # it forgets nothing
        (LastSeen(WAITED, 1.0), "MinJobAge = 2 sec\n", "LOST"),
        (LastSeen(WAITED, -5.0), CONFIG, "LOST"),  # the clock was set back
        (LastSeen(WAITED, 15.0), "", "LOST"),
        (LastSeen({"9_3": SlurmTask("9_3", "11", "RUNNING")}, 15.0), CONFIG, "LOST"),
        (LastSeen(), CONFIG, "LOST"),
    ],
)
def test_without_accounting_a_task_that_just_waited_cannot_have_run(
    seen: LastSeen, config: str, state: str, slurm: Slurm
) -> None:
    slurm.answers["scontrol"] = Answer(config) if config else Answer("", "scontrol: no")
    assert slurm.infer("9_3", QUEUE, DISABLED, seen).state == state
    assert slurm.infer("9_3", "", DISABLED, seen).state == "LOST"  # the array is forgotten
    assert slurm.infer("9_3", QUEUE, DISABLED, seen, {"9_3"}).state == "LOST"


def test_how_a_job_ended_stays_known_when_slurm_forgets_it(slurm: Slurm) -> None:
    cancelled = SlurmTask("9_3", "9", "CANCELLED", "cancelled by 0")
    failed = SlurmTask("9_3", "11", "NODE_FAIL", node="n1")
    for before in (cancelled, failed):
        seen = LastSeen({"9_3": before}, 10_000.0)
        assert slurm.infer("9_3", "", DISABLED, seen) == before
        assert slurm.infer("9_3", "", Answer(""), seen) == before
    ran = {"9_3"}
    assert slurm.infer("9_3", "", DISABLED, LastSeen({"9_3": failed}, 9.0), ran) == failed
    # Files say that it ran after all.
    assert slurm.infer("9_3", "", DISABLED, LastSeen({"9_3": cancelled}, 9.0), ran).state == "LOST"


def test_a_job_that_nobody_knows_is_lost_with_the_reason() -> None:
    assert lost("9", JobStates()).state == "LOST"
    reason = lost("9", JobStates(accounting_error="sacct is not installed here")).reason
    assert "sacct is not installed here" in reason


def test_a_lost_task_without_a_log_names_the_possible_causes(slurm: Slurm) -> None:
    may_be = "it left no log"
    assert may_be in slurm.infer("9_3", QUEUE, DISABLED).reason
    assert may_be not in slurm.infer("9_3", QUEUE, DISABLED, began={"9_3"}).reason
