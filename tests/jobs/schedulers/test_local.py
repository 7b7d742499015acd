"""A plan runs here point by point: in order, each told as it starts and as it ends."""

from __future__ import annotations

import copy
import dataclasses
import errno
from pathlib import Path

import pytest

from conf.verbs import Run
from jobs.errors import LedgerError
from jobs.record import Cause, Outcome, Record
from jobs.schedulers import local
from jobs.schedulers.local import has_sbatch, run_plan
from jobs.sweeps.ledger import PLANNED_JOB, Ledger
from jobs.sweeps.new_sweep import write_ledger
from jobs.sweeps.plan import Plan, make_plan
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import Source
from tests.conf.compositions import composed
from tests.fake_node import install

P, F, U, E = Outcome.PASSED, Outcome.FAILED, Outcome.UNSUPPORTED, Outcome.ERROR


def planned(folder: Path, ends: dict[int, str]) -> tuple[Plan, Ledger]:
    """A plan of one point for each length, whose node ends them as told."""
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
    told: list[tuple[int, Outcome | None]] = []

    def follow(point: PlannedPoint, record: Record | None) -> None:
        told.append((point.config["shape"]["seq_len"], record.outcome if record else None))

    ended = run_plan(plan, ledger, follow)
    assert told == [(256, None), (256, P), (100, None), (100, U), (128, None), (128, E)]
    assert [point for point, _ in ended] == list(plan.points)
    (line,) = ledger.jobs()
    assert line.job_id.startswith("local-")
    assert line.tasks == {"0": [point.point_id for point in plan.runnable]}
    assert {record.identity.job_id for _, record in ended} == {line.job_id, PLANNED_JOB}
    for point, record in ended:
        (attempt,) = ledger.attempts(record.identity.job_id or "", point.point_id)
        assert (attempt / "record.json").is_file()


def test_a_record_that_cannot_be_read_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    plan, ledger = planned(tmp_path, {128: "damaged"})
    ((point, record),) = run_plan(plan, ledger, lambda *_: None)
    assert (record.outcome, record.cause) == (E, Cause.lost)
    (attempt,) = ledger.attempts(ledger.jobs()[0].job_id, point.point_id)
    assert record.reason.startswith(f"{attempt / 'record.json'} is no record: ")
    assert (attempt / "record.json").read_text().endswith('"outc')


def test_a_point_whose_files_cannot_be_made_costs_that_point_alone(tmp_path: Path) -> None:
    plan, ledger = planned(tmp_path, {128: "PASSED", 256: "PASSED"})
    told: list[Record | None] = []

    def block(point: PlannedPoint, record: Record | None) -> None:
        told.append(record)
        if record is None and point is plan.points[0]:
            ledger.job_folder(ledger.jobs()[0].job_id).mkdir()
            ledger.point_folder(ledger.jobs()[0].job_id, point.point_id).touch()

    (_, lost), (_, passed) = run_plan(plan, ledger, block)
    assert (lost.outcome, lost.cause, passed.outcome) == (E, Cause.lost, P)
    assert "File exists" in lost.reason
    assert plan.points[0].point_id in lost.reason
    assert told == [None, lost, None, passed]


def test_a_full_disk_costs_an_unsupported_point_its_record_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    plan, ledger = planned(tmp_path, {100: "PASSED", 128: "PASSED"})
    monkeypatch.setattr(local, "write_atomic", full)
    (_, lost), (_, passed) = run_plan(plan, ledger, lambda *_: None)
    assert (lost.outcome, lost.cause, passed.outcome) == (E, Cause.lost, P)
    assert "No space left on device" in lost.reason


def test_nothing_starts_where_the_job_cannot_be_noted(tmp_path: Path) -> None:
    plan, ledger = planned(tmp_path, {128: "PASSED"})
    ledger.jobs_jsonl.mkdir()
    with pytest.raises(LedgerError, match=r"jobs\.jsonl cannot be written: .*; nothing"):
        run_plan(plan, ledger, lambda *_: None)
    assert not list(ledger.root.glob("local-*"))


def test_sbatch_is_looked_for_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_sbatch()
    (tmp_path / "sbatch").touch(0o755)
    assert has_sbatch()
