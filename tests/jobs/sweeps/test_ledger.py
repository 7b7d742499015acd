"""A sweep's folder: created once, written whole, readable whatever happened to the writer."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import stat
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from jobs.errors import LedgerError, NoSweep
from jobs.files import new_attempt
from jobs.sweeps import ledger as module
from jobs.sweeps.ledger import JobLine, Ledger, latest, now, safe_name, sweeps
from jobs.sweeps.planned_point import PlannedPoint
from tests.builders.ledger import sweep_info

POINTS = [PlannedPoint(point_id=f"p-{index}", index=index, config={"a": 1}) for index in range(3)]
TASKS = {"0": ["p-0", "p-1"], "1": ["p-2"]}
LAST = "s-29990101-000000-abcdef"


def new_sweep(runs_dir: Path) -> Ledger:
    """A sweep with a plan of three points and one job."""
    ledger = Ledger.create(runs_dir)
    ledger.write_plan(sweep_info(ledger, 3), POINTS)
    ledger.add_job(JobLine(job_id="14", tasks=TASKS, scheduler="slurm", submitted_at=now()))
    return ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return new_sweep(tmp_path)


def _create(runs_dir: Path, count: int) -> list[str]:
    return [Ledger.create(runs_dir).sweep_id for _ in range(count)]


def test_two_sweeps_never_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_dir = tmp_path / "runs"
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
        lists = list(pool.map(_create, [runs_dir] * 3, [40] * 3))
    assert len({name for names in lists for name in names}) == 120 == len(list(runs_dir.iterdir()))
    ids = iter([f"s-20261201-112811-{end}" for end in ("aaaaaa", "aaaaaa", "bbbbbb")])
    monkeypatch.setattr(module, "_new_sweep_id", lambda: next(ids))
    names = [Ledger.create(runs_dir).sweep_id[-6:] for _ in range(2)]
    assert names == ["aaaaaa", "bbbbbb"]


def test_sweeps_of_one_second_are_listed_in_order(tmp_path: Path) -> None:
    names = [new_sweep(tmp_path).sweep_id for _ in range(60)]
    assert [one.sweep_id for one in sweeps(tmp_path)] == names
    assert latest(tmp_path).sweep_id == names[-1]


@pytest.mark.parametrize(("shared", "mode"), [(False, 0o700), (True, 0o750)])
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_no_umask_changes_permissions(tmp_path: Path, shared: bool, mode: int, umask: int) -> None:
    before = os.umask(umask)
    try:
        ledger = Ledger.create(tmp_path / "runs", shared=shared)
    finally:
        os.umask(before)
    assert stat.S_IMODE(ledger.root.stat().st_mode) == mode
    if shared:
        assert ledger.root.parent.stat().st_mode & 0o050 == 0o050


def test_a_set_group_id_bit_is_kept(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    ledger = Ledger.create(tmp_path, shared=True)
    assert stat.S_IMODE(ledger.root.stat().st_mode) == 0o2750


def test_written_data_is_read_back(ledger: Ledger) -> None:
    assert ledger.info().points == 3
    assert ledger.plan() == POINTS
    (line,) = ledger.jobs()
    assert line.tasks == TASKS


def test_a_sweep_counts_once_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(tmp_path)
    with pytest.raises(LedgerError) as unplanned:
        ledger.info()
    assert (unplanned.value.path, bool(unplanned.value.remedy)) == (ledger.sweep_json, True)
    order: list[str] = []
    monkeypatch.setattr(module, "write_atomic", lambda path, text: order.append(path.name))
    ledger.write_plan(sweep_info(ledger, 3), POINTS)
    assert order == ["plan.jsonl", "sweep.json"]
    assert sweeps(tmp_path) == []
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(NoSweep) as refused:
            latest(folder)
        assert refused.value.runs_dir == folder


def test_other_folders_are_no_sweeps(ledger: Ledger, tmp_path: Path) -> None:
    for name in ("s-19990101-000000-abcdef", LAST, "notes", "s-old"):
        shutil.copytree(ledger.root, tmp_path / name)
    (tmp_path / "file").touch()
    names = [one.sweep_id for one in sweeps(tmp_path)]
    assert names == ["s-19990101-000000-abcdef", ledger.sweep_id, LAST]
    assert latest(tmp_path).sweep_id == LAST
    assert sweeps(tmp_path / "nowhere") == []


def test_a_probe_of_doctor_is_not_the_latest_sweep(ledger: Ledger, tmp_path: Path) -> None:
    probe = Ledger(tmp_path / LAST)
    probe.root.mkdir()
    probe.write_plan(sweep_info(probe, 3, "doctor"), POINTS)
    assert latest(tmp_path).sweep_id == ledger.sweep_id


def test_a_copy_elsewhere_reads_the_same(ledger: Ledger, tmp_path: Path) -> None:
    copy = Ledger(tmp_path / "copy" / ledger.sweep_id)
    copy.root.parent.mkdir()
    ledger.root.rename(copy.root)
    assert copy.plan() == POINTS
    assert copy.info().sweep_id == copy.sweep_id


def test_an_unfinished_last_line_of_jobs_is_skipped(ledger: Ledger) -> None:
    with ledger.jobs_jsonl.open("a") as handle:
        handle.write('{"job_id": "15", "tas')
    assert [line.job_id for line in ledger.jobs()] == ["14"]


def test_a_damaged_plan_is_an_error_with_its_line(ledger: Ledger) -> None:
    lines = ledger.plan_jsonl.read_text().splitlines()
    ledger.plan_jsonl.write_text("\n".join([lines[0], lines[1][:20], lines[2]]))
    with pytest.raises(LedgerError) as refused:
        ledger.plan()
    assert (refused.value.path, refused.value.line) == (ledger.plan_jsonl, 2)


@pytest.mark.parametrize("text", [None, "{", "{}"])
def test_a_damaged_sweep_json_is_an_error_with_its_path(ledger: Ledger, text: str | None) -> None:
    ledger.sweep_json.unlink()
    if text is not None:
        ledger.sweep_json.write_text(text)
    with pytest.raises(LedgerError) as refused:
        ledger.info()
    assert refused.value.path == ledger.sweep_json
    assert refused.value.remedy == ""  # it has jobs: planning had finished


def test_fields_of_newer_versions_are_kept(ledger: Ledger) -> None:
    content = json.loads(ledger.sweep_json.read_text()) | {"new": {"deep": 1}, "schema_version": 2}
    ledger.sweep_json.write_text(json.dumps(content))
    assert ledger.info().model_dump()["new"] == {"deep": 1}


def test_attempts_are_ordered_by_number(ledger: Ledger) -> None:
    folder = ledger.point_folder("14_1", "p-2")
    for _ in range(11):
        new_attempt(folder)
    (folder / "attempt-x").mkdir()
    names = [path.name for path in ledger.attempts("14_1", "p-2")]
    assert names == [f"attempt-{number}" for number in range(1, 12)]
    assert ledger.attempts("15", "p-2") == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a..b", "-x", "a\nb"])
def test_an_id_cannot_leave_the_ledger(ledger: Ledger, name: str) -> None:
    for path in (ledger.job_folder, ledger.point_file, lambda x: ledger.point_folder("14", x)):
        with pytest.raises(LedgerError):
            path(name)


@pytest.mark.parametrize("name", ["14", "14_2", "14+1.0", "local-ab12", "p-0123456789ab"])
def test_every_real_id_is_a_folder_name(name: str) -> None:
    assert safe_name(name) == name


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError) as refused:
        Ledger.create(tmp_path / "file" / "runs")
    assert refused.value.path == tmp_path / "file" / "runs"


def test_an_unreadable_sweep_is_skipped(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / LAST
    other.mkdir()
    is_file = Path.is_file

    def denied(path: Path) -> bool:  # as the kernel does for another user's 0700 folder
        if path.parent == other:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", denied)
    assert [one.sweep_id for one in sweeps(tmp_path)] == [ledger.sweep_id]


def test_abandoned_plans_are_removed_after_an_hour(tmp_path: Path) -> None:
    abandoned, recent, damaged = (Ledger.create(tmp_path) for _ in range(3))
    for one in (abandoned, recent, damaged):
        (one.root / "points").mkdir()
        (one.root / ".plan.jsonl.abc.part").touch()
    (damaged.root / "14").mkdir()  # it lost its sweep.json, but not its records
    complete = new_sweep(tmp_path)
    for one in (abandoned, damaged, complete):
        os.utime(one.root, (0, 0))
    kept = {recent, damaged, complete, Ledger.create(tmp_path)}
    assert {path.name for path in tmp_path.iterdir()} == {one.sweep_id for one in kept}
