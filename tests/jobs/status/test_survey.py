"""Where points stand: records first, then the scheduler, then what it last said."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from jobs.files import new_attempt, write_atomic
from jobs.record import Environment, Identity, Outcome, Record, Started, to_json
from jobs.schedulers.lock import LOCK, is_submitting, submitting
from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from jobs.schedulers.slurm.task import SlurmTask
from jobs.status.log_search import TAIL_BYTES
from jobs.status.survey import Survey, survey
from jobs.sweeps.ledger import JobLine, Ledger, SweepInfo, now
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.selection import Selection
from jobs.terminal import screen
from jobs.verbs.logs import show_log
from jobs.verbs.status import _watch, as_table, duration, show_next
from tests.builders.ledger import FakeSweep


class Sweep:
    """A sweep of three points in one array, and a scheduler that answers from a table."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger.create(folder)
        info = SweepInfo(
            sweep_id=self.ledger.sweep_id, verb="sweep", command="c", cluster="lab",
            scheduler="slurm", host="h", user="u", created_at=now(), points=3,
        )  # fmt: skip
        points = [PlannedPoint(point_id=f"p-{i}", index=i, config={}) for i in range(3)]
        self.ledger.write_plan(info, points)
        tasks = {str(i): [f"p-{i}"] for i in range(3)}
        self.ledger.add_job(
            JobLine(job_id="14", tasks=tasks, scheduler="slurm", submitted_at=now())
        )
        self.asked: list[list[str]] = []
        self.answer = JobStates()

    def record(
        self, point_id: str, outcome: Outcome, environment: Environment | None = None
    ) -> None:
        attempt = new_attempt(self.ledger.point_folder("14", point_id))
        identity = Identity(point_id=point_id, job_id="14_0")
        record = Record(identity=identity, config={}, outcome=outcome, duration_s=3.0)
        if environment is not None:
            record = record.model_copy(update={"environment": environment})
        write_atomic(attempt / "record.json", to_json(record))

    def ask(self, job_ids: Iterable[str]) -> JobStates:
        self.asked.append(list(job_ids))
        return self.answer

    def look(self, at: float = 1000.0) -> Survey:
        return survey([Selection(self.ledger.root)], [SlurmScheduler(self.ask)], lambda: at)


def knows(**states: str) -> JobStates:
    tasks = {
        f"14_{index[1:]}": SlurmTask(f"14_{index[1:]}", "1", state, node="n1", elapsed_s=7)
        for index, state in states.items()
    }
    return JobStates(tasks)


def test_an_attempt_under_an_earlier_job_says_nothing_of_the_one_that_runs(
    tmp_path: Path,
) -> None:
    sweep = Sweep(tmp_path)
    attempt = new_attempt(sweep.ledger.point_folder("14", "p-0"))
    identity = Identity(point_id="p-0", job_id="14_0")
    started = Started(identity=identity, host="n7", pid=1, started_at="2099-01-01T00:00:00+00:00")
    write_atomic(attempt / "started.json", to_json(started))
    os.utime(attempt / "started.json", (0, 0))  # the node's clock is wrong
    sweep.answer = knows(_0="RUNNING")
    (first, *_) = sweep.look().points
    assert first.elapsed_s == 1000.0
    again = JobLine(job_id="15", tasks={"0": ["p-0"]}, scheduler="slurm", submitted_at=now())
    sweep.ledger.add_job(again)
    new_attempt(sweep.ledger.point_folder("15", "p-0"))
    sweep.answer = JobStates({"15": SlurmTask("15", "15", "RUNNING")})
    (first, *_) = sweep.look().points
    assert (first.state, first.node, first.elapsed_s) == ("RUNNING", "", None)


@pytest.mark.parametrize("late", ["2026-01-01T10:00:00+00:00", None])
def test_attempts_of_one_job_are_in_the_order_of_their_numbers(
    tmp_path: Path, late: str | None
) -> None:
    """Whatever the clocks of their nodes said, and though one has not said anything."""
    sweep = Sweep(tmp_path)
    for number, moment in enumerate(("2026-01-01T11:00:00+00:00", late), 1):
        attempt = new_attempt(sweep.ledger.point_folder("14", "p-0"))
        identity = Identity(point_id="p-0", job_id="14_0", attempt=number)
        if moment is not None:
            started = Started(identity=identity, host="n7", pid=1, started_at=moment)
            write_atomic(attempt / "started.json", to_json(started))
    record = Record(identity=identity, config={}, outcome=Outcome.PASSED)
    write_atomic(attempt / "record.json", to_json(record))
    (first, *_) = sweep.look().points
    assert (first.state, first.result().attempt) == ("PASSED", 2)


def test_a_table_that_is_too_long_keeps_the_totals_and_what_tells_most(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.record("p-0", Outcome.PASSED)
    new_attempt(sweep.ledger.point_folder("14", "p-2"))
    sweep.answer = knows(_1="PENDING", _2="RUNNING")
    seen = sweep.look()
    whole = as_table(seen).plain
    assert as_table(seen, height=20).plain == whole
    short = as_table(seen, height=5).plain.splitlines()
    assert len(short) == 5
    assert [line.split()[0] for line in short[1:3]] == ["p-2", "2"]
    assert short[2] == "2 more points: status shows every one"
    assert short[-1] == whole.splitlines()[-1] == "3 points: 1 PASSED, 1 PENDING, 1 RUNNING"


def test_only_points_without_a_record_are_asked_for_and_all_at_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.record("p-0", Outcome.PASSED)
    sweep.answer = knows(t1="PENDING", t2="TIMEOUT")
    seen = sweep.look()
    assert sweep.asked == [["14_1", "14_2"]]
    assert seen.totals == {"PASSED": 1, "PENDING": 1, "ERROR": 1}
    assert seen.points[2].cause == "timeout"
    assert (seen.points[2].node, seen.points[2].elapsed_s) == ("n1", 7)
    assert seen.points[0].elapsed_s == 3.0
    assert seen.under_way


def test_a_job_that_nobody_knows_is_lost(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.answer = knows(t0="RUNNING", t1="COMPLETED")
    new_attempt(sweep.ledger.point_folder("14", "p-2"))
    seen = sweep.look()
    assert [row.cause for row in seen.points] == [None, "lost", "lost"]


def test_a_job_that_was_never_written_down_may_end_as_it_is_asked_for(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.ledger.jobs_jsonl.unlink()
    attempt = new_attempt(sweep.ledger.point_folder("14", "p-0"))
    identity = Identity(point_id="p-0", job_id="14_0")
    started = Started(identity=identity, host="n7", pid=1, started_at=now())
    write_atomic(attempt / "started.json", to_json(started))

    def ends(job_ids: Iterable[str]) -> JobStates:
        assert list(job_ids) == ["14_0"]
        record = Record(identity=identity, config={}, outcome=Outcome.PASSED, duration_s=3.0)
        write_atomic(attempt / "record.json", to_json(record))
        return knows(t0="COMPLETED")

    seen = survey([Selection(sweep.ledger.root)], [SlurmScheduler(ends)], lambda: 1000.0)
    assert seen.points[0].state == "PASSED"


def test_a_task_that_was_cancelled_as_it_waited_never_becomes_a_lost_one(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.answer = knows(t0="RUNNING", t1="PENDING")
    assert [row.cause for row in sweep.look().points] == [None, None, "cancelled"]
    sweep.answer = knows(t0="COMPLETED")
    sweep.look()
    sweep.answer = JobStates({}, None, "sacct: storage is disabled")  # squeue has forgotten all
    for at in (1010.0, 9000.0):
        assert [row.cause for row in sweep.look(at).points][1:] == ["cancelled"] * 2


def test_a_silent_controller_leaves_what_was_seen_with_its_age(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.answer = knows(t0="RUNNING", t1="PENDING", t2="PENDING")
    before = sweep.look(1000.0)
    done = SlurmTask("14_1", "1", "NODE_FAIL")
    sweep.answer = JobStates({"14_1": done}, queue_error="squeue: no controller")
    after = sweep.look(1400.0)
    assert [row.state for row in before.points] == ["PENDING"] * 3
    assert [row.cause for row in after.points] == [None, "node_fail", None]
    assert after.notes == (
        "squeue does not answer (squeue: no controller): showing states from 7 min ago",
    )
    (sweep.ledger.root / LAST_SEEN).write_text("damaged")
    assert "no states are known" in sweep.look().notes[0]


def test_a_cluster_without_accounting_is_told_once(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.answer = JobStates(
        knows(t0="PENDING", t1="PENDING", t2="PENDING").tasks, None, "sacct: storage is disabled"
    )
    seen = sweep.look()
    assert seen.notes == (
        "this cluster keeps no accounting: ended jobs are known only by their files",
    )
    assert str(as_table(seen)).endswith(f"Note: {seen.notes[0]}")


def test_nobody_is_asked_where_there_is_no_scheduler(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    seen = survey([Selection(sweep.ledger.root)], [])
    assert seen.totals == {"PENDING": 3}
    assert seen.notes == ()


def test_the_exit_code_follows_from_all_points(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    for point_id in ("p-0", "p-1"):
        sweep.record(point_id, Outcome.PASSED)
    sweep.answer = knows(t2="PENDING")
    assert sweep.look().exit_code(allow_unsupported=False) == 3
    sweep.record("p-2", Outcome.UNSUPPORTED)
    assert sweep.look().exit_code(allow_unsupported=False) == 3
    assert sweep.look().exit_code(allow_unsupported=True) == 0


def test_a_plan_that_lost_points_never_ends_with_0(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    for point_id in ("p-0", "p-1", "p-2"):
        sweep.record(point_id, Outcome.PASSED)
    assert sweep.look().exit_code(allow_unsupported=False) == 0
    lines = sweep.ledger.plan_jsonl.read_text().splitlines(keepends=True)
    sweep.ledger.plan_jsonl.write_text("".join(lines[:2]))
    seen = sweep.look()
    assert seen.totals == {"PASSED": 3}  # its record still tells of the third
    assert seen.exit_code(allow_unsupported=True) == 3
    assert [problem.file for problem in seen.damage] == ["plan.jsonl"]


def test_durations_are_read_at_a_glance() -> None:
    assert [duration(s) for s in (None, 0.4, 61, 3725)] == ["", "0 s", "1:01 min", "1:02:05 h"]


@pytest.mark.parametrize(("nodes", "node"), [("n1", "n1"), ("n[1-2]", "vm"), (None, "vm")])
def test_a_node_is_called_as_slurm_calls_it_after_the_end_too(
    tmp_path: Path, nodes: str | None, node: str
) -> None:
    sweep = Sweep(tmp_path)
    variables = {} if nodes is None else {"SLURM_JOB_NODELIST": nodes}
    sweep.record("p-0", Outcome.PASSED, Environment(host="vm", variables=variables))
    assert sweep.look().points[0].node == node


def test_nothing_is_to_be_collected_before_a_point_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep(tmp_path)
    sweep.answer = knows(_0="PENDING", _1="PENDING", _2="RUNNING")
    show_next(sweep.look(), "s-1", screen.console())
    sweep.record("p-0", Outcome.PASSED)
    show_next(sweep.look(), "s-1", screen.console())
    assert capsys.readouterr().out.splitlines() == [
        "Next: python launch.py status s-1 watch=true",
        "Next: python launch.py collect s-1",
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_row_is_cut_and_not_wrapped(tmp_path: Path, width: int) -> None:
    sweep = Sweep(tmp_path)
    sweep.answer = JobStates(
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


def test_of_a_long_log_it_is_said_how_much_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "output.log"
    log.write_text("one\ntwo\nthree\n")
    show_log(log, 2, screen.console())
    assert capsys.readouterr().out.splitlines()[1:] == [
        "[... 1 earlier line; to show them: lines=3 ...]",
        "two",
        "three",
    ]
    show_log(log, 3, screen.console())
    assert "earlier" not in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r", " "])
def test_where_the_head_of_a_log_is_not_read_it_is_said_with_its_size_and_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    log = tmp_path / "output.log"
    log.write_text(f"{'x' * 1023}{end}" * 100 + "the end\n", newline="")
    show_log(log, 2, screen.console())
    head, *rest = capsys.readouterr().out.splitlines()[1:]
    told = re.fullmatch(rf"\[... (\d+) bytes skipped; complete log: {log} ...\]", head)
    assert told is not None
    assert log.read_bytes()[int(told[1]) :].startswith(b"x" * 1023)
    assert int(told[1]) >= 100 * 1024 + 8 - TAIL_BYTES
    assert rest[-1].endswith("the end")
    log.write_text("short\n")
    show_log(log, 2, screen.console())
    assert "skipped" not in capsys.readouterr().out


def test_a_watch_waits_for_a_submission_that_is_still_being_sent(
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
    _watch(chosen, 2.0, ledger.sweep_id, screen.console())
    assert pauses == [2.0]
    assert "2 points: 2 PLANNED" in capsys.readouterr().out


def test_who_looks_at_the_lock_keeps_nobody_from_taking_it(
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
