"""`collect` gathers every planned point once, whatever its state."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from jobs.collect.gather import collect
from jobs.errors import LedgerError, RecordError, UnknownId
from jobs.record import Cause, Outcome
from jobs.status.collection import Collection
from tests.builders.ledger import FakeSweep, passed_sweep
from tests.builders.records import point_config, record
from tests.builders.slurm import slurm

RECORD = "14/p-0000/attempt-1/record.json"


def gathered(tmp_path: Path, *words: str, states: Mapping[str, str] | None = None) -> Collection:
    """Collects; `states` is SLURM's word for each task."""
    return collect(
        list(words) or ["latest"],
        tmp_path / "runs",
        tmp_path / "results",
        schedulers=[slurm(states, evidence=("sacct: x",))] if states else [],
    )


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def folder_of(collection: Collection) -> Path:
    assert collection.folder is not None
    return collection.folder


@pytest.fixture
def passed(tmp_path: Path) -> FakeSweep:
    """Three points of job 14."""
    return passed_sweep(tmp_path / "runs")


@pytest.fixture
def mixed(tmp_path: Path) -> FakeSweep:
    """Eight points, each in another state."""
    configs = [point_config(shape__seq_len=128 * (number + 1)) for number in range(8)]
    sweep = FakeSweep.plan(tmp_path / "runs", configs)
    ids = list(sweep.points)
    sweep.submit("14", ids[:7])
    for number, outcome in enumerate((Outcome.PASSED, Outcome.FAILED, Outcome.UNSUPPORTED)):
        left = record(ids[number], configs[number], outcome, job_id=f"14_{number}")
        sweep.attempt("14", ids[number], left)
    died = record(ids[3], configs[3], Outcome.ERROR, cause=Cause.crashed, lines=["Segfault"])
    sweep.attempt("14", ids[3], died)
    for point_id in ids[4:6]:
        sweep.attempt("14", point_id, None, log="step 1\n")
    sweep.job_log("14_5_0_log.err", "slurmstepd: error: *** JOB 19 ON n1 CANCELLED AT x ***\n")
    return sweep


@pytest.mark.usefixtures("mixed")
def test_every_planned_point_has_one_row_and_the_totals_add_up(tmp_path: Path) -> None:
    words = {"14_4": "RUNNING", "14_5": "CANCELLED", "14_6": "PENDING"}
    collection = gathered(tmp_path, states=words)
    states = [point.state for point in collection.points]
    ended = ["PASSED", "FAILED", "UNSUPPORTED", "ERROR"]
    assert states == [*ended, "RUNNING", "ERROR", "PENDING", "PLANNED"]
    totals = collection.totals
    assert totals.pop("planned") == 8 == sum(totals.values())
    assert collection.exit_code() == 1
    table = json.loads((folder_of(collection) / "points.json").read_text())
    assert [row["state"] for row in table] == states


@pytest.mark.usefixtures("mixed")
def test_a_point_without_a_record_shows_its_cause_and_the_line_of_the_log(tmp_path: Path) -> None:
    killed = gathered(tmp_path, states={"14_5": "CANCELLED"}).points[5]
    (quote,) = killed.evidence
    assert (killed.cause, quote.file) == ("cancelled", "jobs/14/14_5_0_log.err")
    assert "CANCELLED AT" in quote.lines[0]


@pytest.mark.usefixtures("passed")
def test_the_exit_code_is_that_of_the_worst_outcome(tmp_path: Path) -> None:
    assert gathered(tmp_path).exit_code() == 0
    sweep = FakeSweep.plan(tmp_path / "runs", [point_config()])
    sweep.submit("15", ["p-0000"], array=False)
    left = record("p-0000", point_config(), Outcome.UNSUPPORTED, job_id="15")
    sweep.attempt("15", "p-0000", left)
    collection = gathered(tmp_path, sweep.ledger.sweep_id)
    assert collection.exit_code() == 3
    assert collection.exit_code(allow_unsupported=True) == 0


@pytest.mark.usefixtures("mixed")
def test_collecting_again_changes_no_file(tmp_path: Path) -> None:
    folder = folder_of(gathered(tmp_path))
    before = files(folder)
    gathered(tmp_path)
    assert files(folder) == before


@pytest.mark.usefixtures("mixed")
def test_files_of_a_killed_collect_are_removed(tmp_path: Path) -> None:
    left = folder_of(gathered(tmp_path)) / "jobs" / ".output.log.77.part"
    left.touch()
    os.utime(left, (0, 0))
    gathered(tmp_path)
    assert not left.exists()


def test_points_that_ended_since_are_updated(tmp_path: Path, mixed: FakeSweep) -> None:
    assert gathered(tmp_path, states={"14_4": "RUNNING"}).totals["RUNNING"] == 1
    left = record("p-0004", mixed.points["p-0004"], job_id="14_4")
    attempt = mixed.ledger.point_folder("14", "p-0004") / "attempt-1"
    (attempt / "record.json").write_text(left.model_dump_json())
    assert gathered(tmp_path).totals["PASSED"] == 2


@pytest.mark.usefixtures("passed")
def test_each_job_has_its_logs_script_and_records(tmp_path: Path) -> None:
    job = folder_of(gathered(tmp_path)) / "jobs" / "14"
    assert (job / "14_submission.sh").is_file()
    names = {path.name for path in (job / "p-0001" / "attempt-1").iterdir()}
    assert names >= {"started.json", "record.json", "output.log"}


def test_a_pickle_is_never_copied(tmp_path: Path, passed: FakeSweep) -> None:
    (passed.ledger.root / "14" / "14_0_result.pkl").write_bytes(b"cos\nsystem\n")
    assert not list(folder_of(gathered(tmp_path)).rglob("*.pkl"))


def test_one_task_of_an_array_is_gathered_alone(tmp_path: Path, passed: FakeSweep) -> None:
    for task in ("14_0", "14_1"):
        passed.job_log(f"{task}_0_log.out", task)
    collection = gathered(tmp_path, "14_1")
    assert [point.point_id for point in collection.points] == ["p-0001"]
    folder = folder_of(collection)
    assert folder.name == "14_1"
    names = {path.name for path in (folder / "jobs" / "14").iterdir()}
    assert not {"p-0000", "14_0_0_log.out"} & names
    assert "14_1_0_log.out" in names


@pytest.mark.usefixtures("passed")
def test_several_ids_make_one_collection_without_repetition(tmp_path: Path) -> None:
    passed_sweep(tmp_path / "runs", "21")
    collection = gathered(tmp_path, "14_0", "14_1", "21", "14_0")
    assert len(collection.points) == 5
    assert collection.job_ids == ["14", "21"]


def test_a_copy_elsewhere_and_a_collection_can_be_gathered(
    tmp_path: Path, passed: FakeSweep
) -> None:
    copy = tmp_path / "from" / "afar"
    shutil.copytree(passed.ledger.root, copy)
    shutil.rmtree(tmp_path / "runs")
    collection = gathered(tmp_path, str(copy))
    assert collection.totals["PASSED"] == 3
    moved = tmp_path / "moved"
    shutil.copytree(folder_of(collection), moved)
    again = gathered(tmp_path, f"{moved}/")
    assert (again.points, again.folder) == (collection.points, moved)


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("plan.jsonl", '{"point_id": "p-0000", "ind'),
        ("sweep.json", "[]"),
        ("jobs.jsonl", '{"job_id"'),
        (RECORD, ""),
        (RECORD, "[" * 200_000),
        (RECORD, '{"outcome": "PASSED", "config": null}'),
        (RECORD, "\ufeff\x00"),
        ("14/p-0000/attempt-1/started.json", '{"pid": "x"}'),
    ],
)
def test_a_damaged_file_hides_nothing_else(
    tmp_path: Path, passed: FakeSweep, name: str, harm: str
) -> None:
    path = passed.ledger.root / name
    tail = path.read_text().splitlines()[1:] if name.endswith("l") else []
    path.write_text("\n".join([harm, *tail]))
    collection = gathered(tmp_path, f"{passed.ledger.root}/")
    assert any(problem.file.startswith(name) for problem in collection.problems)
    assert collection.totals["planned"] == 3
    assert collection.totals["PASSED"] >= 2


def test_a_folder_without_a_plan_still_shows_its_records(
    tmp_path: Path, passed: FakeSweep
) -> None:
    for name in ("plan.jsonl", "sweep.json", "jobs.jsonl"):
        (passed.ledger.root / name).unlink()
    collection = gathered(tmp_path, f"{passed.ledger.root}/")
    assert collection.totals["PASSED"] == 3
    assert collection.points[0].setting("shape.seq_len") == 1024


def test_links_that_leave_the_folder_and_special_files_are_not_read(
    tmp_path: Path, passed: FakeSweep
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("secret")
    job = passed.ledger.root / "14"
    loop = job / "p-0002/attempt-1/started.json"
    links = [(job / f"p-0000/attempt-1/{name}", secret) for name in ("record.json", "output.log")]
    for path, target in [*links, (loop, loop)]:
        path.unlink()
        path.symlink_to(target)
    for name in ("p-0001/attempt-1/record.json", "p-0002/attempt-1/output.log"):
        (job / name).unlink()
        os.mkfifo(job / name)
    (passed.ledger.root / "15").symlink_to("/etc")
    with pytest.raises(UnknownId):
        gathered(tmp_path, "77")  # every attempt is searched for this id
    collection = gathered(tmp_path)
    named = {problem.file for problem in collection.problems}
    unread = ("p-0000/attempt-1/record", "p-0001/attempt-1/record", "p-0002/attempt-1/started")
    assert {"15", *(f"14/{name}.json" for name in unread)} <= named
    assert b"secret" not in b"".join(held for held, _ in files(folder_of(collection)).values())


def test_another_folder_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(LedgerError) as refused:
        gathered(tmp_path, str(other))
    assert refused.value.path == other
    assert not (tmp_path / "results").exists()


def test_a_sweep_whose_plan_is_empty_is_an_empty_collection(
    tmp_path: Path, passed: FakeSweep
) -> None:
    (tmp_path / "left").mkdir()
    shutil.copy(passed.ledger.sweep_json, tmp_path / "left")
    collection = gathered(tmp_path, f"{tmp_path}/left")
    assert (collection.totals["planned"], collection.exit_code()) == (0, 3)


def test_problems_of_other_points_are_left_out(tmp_path: Path, passed: FakeSweep) -> None:
    name = "14/p-0002/attempt-1/record.json"
    (passed.ledger.root / name).write_text("{")
    assert not gathered(tmp_path, "14_0").problems
    assert [problem.file for problem in gathered(tmp_path, "14").problems] == [name]


@pytest.mark.usefixtures("passed")
def test_a_damaged_collection_is_an_error_with_its_path(tmp_path: Path) -> None:
    path = folder_of(gathered(tmp_path)) / "collection.json"
    path.write_text('{"points": [{"state": "DONE"}]}')
    with pytest.raises(RecordError) as refused:
        gathered(tmp_path, f"{path.parent}/")
    assert refused.value.path == path
