"""Points run here one after another, each reported as it starts and as it ends."""

from __future__ import annotations

import copy
import dataclasses
import errno
from pathlib import Path

import pytest

from conf.verbs import Run
from jobs.errors import LedgerError
from jobs.record import Cause, Outcome, Record
from jobs.schedulers import planner_records
from jobs.schedulers.local.execution import run_points
from jobs.schedulers.scheduler import Progress
from jobs.sweeps.ledger import PLANNED_JOB, Ledger
from jobs.sweeps.new_sweep import write_ledger
from jobs.sweeps.plan import Plan, make_plan
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import Source
from tests.conf.compositions import composed
from tests.fake_node import install

P, F, U, E = Outcome.PASSED, Outcome.FAILED, Outcome.UNSUPPORTED, Outcome.ERROR


class Log(Progress):
    """Every start, with None, and every end of a point, with its record."""

    def __init__(self) -> None:
        self.events: list[tuple[PlannedPoint, Record | None]] = []

    def started(self, point: PlannedPoint) -> None:
        self.events.append((point, None))

    def ended(self, point: PlannedPoint, record: Record) -> None:
        self.events.append((point, record))


def planned(folder: Path, ends: dict[int, str]) -> tuple[Plan, Ledger]:
    """A plan of one point for each length, whose node ends them as expected."""
    config: Run = composed("run")
    cluster = dataclasses.replace(config.cluster, python=str(install(folder, ends)))
    asks = []
    for length in ends:
        one = dataclasses.replace(copy.deepcopy(config), cluster=cluster)
        one.shape.seq_len = length
        asks.append(PointRequest(one, {"shape.seq_len": str(length)}))
    plan = make_plan(asks, Source())
    ledger = Ledger.create(folder / "runs")
    write_ledger(plan, ledger, verb="sweep", command="python launch.py sweep")
    return plan, ledger


def test_points_run_in_order_under_one_job(tmp_path: Path) -> None:
    plan, ledger = planned(tmp_path, {256: "PASSED", 100: "PASSED", 128: "kill"})
    log = Log()
    ended = run_points(plan.points, ledger, log)
    events = [
        (point.config["shape"]["seq_len"], record.outcome if record else None)
        for point, record in log.events
    ]
    assert events == [(256, None), (256, P), (100, None), (100, U), (128, None), (128, E)]
    assert [point for point, _ in ended] == list(plan.points)
    (line,) = ledger.jobs()
    assert line.job_id.startswith("local-")
    assert line.tasks == {"0": [point.point_id for point in plan.runnable]}
    assert {record.identity.job_id for _, record in ended} == {line.job_id, PLANNED_JOB}
    for point, record in ended:
        (attempt,) = ledger.attempts(record.identity.job_id or "", point.point_id)
        assert (attempt / "record.json").is_file()


def test_a_record_that_cannot_be_read_is_an_error_and_is_kept(tmp_path: Path) -> None:
    plan, ledger = planned(tmp_path, {128: "damaged"})
    ((point, record),) = run_points(plan.points, ledger, Progress())
    assert (record.outcome, record.cause) == (E, Cause.lost)
    (attempt,) = ledger.attempts(ledger.jobs()[0].job_id, point.point_id)
    assert record.reason.startswith(f"{attempt / 'record.json'} ")
    assert (attempt / "record.json").read_text().endswith('"outc')


def test_a_point_whose_files_cannot_be_made_costs_that_point_alone(tmp_path: Path) -> None:
    plan, ledger = planned(tmp_path, {128: "PASSED", 256: "PASSED"})

    class Blocking(Log):
        def started(self, point: PlannedPoint) -> None:
            super().started(point)
            if point is plan.points[0]:
                ledger.job_folder(ledger.jobs()[0].job_id).mkdir()
                ledger.point_folder(ledger.jobs()[0].job_id, point.point_id).touch()

    log = Blocking()
    (_, lost), (_, passed) = run_points(plan.points, ledger, log)
    assert (lost.outcome, lost.cause, passed.outcome) == (E, Cause.lost, P)
    assert "File exists" in lost.reason
    assert plan.points[0].point_id in lost.reason
    assert [record for _, record in log.events] == [None, lost, None, passed]


def test_a_full_disk_costs_only_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    plan, ledger = planned(tmp_path, {100: "PASSED", 128: "PASSED"})
    monkeypatch.setattr(planner_records, "write_atomic", full)
    (_, lost), (_, passed) = run_points(plan.points, ledger, Progress())
    assert (lost.outcome, lost.cause, passed.outcome) == (E, Cause.lost, P)
    assert "No space left on device" in lost.reason


def test_nothing_starts_where_the_job_cannot_be_noted(tmp_path: Path) -> None:
    plan, ledger = planned(tmp_path, {128: "PASSED"})
    ledger.jobs_jsonl.mkdir()
    with pytest.raises(LedgerError) as caught:
        run_points(plan.points, ledger, Progress())
    assert caught.value.path == ledger.jobs_jsonl
    assert not list(ledger.root.glob("local-*"))
