"""The state of a point: by its record, else by the scheduler, else by the files of its job."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from jobs.process import current_process
from jobs.record import Cause, Outcome, Process, Record, Started, State, to_json
from jobs.schedulers.scheduler import Scheduler
from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from jobs.status.point_history import PointHistory
from jobs.status.survey import survey
from jobs.sweeps.ledger import SUBMISSION_JSON, JobLine
from jobs.sweeps.selection import Selection
from tests.builders.ledger import FakeSweep
from tests.builders.records import point_config, record
from tests.builders.slurm import slurm

POINT = "p-0000"
MOMENT = "2025-11-03T07:59:30.000+00:00"
HERE = current_process()
KILLED = HERE.model_copy(update={"start_ticks": 1})
ELSEWHERE = HERE.model_copy(update={"host": "elsewhere", "pid": 77})


@pytest.fixture
def sweep(tmp_path: Path) -> FakeSweep:
    """A sweep of one point, which job 14 runs."""
    planned = FakeSweep.plan(tmp_path, [point_config()])
    planned.submit("14", [POINT], array=False)
    return planned


def histories(sweep: FakeSweep, *schedulers: Scheduler) -> tuple[PointHistory, ...]:
    return survey([Selection(sweep.ledger.root)], schedulers, lambda: 1000.0).points


def history(sweep: FakeSweep, *schedulers: Scheduler) -> PointHistory:
    (point,) = histories(sweep, *schedulers)
    return point


def error(cause: Cause, job_id: str = "14") -> Record:
    return record(POINT, point_config(), Outcome.ERROR, cause=cause, job_id=job_id)


# By the scheduler.


@pytest.mark.parametrize(
    ("word", "started", "state", "cause"),
    [
        ("PENDING", False, State.PENDING, None),
        ("REQUEUED", True, State.REQUEUED, None),
        ("RUNNING", False, State.PENDING, None),  # queued behind other points of its job
        ("RUNNING", True, State.RUNNING, None),
        ("COMPLETING", True, State.RUNNING, None),
        ("COMPLETED", True, State.ERROR, Cause.lost),
        ("TIMEOUT", True, State.ERROR, Cause.timeout),
        ("CANCELLED", False, State.ERROR, Cause.cancelled),
    ],
)
def test_without_a_record_the_scheduler_decides(
    sweep: FakeSweep, word: str, started: bool, state: State, cause: Cause | None
) -> None:
    if started:
        sweep.attempt("14", POINT)
    point = history(sweep, slurm({"14": word}, node="n1", elapsed_s=7))
    assert (point.state, point.cause, point.node) == (state, cause, "n1")
    assert point.needs_run == (state is State.ERROR)
    if point.finished:
        assert point.elapsed_s == 7


def test_a_job_id_that_belongs_to_another_job_is_lost(sweep: FakeSweep) -> None:
    own, other = f"{sweep.ledger.sweep_id}.0", "s-20260101-000000-000000.0"
    states = {}
    for name in (own, other, "wrap"):
        point = history(sweep, slurm({"14": "RUNNING"}, names=(name,)))
        states[name] = (point.state, point.cause)
    lost = (State.ERROR, Cause.lost)
    assert states == {own: (State.PENDING, None), other: lost, "wrap": lost}


def test_a_forgotten_job_is_lost_unless_the_scheduler_is_down(sweep: FakeSweep) -> None:
    point = history(sweep, slurm({"15": "RUNNING"}))
    assert (point.state, point.cause) == (State.ERROR, Cause.lost)
    (sweep.ledger.root / LAST_SEEN).unlink()
    point = history(sweep, slurm({}, queue_error="Unable to contact slurm controller"))
    assert (point.state, point.cause) == (State.PENDING, None)


@pytest.mark.parametrize("text", [json.dumps({"python": "/nope/python"}), "[]", "{", None])
def test_an_interpreter_missing_on_the_node_is_named(sweep: FakeSweep, text: str | None) -> None:
    folder = sweep.ledger.root / "submissions" / "0"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / SUBMISSION_JSON).write_text(text)
    point = history(sweep, slurm({"14": "FAILED"}, reason="exit code 127", node="n1"))
    assert (point.state, point.cause) == (State.ERROR, Cause.launch_failed)
    assert ("/nope/python" in point.reason) == (text is not None and "nope" in text)


# By its record.


def test_a_final_record_is_not_queried_for(sweep: FakeSweep) -> None:
    sweep.attempt("14", POINT, record(POINT, point_config(), Outcome.FAILED))
    scheduler = slurm({"14": "RUNNING"})
    point = history(sweep, scheduler)
    assert (point.state, point.elapsed_s, point.needs_run) == (State.FAILED, 72.5, False)
    assert scheduler.queries == []


def test_a_later_submission_replaces_an_earlier_record(sweep: FakeSweep) -> None:
    sweep.attempt("14", POINT, error(Cause.node_fail))
    sweep.submit("15", [POINT], array=False)
    assert history(sweep, slurm({"15": "PENDING"})).state is State.PENDING
    sweep.attempt("15", POINT, record(POINT, point_config(), job_id="15"))
    point = history(sweep)
    assert (point.state, point.job_id, len(point.attempts)) == (State.PASSED, "15", 2)


@pytest.mark.parametrize(
    ("word", "restarts", "state", "cause"),
    [
        ("PENDING", 1, State.REQUEUED, None),
        ("RUNNING", 0, State.ERROR, Cause.preempted),  # the same run goes on with other points
        ("RUNNING", 1, State.REQUEUED, None),
        ("CANCELLED", 0, State.ERROR, Cause.preempted),
        ("CANCELLED", 1, State.ERROR, Cause.cancelled),
    ],
)
def test_a_requeued_job_replaces_an_infrastructure_error(
    sweep: FakeSweep, word: str, restarts: int, state: State, cause: Cause | None
) -> None:
    sweep.attempt("14", POINT, error(Cause.preempted))
    point = history(sweep, slurm({"14": word}, restarts=restarts))
    assert (point.state, point.cause) == (state, cause)


def test_restarts_that_accounting_does_not_report_are_remembered(sweep: FakeSweep) -> None:
    sweep.attempt("14", POINT, error(Cause.storage))
    history(sweep, slurm({"14": "RUNNING"}, restarts=1))
    assert history(sweep, slurm({"14": "CANCELLED"})).cause is Cause.cancelled


def test_a_new_attempt_of_a_requeued_job_is_running(sweep: FakeSweep) -> None:
    sweep.attempt("14", POINT, error(Cause.preempted))
    sweep.attempt("14", POINT, None, number=2)
    assert history(sweep, slurm({"14": "RUNNING"})).state is State.RUNNING


# By the files of its job.


def test_without_a_scheduler_a_log_shows_the_end(sweep: FakeSweep) -> None:
    assert history(sweep).state is State.PENDING
    sweep.attempt("14", POINT)
    assert history(sweep).state is State.RUNNING
    sweep.job_log("14_0_log.err", "slurmstepd: error: *** JOB 14 ON n1 CANCELLED AT x ***\n")
    point = history(sweep)
    assert (point.state, point.cause) == (State.ERROR, Cause.cancelled)
    (quote,) = point.evidence
    assert quote.lines[0].startswith("slurmstepd: erro")
    assert Path(quote.file or "").name == "14_0_log.err"


def test_a_point_of_slurm_whose_process_has_ended_is_not_lost_yet(sweep: FakeSweep) -> None:
    """The runner writes the record within a second, and only SLURM knows if there is a runner."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    sweep.attempt("14", POINT, pid=ended.pid, host=HERE.host)
    assert history(sweep).state is State.RUNNING


def local_sweep(folder: Path, runner: Process, *, with_started: bool) -> FakeSweep:
    """A local run of three points: one passed, one started, one queued."""
    configs = [point_config(shape__seq_len=length) for length in (128, 256, 384)]
    sweep = FakeSweep.plan(folder, configs)
    ids = list(sweep.points)
    line = JobLine(job_id="local-1", tasks={"0": ids}, scheduler="local", submitted_at=MOMENT)
    sweep.ledger.add_job(line.model_copy(update={"runner": runner}))
    sweep.attempt("local-1", ids[0], record(ids[0], configs[0], job_id="local-1"))
    attempt = sweep.attempt("local-1", ids[1], pid=runner.pid, host="elsewhere")
    if not with_started:
        (attempt / "started.json").unlink()
    return sweep


@pytest.mark.parametrize("with_started", [False, True])
@pytest.mark.parametrize("runner", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
def test_a_local_run_goes_on_unless_its_process_is_known_to_have_ended(
    tmp_path: Path, runner: Process, with_started: bool
) -> None:
    sweep = local_sweep(tmp_path, runner, with_started=with_started)
    passed, started, queued = histories(sweep)
    assert passed.state is State.PASSED
    assert (started.state, started.cause) == (State.RUNNING, None)
    assert (queued.state, queued.cause) == (State.PENDING, None)
    if runner is ELSEWHERE:  # who can check it, and since when it runs
        since = "2025-11-03T08:00:00.000+00:00" if with_started else MOMENT
        assert all(word in started.reason for word in (since, "elsewhere", "77"))
        assert MOMENT in queued.reason


def test_points_of_a_killed_local_run_are_lost_or_planned_again(tmp_path: Path) -> None:
    sweep = local_sweep(tmp_path, KILLED, with_started=False)
    _, started, queued = histories(sweep)
    assert (started.state, started.cause) == (State.ERROR, Cause.lost)
    assert (queued.state, queued.needs_run) == (State.PLANNED, True)
    assert f"resume {sweep.ledger.sweep_id}" in queued.reason


# Attempts, nodes and times.


def test_an_attempt_of_an_earlier_job_has_no_time_and_node(sweep: FakeSweep) -> None:
    attempt = sweep.attempt("14", POINT, host="n7")
    os.utime(attempt / "started.json", (0, 0))  # not by the moment that the node's clock wrote
    point = history(sweep, slurm({"14": "RUNNING"}))
    assert (point.node, point.elapsed_s) == ("n7", 1000.0)
    sweep.submit("15", [POINT], array=False)
    later = sweep.attempt("15", POINT)
    (later / "started.json").unlink()
    point = history(sweep, slurm({"15": "RUNNING"}))
    assert (point.state, point.node, point.elapsed_s) == (State.RUNNING, "", None)


@pytest.mark.parametrize("late", ["2026-01-01T10:00:00+00:00", None])
def test_attempts_are_ordered_by_number_not_by_clocks(sweep: FakeSweep, late: str | None) -> None:
    for number, moment in enumerate(("2026-01-01T11:00:00+00:00", late), 1):
        path = sweep.attempt("14", POINT, number=number) / "started.json"
        started = Started.model_validate_json(path.read_text())
        path.unlink()
        if moment is not None:
            path.write_text(to_json(started.model_copy(update={"started_at": moment})))
    (path.parent / "record.json").write_text(to_json(record(POINT, point_config())))
    point = history(sweep)
    assert (point.state, point.result().attempt) == (State.PASSED, 2)


@pytest.mark.parametrize(("nodes", "node"), [("n1", "n1"), ("n[1-2]", "vm"), (None, "vm")])
def test_a_node_has_its_scheduler_s_name(sweep: FakeSweep, nodes: str | None, node: str) -> None:
    variables = {} if nodes is None else {"SLURM_JOB_NODELIST": nodes}
    sweep.attempt("14", POINT, record(POINT, point_config(), host="vm", variables=variables))
    assert history(sweep).node == node


def test_a_record_written_during_the_query_counts(sweep: FakeSweep) -> None:
    def end(job_ids: list[str]) -> JobStates:
        assert job_ids == ["14"]
        sweep.attempt("14", POINT, record(POINT, point_config()))
        return JobStates()  # squeue no longer lists it, and sacct does not yet

    assert history(sweep, SlurmScheduler(end)).state is State.PASSED


def test_an_unrecorded_submission_is_known_by_its_attempt(sweep: FakeSweep) -> None:
    sweep.ledger.jobs_jsonl.unlink()
    sweep.attempt("14", POINT)
    scheduler = slurm({"14": "RUNNING"})
    assert history(sweep, scheduler).state is State.RUNNING
    assert scheduler.queries == [["14"]]
