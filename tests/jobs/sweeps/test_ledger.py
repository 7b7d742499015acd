"""A sweep's folder: made once, written whole, readable whatever happened to the writer."""

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
from jobs.sweeps.ledger import JobLine, Ledger, SweepInfo, latest, now, safe_name, sweeps
from jobs.sweeps.planned_point import PlannedPoint

POINTS = [PlannedPoint(point_id=f"p-{index}", index=index, config={"a": 1}) for index in range(3)]


def info(ledger: Ledger) -> SweepInfo:
    return SweepInfo(
        sweep_id=ledger.sweep_id,
        verb="sweep",
        command="python launch.py sweep",
        cluster="local",
        scheduler="local",
        host="login",
        user="me",
        created_at=now(),
        points=len(POINTS),
    )


def written(runs_dir: Path) -> Ledger:
    """A sweep with a plan of three points and one job."""
    made = Ledger.create(runs_dir)
    made.write_plan(info(made), POINTS)
    tasks = {"0": ["p-0", "p-1"], "1": ["p-2"]}
    made.add_job(JobLine(job_id="14", tasks=tasks, scheduler="slurm", submitted_at=now()))
    return made


def _create(runs_dir: Path, count: int) -> list[str]:
    return [Ledger.create(runs_dir).sweep_id for _ in range(count)]


def test_two_sweeps_never_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_dir = tmp_path / "runs"
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
        made = [name for names in pool.map(_create, [runs_dir] * 3, [40] * 3) for name in names]
    assert len(set(made)) == 120 == len(list(runs_dir.iterdir()))
    ids = iter([f"s-20261201-112811-{end}" for end in ("aaaaaa", "aaaaaa", "bbbbbb")])
    monkeypatch.setattr(module, "_new_sweep_id", lambda: next(ids))
    first, second = Ledger.create(runs_dir), Ledger.create(runs_dir)
    assert first.sweep_id.endswith("aaaaaa")
    assert second.sweep_id.endswith("bbbbbb")


def test_sweeps_of_one_second_are_listed_as_they_were_made(tmp_path: Path) -> None:
    made = [written(tmp_path).sweep_id for _ in range(60)]
    assert [found.sweep_id for found in sweeps(tmp_path)] == made
    assert latest(tmp_path).sweep_id == made[-1]


@pytest.mark.parametrize(("shared", "mode"), [(False, 0o700), (True, 0o750)])
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_sweep_is_its_owner_s_or_its_group_s_whatever_the_umask(
    tmp_path: Path, shared: bool, mode: int, umask: int
) -> None:
    before = os.umask(umask)
    try:
        made = Ledger.create(tmp_path / "runs", shared=shared)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.root.stat().st_mode) == mode
    if shared:
        assert made.root.parent.stat().st_mode & 0o050 == 0o050


def test_a_folder_that_hands_its_group_on_still_does(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    made = Ledger.create(tmp_path, shared=True)
    assert stat.S_IMODE(made.root.stat().st_mode) == 0o2750


def test_a_sweep_that_was_not_planned_to_its_end_is_told_as_that(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path)
    with pytest.raises(LedgerError) as refused:
        ledger.info()
    assert (refused.value.path, bool(refused.value.remedy)) == (ledger.sweep_json, True)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = written(tmp_path)
    assert made.info().points == 3
    assert made.plan() == POINTS
    (line,) = made.jobs()
    assert line.tasks == {"0": ["p-0", "p-1"], "1": ["p-2"]}


def test_a_sweep_counts_once_its_plan_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Ledger.create(tmp_path)
    order: list[str] = []
    monkeypatch.setattr(module, "write_atomic", lambda path, text: order.append(path.name))
    made.write_plan(info(made), POINTS)
    assert order == ["plan.jsonl", "sweep.json"]
    assert sweeps(tmp_path) == []
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(NoSweep) as refused:
            latest(folder)
        assert refused.value.runs_dir == folder


def test_the_newest_sweep_is_the_latest_and_other_folders_are_left_alone(tmp_path: Path) -> None:
    made = written(tmp_path)
    for name in ("s-19990101-000000-abcdef", "s-29990101-000000-abcdef", "notes", "s-old"):
        shutil.copytree(made.root, tmp_path / name)
    (tmp_path / "file").touch()
    found = [ledger.sweep_id for ledger in sweeps(tmp_path)]
    assert found == ["s-19990101-000000-abcdef", made.sweep_id, "s-29990101-000000-abcdef"]
    assert latest(tmp_path).sweep_id == "s-29990101-000000-abcdef"
    assert sweeps(tmp_path / "nowhere") == []


def test_a_doctor_s_probe_is_not_the_latest_sweep(tmp_path: Path) -> None:
    sweep = written(tmp_path)
    probe = Ledger(tmp_path / "s-29990101-000000-abcdef")
    probe.root.mkdir()
    probe.write_plan(info(probe).model_copy(update={"verb": "doctor"}), POINTS)
    assert latest(tmp_path).sweep_id == sweep.sweep_id


def test_a_copy_elsewhere_reads_the_same(tmp_path: Path) -> None:
    made = written(tmp_path / "runs")
    copy = Ledger(tmp_path / "copy" / made.sweep_id)
    copy.root.parent.mkdir()
    made.root.rename(copy.root)
    assert copy.plan() == POINTS
    assert copy.info().sweep_id == copy.sweep_id


def test_a_job_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    made = written(tmp_path)
    with made.jobs_jsonl.open("a") as handle:
        handle.write('{"job_id": "15", "tas')
    assert [line.job_id for line in made.jobs()] == ["14"]


def test_a_damaged_plan_is_told_with_its_line(tmp_path: Path) -> None:
    made = written(tmp_path)
    lines = made.plan_jsonl.read_text().splitlines()
    made.plan_jsonl.write_text("\n".join([lines[0], lines[1][:20], lines[2]]))
    with pytest.raises(LedgerError) as refused:
        made.plan()
    assert (refused.value.path, refused.value.line) == (made.plan_jsonl, 2)


@pytest.mark.parametrize("text", [None, "{", "{}"])
def test_a_damaged_sweep_json_is_named(tmp_path: Path, text: str | None) -> None:
    made = written(tmp_path)
    made.sweep_json.unlink()
    if text is not None:
        made.sweep_json.write_text(text)
    with pytest.raises(LedgerError) as refused:
        made.info()
    assert refused.value.path == made.sweep_json
    assert refused.value.problem.startswith("is missing" if text is None else "is damaged")


def test_what_a_newer_version_added_is_kept(tmp_path: Path) -> None:
    made = written(tmp_path)
    given = json.loads(made.sweep_json.read_text()) | {"new": {"deep": 1}, "schema_version": 2}
    made.sweep_json.write_text(json.dumps(given))
    assert made.info().model_dump()["new"] == {"deep": 1}


def test_attempts_are_counted_as_numbers(tmp_path: Path) -> None:
    made = written(tmp_path)
    folder = made.point_folder("14_1", "p-2")
    for _ in range(11):
        new_attempt(folder)
    (folder / "attempt-x").mkdir()
    names = [path.name for path in made.attempts("14_1", "p-2")]
    assert names == [f"attempt-{number}" for number in range(1, 12)]
    assert made.attempts("15", "p-2") == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a..b", "-x", "a\nb"])
def test_an_id_cannot_leave_the_ledger(tmp_path: Path, name: str) -> None:
    made = Ledger.create(tmp_path)
    for path in (made.job_folder, made.point_file, lambda given: made.point_folder("14", given)):
        with pytest.raises(LedgerError):
            path(name)


@pytest.mark.parametrize("name", ["14", "14_2", "14+1.0", "local-ab12", "p-0123456789ab"])
def test_every_real_id_is_a_folder_name(name: str) -> None:
    assert safe_name(name) == name


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError) as refused:
        Ledger.create(tmp_path / "file" / "runs")
    assert refused.value.path == tmp_path / "file" / "runs"


def test_a_sweep_that_cannot_be_read_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = written(tmp_path)
    other = tmp_path / "s-29990101-000000-abcdef"
    other.mkdir()
    asked = Path.is_file

    def refused(path: Path) -> bool:  # as the kernel does for another user's 0700 folder
        if path.parent == other:
            raise PermissionError(13, "Permission denied", str(path))
        return asked(path)

    monkeypatch.setattr(Path, "is_file", refused)
    assert [ledger.sweep_id for ledger in sweeps(tmp_path)] == [mine.sweep_id]


def test_what_died_while_it_planned_is_cleared_an_hour_later(tmp_path: Path) -> None:
    half, young, hurt = (Ledger.create(tmp_path) for _ in range(3))
    for ledger in (half, young, hurt):
        (ledger.root / "points").mkdir()
        (ledger.root / ".plan.jsonl.abc.part").touch()
    (hurt.root / "14").mkdir()  # has lost its sweep.json, and not its records
    for ledger in (half, hurt):
        os.utime(ledger.root, (0, 0))
    whole = written(tmp_path)
    os.utime(whole.root, (0, 0))
    new = Ledger.create(tmp_path)
    kept = {young.sweep_id, hurt.sweep_id, whole.sweep_id, new.sweep_id}
    assert {path.name for path in tmp_path.iterdir()} == kept
