"""What squeue and sacct print becomes one true state for each job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.record import Cause
from jobs.schedulers.scheduler import QueryResult
from jobs.schedulers.slurm import query as states
from jobs.schedulers.slurm.commands import Answer
from jobs.schedulers.slurm.query import JobStates, join, parse_sacct, parse_squeue, query_states
from jobs.schedulers.slurm.task import SlurmTask

SQUEUE = """\
14|2|14|PENDING|0|0:00||JobArrayTaskLimit|s-1.c0|s-1/0 it's | mine|
14|0|15|RUNNING|0|1-02:03:04|n1|None|s-1.c0|(null)|
14|1|16|COMPLETING|0|0:07|n2|None|s-1.c0||
17|N/A|17|PENDING|1|0:00||BeginTime|s-1.c1|s-1/1|
18|N/A|18|NODE_FAIL|0|0:30|n1|NodeDown|s-1.c2|s-1/2|
"""
SACCT = """\
14_0|15|RUNNING|0:0|90|n1|None|s-1.c0
14_[2-7%2]|14|PENDING|0:0|0|None assigned|None|s-1.c0
17|17|NODE_FAIL|0:0|12|n1|None|s-1.c2
20|20|CANCELLED by 1000|0:0|5|n3|None|s-1.c2
20.batch|20.batch|CANCELLED|0:15|5|n3||batch
21|21|FAILED|1:0|3|n1|None|s-1.c2
21.batch|21.batch|FAILED|1:0|3|n1||batch
21.0|21.0|OUT_OF_MEMORY|0:125|3|n1||s-1.c2
22|22|OUT_OF_ME+|0:125|3|n1|None|s-1.c2
23|23|FAILED|0:53|0|n1|None|s-1.c2
24|24|FAILED|0:11|1|n1|None|s-1.c2
25|25|TIMEOUT|0:0|60|n1|None|s-1.c2
26|26|RUNNING|0:0|60|n1|None|s-1.c2
27|27|COMPLETED|0:0|60|n1|None|s-1.c2
27.0|27.0|OUT_OF_MEMORY|0:125|3|n1||s-1.c2
"""


def joined(queue: str | None, accounting: str | None) -> dict[str, SlurmTask]:
    rows = None if queue is None else {row.task.job_id: row.task for row in parse_squeue(queue)}
    return join(rows, None if accounting is None else parse_sacct(accounting))


def test_squeue_rows_are_read_whole() -> None:
    rows = parse_squeue(SQUEUE)
    assert [row.task.job_id for row in rows] == ["14_2", "14_0", "14_1", "17", "18"]
    assert rows[0].comment == "s-1/0 it's | mine"
    assert rows[0].task.reason == "JobArrayTaskLimit"
    assert rows[1].comment == ""
    assert rows[1].task.raw_job_id == "15"
    assert rows[1].task.elapsed_s == 93784
    assert rows[1].task.node == "n1"


def test_a_state_counts_for_the_sweep_whose_name_the_job_has() -> None:
    tasks = joined(SQUEUE, SACCT)
    assert QueryResult(tasks).task("14_2", ["s-1"]) is tasks["14_2"]
    assert QueryResult(tasks).task("20", ["s-1"]) is tasks["20"]
    assert QueryResult(tasks).task("19", ["s-1"]) is None
    other = QueryResult(tasks).task("14_0", ["s-2", "renamed"])
    assert other is not None
    assert (other.state, other.cause) == ("LOST", Cause.lost)
    assert "'s-1.c0'" in other.reason


def test_accounting_may_hear_of_a_job_s_end_before_its_name() -> None:
    booked = "17|17|COMPLETED|0:0|0|n1|None|allocation\n"
    alone = QueryResult(joined("", booked)).task("17", ["s-1"])
    listed = QueryResult(joined("17|N/A|17|COMPLETED|0|0:00|n1|None|s-1.0||", booked)).task(
        "17", ["s-1"]
    )
    other = QueryResult(joined("17|N/A|17|COMPLETED|0|0:00|n1|None|wrap||", booked)).task(
        "17", ["s-1"]
    )
    expected = [task.state for task in (alone, listed, other) if task]
    assert expected == ["COMPLETED", "COMPLETED", "LOST"]


def test_a_cancelled_job_no_longer_waits_for_anything() -> None:
    (row, *_) = parse_squeue(SQUEUE.replace("PENDING", "CANCELLED"))
    assert (row.task.state, row.task.reason) == ("CANCELLED", "")


@pytest.mark.parametrize(
    ("job_id", "state", "final", "cause"),
    [
        ("14_2", "PENDING", False, None),
        ("14_0", "RUNNING", False, None),
        ("14_1", "COMPLETING", False, None),
        ("17", "REQUEUED", False, None),
        ("18", "NODE_FAIL", True, Cause.node_fail),
        ("20", "CANCELLED", True, Cause.cancelled),
        ("21", "OUT_OF_MEMORY", True, Cause.out_of_memory_host),
        ("22", "OUT_OF_MEMORY", True, Cause.out_of_memory_host),
        ("23", "FAILED", True, Cause.launch_failed),
        ("24", "FAILED", True, None),
        ("25", "TIMEOUT", True, Cause.timeout),
        ("26", "LOST", True, Cause.lost),
        ("27", "COMPLETED", True, None),
    ],
)
def test_two_answers_one_state(job_id: str, state: str, final: bool, cause: Cause | None) -> None:
    task = joined(SQUEUE, SACCT)[job_id]
    assert (task.state, task.final, task.cause) == (state, final, cause)
    assert task.evidence


def test_the_reason_is_how_a_job_ended() -> None:
    tasks = joined(SQUEUE, SACCT)
    assert tasks["20"].reason == "cancelled by 1000"
    assert tasks["24"].reason == "ended by signal 11"
    assert "21.0|OUT_OF_MEMORY" in tasks["21"].evidence[-1]


def test_sacct_alone_decides_when_squeue_does_not_answer() -> None:
    tasks = joined(None, SACCT)
    assert tasks["26"].state == "RUNNING"
    assert tasks["17"].state == "NODE_FAIL"


def test_squeue_alone_is_enough() -> None:
    tasks = joined(SQUEUE, None)
    assert tasks["14_0"].state == "RUNNING"
    assert "26" not in tasks


def test_any_number_of_jobs_costs_one_call_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def answer(command: list[str], **_: object) -> Answer:
        asked.append(command)
        return Answer("") if command[0] == "squeue" else Answer("", "sacct: disabled")

    monkeypatch.setattr(states, "call", answer)
    knowledge = query_states([f"{number}_{number % 3}" for number in range(1, 500)])
    assert sorted(command[0] for command in asked) == ["sacct", "squeue"]
    assert knowledge.accounting_error == "sacct: disabled"
    assert query_states([]) == JobStates()
    assert len(asked) == 2


def test_an_id_unknown_to_squeue_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Answer("", "squeue: slurm_load_jobs error: Invalid job id specified")
    monkeypatch.setattr(states, "call", lambda *_, **__: refused)
    assert states.query_queue("--jobs", "9") == ([], None)


ROWS = st.text("0123456789_|[]%:.-+ \nABCDEFGNOPRTU", max_size=200) | st.text(max_size=200)


@given(ROWS, ROWS)
def test_no_output_makes_a_traceback(queue: str, accounting: str) -> None:
    for task in joined(queue, accounting).values():
        assert isinstance(task.final, bool)


def test_a_job_whose_name_accounting_has_not_heard_yet_is_still_ours() -> None:
    early = "14|14|FAILED|1:0|0|n1|None|allocation\n"
    listed = "14|N/A|14|FAILED|0|0:01|n1|NonZeroExitCode|s-1.c0||\n"
    for states_ in (joined(listed, early), joined("", early)):
        state = QueryResult(states_).task("14", ["s-1"])
        assert state is not None
        assert (state.state, state.reason) == ("FAILED", "exit code 1")
    other = joined("14|N/A|14|FAILED|0|0:01|n1|None|theirs||\n", early)
    state = QueryResult(other).task("14", ["s-1"])
    assert state is not None
    assert state.state == "LOST"


def test_what_an_ended_job_once_waited_for_is_not_how_it_ended() -> None:
    # Seen of jobs that were requeued and waited for their node.
    rows = parse_sacct("5|5|TIMEOUT|0:0|60|n3|ReqNodeNotAvail|s-1.0\n")
    assert (rows["5"].state, rows["5"].reason) == ("TIMEOUT", "")
    rows = parse_sacct("5|5|PENDING|0:0|0|None assigned|ReqNodeNotAvail|s-1.0\n")
    assert rows["5"].reason == "ReqNodeNotAvail"
