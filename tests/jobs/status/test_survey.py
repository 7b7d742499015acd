"""Every selected point with one query of the scheduler."""

from __future__ import annotations

import contextlib
import fcntl
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobs.record import Cause, Identity, Outcome, Record, State
from jobs.schedulers.lock import LOCK, is_submitting, submitting
from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.task import SlurmTask
from jobs.status.log_search import TAIL_BYTES
from jobs.status.survey import Survey, survey
from jobs.sweeps.selection import Selection
from jobs.terminal.console import Console
from jobs.verbs.logs import show_log
from jobs.verbs.status import _watch, as_table, duration, show_next
from tests.builders.ledger import FakeSweep
from tests.builders.slurm import FakeSlurm, job_states


@dataclass
class Sweep(FakeSweep):
    """A sweep of three points in one array, and a SLURM that answers from a table."""

    slurm: FakeSlurm = field(default_factory=FakeSlurm)

    @classmethod
    def new(cls, folder: Path) -> Sweep:
        sweep = cls.plan(folder, [{}, {}, {}])
        sweep.submit("14", list(sweep.points))
        return sweep

    def passed(self, number: int, outcome: Outcome = Outcome.PASSED) -> None:
        point_id = f"p-{number:04d}"
        identity = Identity(point_id=point_id, job_id=f"14_{number}")
        left = Record(identity=identity, config={}, outcome=outcome, duration_s=3.0)
        self.attempt("14", point_id, left)

    def look(self, at: float = 1000.0) -> Survey:
        return survey([Selection(self.ledger.root)], [self.slurm], lambda: at)


def tasks(*words: str | None) -> JobStates:
    """SLURM's words for the three tasks, None for a task that it does not list."""
    states = {f"14_{number}": word for number, word in enumerate(words) if word}
    return job_states(states, node="n1", elapsed_s=7)


def test_a_table_that_is_too_long_keeps_the_totals_and_the_worst_points(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    sweep.passed(0)
    sweep.attempt("14", "p-0002")
    sweep.slurm.states = tasks(None, "PENDING", "RUNNING")
    seen = sweep.look()
    whole = as_table(seen).plain
    assert as_table(seen, height=20).plain == whole
    short = as_table(seen, height=5).plain.splitlines()
    assert len(short) == 5
    assert [line.split()[0] for line in short[1:3]] == ["p-0002", "2"]
    assert short[2] == "2 more points: status shows every one"
    assert short[-1] == whole.splitlines()[-1] == "3 points: 1 PASSED, 1 PENDING, 1 RUNNING"


def test_points_without_a_record_are_queried_for_at_once(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    sweep.passed(0)
    sweep.slurm.states = tasks(None, "PENDING", "TIMEOUT")
    seen = sweep.look()
    assert sweep.slurm.queries == [["14_1", "14_2"]]
    assert seen.totals == {"PASSED": 1, "PENDING": 1, "ERROR": 1}
    assert seen.points[2].cause == "timeout"
    assert (seen.points[2].node, seen.points[2].elapsed_s) == ("n1", 7)
    assert seen.points[0].elapsed_s == 3.0
    assert seen.under_way


def test_a_task_that_was_cancelled_while_pending_stays_cancelled(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    sweep.slurm.states = tasks("RUNNING", "PENDING")
    assert [point.cause for point in sweep.look().points] == [None, None, "cancelled"]
    sweep.slurm.states = tasks("COMPLETED")
    sweep.look()
    sweep.slurm.states = JobStates(
        {}, None, "sacct: storage is disabled"
    )  # squeue has forgotten all
    for at in (1010.0, 9000.0):
        assert [point.cause for point in sweep.look(at).points][1:] == ["cancelled"] * 2


def test_while_the_controller_is_down_the_last_states_are_shown(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    sweep.slurm.states = tasks("RUNNING", "PENDING", "PENDING")
    assert [point.state for point in sweep.look(1000.0).points] == [State.PENDING] * 3
    sweep.slurm.states = job_states({"14_1": "NODE_FAIL"}, queue_error="squeue: no controller")
    seen = sweep.look(1400.0)
    assert [point.cause for point in seen.points] == [None, Cause.node_fail, None]
    assert seen.answer.unreachable == "squeue: no controller"
    assert "7 min" in seen.notes[0]
    (sweep.ledger.root / LAST_SEEN).write_text("damaged")
    assert "no states are known" in sweep.look().notes[0]


def test_a_cluster_without_accounting_is_noted_once(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    states = {f"14_{number}": "PENDING" for number in range(3)}
    sweep.slurm.states = job_states(states, accounting_error="disabled", no_accounting=True)
    assert len(sweep.look().notes) == 1


def test_without_a_scheduler_submitted_points_are_pending(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    seen = survey([Selection(sweep.ledger.root)], [])
    assert seen.totals == {"PENDING": 3}
    assert seen.notes == ()


def test_the_exit_code_follows_from_all_points(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    for number in (0, 1):
        sweep.passed(number)
    sweep.slurm.states = tasks(None, None, "PENDING")
    assert sweep.look().exit_code(allow_unsupported=False) == 3
    sweep.passed(2, Outcome.UNSUPPORTED)
    assert sweep.look().exit_code(allow_unsupported=False) == 3
    assert sweep.look().exit_code(allow_unsupported=True) == 0


def test_a_plan_that_lost_points_never_exits_with_0(tmp_path: Path) -> None:
    sweep = Sweep.new(tmp_path)
    for number in range(3):
        sweep.passed(number)
    assert sweep.look().exit_code(allow_unsupported=False) == 0
    lines = sweep.ledger.plan_jsonl.read_text().splitlines(keepends=True)
    sweep.ledger.plan_jsonl.write_text("".join(lines[:2]))
    seen = sweep.look()
    assert seen.totals == {"PASSED": 3}  # its record still tells of the third
    assert seen.exit_code(allow_unsupported=True) == 3
    assert [problem.file for problem in seen.damage] == ["plan.jsonl"]


def test_durations_have_units() -> None:
    assert [duration(s) for s in (None, 0.4, 61, 3725)] == ["", "0 s", "1:01 min", "1:02:05 h"]


def test_collect_is_suggested_once_a_point_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep.new(tmp_path)
    sweep.slurm.states = tasks("PENDING", "PENDING", "RUNNING")
    show_next(sweep.look(), "s-1", Console())
    sweep.passed(0)
    show_next(sweep.look(), "s-1", Console())
    assert capsys.readouterr().out.splitlines() == [
        "Next: python launch.py status s-1 watch=true",
        "Next: python launch.py collect s-1",
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_row_is_cut_and_not_wrapped(tmp_path: Path, width: int) -> None:
    sweep = Sweep.new(tmp_path)
    sweep.slurm.states = JobStates(
        {
            f"14_{place}": SlurmTask(f"14_{place}", "1", "PENDING", reason="Priority " * 30)
            for place in range(3)
        }
    )
    seen = sweep.look()
    rows = as_table(seen, width=width).plain.splitlines()[:4]
    assert max(map(len, rows)) <= width
    assert all("PENDING" in row and row.endswith("…") for row in rows[1:])
    assert "Priority Priority" in as_table(seen).plain


def test_earlier_lines_of_a_log_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "output.log"
    log.write_text("one\ntwo\nthree\n")
    show_log(log, 2, Console())
    assert capsys.readouterr().out.splitlines()[1:] == [
        "[... 1 earlier line; to show them: lines=3 ...]",
        "two",
        "three",
    ]
    show_log(log, 3, Console())
    assert "[..." not in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r", " "])
def test_skipped_bytes_of_a_log_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    log = tmp_path / "output.log"
    log.write_text(f"{'x' * 1023}{end}" * 100 + "the end\n", newline="")
    show_log(log, 2, Console())
    head, *rest = capsys.readouterr().out.splitlines()[1:]
    told = re.fullmatch(rf"\[... (\d+) bytes skipped; complete log: {log} ...\]", head)
    assert told is not None
    assert log.read_bytes()[int(told[1]) :].startswith(b"x" * 1023)
    assert int(told[1]) >= 100 * 1024 + 8 - TAIL_BYTES
    assert rest[-1].endswith("the end")
    log.write_text("short\n")
    show_log(log, 2, Console())
    assert "[..." not in capsys.readouterr().out


def test_a_watch_waits_for_a_process_that_is_still_submitting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = FakeSweep.plan(tmp_path, [{}, {}]).ledger
    chosen = [Selection(ledger.root)]
    assert not survey(chosen, []).under_way  # nobody will submit it
    sending = contextlib.ExitStack()
    sending.enter_context(submitting(ledger))
    seen = survey(chosen, [])
    assert seen.under_way
    assert seen.submitting == (ledger.sweep_id,)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        sending.close()

    monkeypatch.setattr("jobs.verbs.status.time.sleep", pause)
    monkeypatch.setattr("jobs.verbs.status.installed_schedulers", list)
    _watch(chosen, 2.0, ledger.sweep_id, Console())
    assert pauses == [2.0]
    assert "2 points: 2 PLANNED" in capsys.readouterr().out


def test_a_look_at_the_lock_does_not_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = FakeSweep.plan(tmp_path, [{}]).ledger
    assert not is_submitting(ledger.root)  # nobody ever had it
    with submitting(ledger):
        assert is_submitting(ledger.root)
    assert not is_submitting(ledger.root)
    looking = (ledger.root / LOCK).open("rb")
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("jobs.schedulers.lock.time.sleep", lambda _: looking.close())
    with submitting(ledger):
        assert looking.closed
