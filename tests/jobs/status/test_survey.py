"""Every selected point with one query of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobs.record import Cause, Identity, Outcome, Record, State
from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.schedulers.slurm.query import JobStates
from jobs.status.survey import Survey, survey
from jobs.sweeps.selection import Selection
from tests.builders.ledger import FakeSweep
from tests.builders.slurm import FakeSlurm, job_states


@dataclass
class Sweep(FakeSweep):
    """A sweep of three points in one array, and a SLURM that answers from a table."""

    slurm: FakeSlurm = field(default_factory=FakeSlurm)

    def passed(self, number: int, outcome: Outcome = Outcome.PASSED) -> None:
        point_id = f"p-{number:04d}"
        identity = Identity(point_id=point_id, job_id=f"14_{number}")
        left = Record(identity=identity, config={}, outcome=outcome, duration_s=3.0)
        self.attempt("14", point_id, left)

    def look(self, at: float = 1000.0) -> Survey:
        return survey([Selection(self.ledger.root)], [self.slurm], lambda: at)


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    planned = Sweep.plan(tmp_path, [{}, {}, {}])
    planned.submit("14", list(planned.points))
    return planned


def tasks(*words: str | None) -> JobStates:
    """SLURM's words for the three tasks, None for a task that it does not list."""
    states = {f"14_{number}": word for number, word in enumerate(words) if word}
    return job_states(states, node="n1", elapsed_s=7)


def test_points_without_a_record_are_queried_for_at_once(sweep: Sweep) -> None:
    sweep.passed(0)
    sweep.slurm.states = tasks(None, "PENDING", "TIMEOUT")
    seen = sweep.look()
    assert sweep.slurm.queries == [["14_1", "14_2"]]
    assert seen.totals == {"PASSED": 1, "PENDING": 1, "ERROR": 1}
    assert seen.points[2].cause == "timeout"
    assert (seen.points[2].node, seen.points[2].elapsed_s) == ("n1", 7)
    assert seen.points[0].elapsed_s == 3.0
    assert seen.under_way


def test_a_task_that_was_cancelled_while_pending_stays_cancelled(sweep: Sweep) -> None:
    sweep.slurm.states = tasks("RUNNING", "PENDING")
    assert [point.cause for point in sweep.look().points] == [None, None, "cancelled"]
    sweep.slurm.states = tasks("COMPLETED")
    sweep.look()
    sweep.slurm.states = JobStates({}, None, "sacct: disabled")  # squeue has forgotten all
    for at in (1010.0, 9000.0):
        assert [point.cause for point in sweep.look(at).points][1:] == ["cancelled"] * 2


def test_while_the_controller_is_down_the_last_states_are_shown(sweep: Sweep) -> None:
    sweep.slurm.states = tasks("RUNNING", "PENDING", "PENDING")
    assert [point.state for point in sweep.look(1000.0).points] == [State.PENDING] * 3
    sweep.slurm.states = job_states({"14_1": "NODE_FAIL"}, queue_error="squeue: no controller")
    seen = sweep.look(1400.0)
    assert [point.cause for point in seen.points] == [None, Cause.node_fail, None]
    assert seen.answer.unreachable == "squeue: no controller"
    assert "7 min" in seen.notes[0]
    (sweep.ledger.root / LAST_SEEN).write_text("damaged")
    assert "no states are known" in sweep.look().notes[0]


def test_a_cluster_without_accounting_is_noted_once(sweep: Sweep) -> None:
    states = {f"14_{number}": "PENDING" for number in range(3)}
    sweep.slurm.states = job_states(states, accounting_error="disabled", no_accounting=True)
    assert len(sweep.look().notes) == 1


def test_without_a_scheduler_submitted_points_are_pending(sweep: Sweep) -> None:
    seen = survey([Selection(sweep.ledger.root)], [])
    assert seen.totals == {"PENDING": 3}
    assert seen.notes == ()


def test_the_exit_code_follows_from_all_points(sweep: Sweep) -> None:
    for number in (0, 1):
        sweep.passed(number)
    sweep.slurm.states = tasks(None, None, "PENDING")
    assert sweep.look().exit_code(allow_unsupported=False) == 3
    sweep.passed(2, Outcome.UNSUPPORTED)
    codes = [sweep.look().exit_code(allow_unsupported=allowed) for allowed in (False, True)]
    assert codes == [3, 0]


def test_a_plan_that_lost_points_never_exits_with_0(sweep: Sweep) -> None:
    for number in range(3):
        sweep.passed(number)
    assert sweep.look().exit_code(allow_unsupported=False) == 0
    lines = sweep.ledger.plan_jsonl.read_text().splitlines(keepends=True)
    sweep.ledger.plan_jsonl.write_text("".join(lines[:2]))
    seen = sweep.look()
    assert seen.totals == {"PASSED": 3}  # its record still tells of the third
    assert seen.exit_code(allow_unsupported=True) == 3
    assert [problem.file for problem in seen.damage] == ["plan.jsonl"]
