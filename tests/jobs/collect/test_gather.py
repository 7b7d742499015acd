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


def mixed_sweep(runs_dir: Path) -> FakeSweep:
    """Eight points, each in another state."""
    configs = [point_config(shape__seq_len=128 * (number + 1)) for number in range(8)]
    sweep = FakeSweep.plan(runs_dir, configs)
    ids = list(sweep.points)
    sweep.submit("14", ids[:7])
    sweep.attempt("14", ids[0], record(ids[0], configs[0], job_id="14_0"))
    sweep.attempt("14", ids[1], record(ids[1], configs[1], Outcome.FAILED, job_id="14_1"))
    sweep.attempt("14", ids[2], record(ids[2], configs[2], Outcome.UNSUPPORTED, job_id="14_2"))
    died = record(ids[3], configs[3], Outcome.ERROR, cause=Cause.crashed, lines=["Segfault"])
    sweep.attempt("14", ids[3], died)
    sweep.attempt("14", ids[4], None, log="step 1\n")
    sweep.attempt("14", ids[5], None, log="step 1\n")
    sweep.job_log("14_5_0_log.err", "slurmstepd: error: *** JOB 19 ON n1 CANCELLED AT x ***\n")
    return sweep


def test_every_planned_point_has_one_row_and_the_totals_add_up(tmp_path: Path) -> None:
    mixed_sweep(tmp_path / "runs")
    collection = gathered(
        tmp_path, states={"14_4": "RUNNING", "14_5": "CANCELLED", "14_6": "PENDING"}
    )
    states = [point.state for point in collection.points]
    assert states == [
        "PASSED",
        "FAILED",
        "UNSUPPORTED",
        "ERROR",
        "RUNNING",
        "ERROR",
        "PENDING",
        "PLANNED",
    ]
    totals = collection.totals
    assert totals.pop("planned") == 8 == sum(totals.values())
    assert collection.exit_code() == 1
    table = json.loads((tmp_path / "results" / collection.name / "points.json").read_text())
    assert [row["state"] for row in table] == states


def test_a_point_without_a_record_shows_its_cause_and_the_line_of_the_log(tmp_path: Path) -> None:
    mixed_sweep(tmp_path / "runs")
    killed = gathered(tmp_path, states={"14_5": "CANCELLED"}).points[5]
    assert killed.cause == "cancelled"
    assert "CANCELLED AT" in killed.evidence[0].lines[0]
    assert killed.evidence[0].file == "jobs/14/14_5_0_log.err"


def test_the_exit_code_is_that_of_the_worst_outcome(tmp_path: Path) -> None:
    passed_sweep(tmp_path / "runs")
    assert gathered(tmp_path).exit_code() == 0
    sweep = FakeSweep.plan(tmp_path / "runs", [point_config()])
    sweep.submit("15", ["p-0000"], array=False)
    sweep.attempt(
        "15", "p-0000", record("p-0000", point_config(), Outcome.UNSUPPORTED, job_id="15")
    )
    collection = gathered(tmp_path, sweep.ledger.sweep_id)
    assert collection.exit_code() == 3
    assert collection.exit_code(allow_unsupported=True) == 0


def test_collecting_again_changes_no_file(tmp_path: Path) -> None:
    mixed_sweep(tmp_path / "runs")
    folder = gathered(tmp_path).folder
    assert folder is not None
    before = files(folder)
    gathered(tmp_path)
    assert files(folder) == before


def test_files_of_a_killed_collect_are_removed(tmp_path: Path) -> None:
    mixed_sweep(tmp_path / "runs")
    folder = gathered(tmp_path).folder
    assert folder is not None
    left = folder / "jobs" / ".output.log.77.part"
    left.touch()
    os.utime(left, (0, 0))
    gathered(tmp_path)
    assert not left.exists()


def test_points_that_ended_since_are_updated(tmp_path: Path) -> None:
    sweep = mixed_sweep(tmp_path / "runs")
    assert gathered(tmp_path, states={"14_4": "RUNNING"}).totals["RUNNING"] == 1
    config = sweep.points["p-0004"]
    left = record("p-0004", config, job_id="14_4")
    attempt = sweep.ledger.point_folder("14", "p-0004") / "attempt-1"
    (attempt / "record.json").write_text(left.model_dump_json())
    assert gathered(tmp_path).totals["PASSED"] == 2


def test_each_job_has_its_logs_script_and_records(tmp_path: Path) -> None:
    passed_sweep(tmp_path / "runs")
    folder = gathered(tmp_path).folder
    assert folder is not None
    job = folder / "jobs" / "14"
    assert (job / "14_submission.sh").is_file()
    for name in ("started.json", "record.json", "output.log"):
        assert (job / "p-0001" / "attempt-1" / name).is_file()


def test_a_pickle_is_never_copied(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    (sweep.ledger.root / "14" / "14_0_result.pkl").write_bytes(b"cos\nsystem\n")
    folder = gathered(tmp_path).folder
    assert folder is not None
    assert not list(folder.rglob("*.pkl"))


def test_one_task_of_an_array_is_gathered_alone(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    sweep.job_log("14_0_0_log.out", "zero\n")
    sweep.job_log("14_1_0_log.out", "one\n")
    collection = gathered(tmp_path, "14_1")
    assert [point.point_id for point in collection.points] == ["p-0001"]
    assert collection.folder is not None
    assert collection.folder.name == "14_1"
    assert not (collection.folder / "jobs/14/p-0000").exists()
    assert not (collection.folder / "jobs/14/14_0_0_log.out").exists()
    assert (collection.folder / "jobs/14/14_1_0_log.out").exists()


def test_several_ids_make_one_collection_without_repetition(tmp_path: Path) -> None:
    passed_sweep(tmp_path / "runs", "14")
    passed_sweep(tmp_path / "runs", "21")
    collection = gathered(tmp_path, "14_0", "14_1", "21", "14_0")
    assert len(collection.points) == 5
    assert collection.job_ids == ["14", "21"]


def test_a_copy_elsewhere_and_a_collection_itself_can_be_gathered(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    copy = tmp_path / "from" / "afar"
    shutil.copytree(sweep.ledger.root, copy)
    shutil.rmtree(tmp_path / "runs")
    collection = gathered(tmp_path, str(copy))
    assert collection.totals["PASSED"] == 3
    assert collection.folder is not None
    moved = tmp_path / "moved"
    shutil.copytree(collection.folder, moved)
    again = gathered(tmp_path, f"{moved}/")
    assert again.points == collection.points
    assert again.folder == moved


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("plan.jsonl", '{"point_id": "p-0000", "ind'),
        ("sweep.json", "[]"),
        ("jobs.jsonl", '{"job_id"'),
        ("14/p-0000/attempt-1/record.json", ""),
        ("14/p-0000/attempt-1/record.json", "[" * 200_000),
        ("14/p-0000/attempt-1/record.json", '{"outcome": "PASSED", "config": null}'),
        ("14/p-0000/attempt-1/record.json", "\ufeff\x00"),
        ("14/p-0000/attempt-1/started.json", '{"pid": "x"}'),
    ],
)
def test_a_damaged_file_hides_nothing_else(tmp_path: Path, name: str, harm: str) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    path = sweep.ledger.root / name
    tail = path.read_text().splitlines()[1:] if name.endswith("l") else []
    path.write_text("\n".join([harm, *tail]))
    collection = gathered(tmp_path, f"{sweep.ledger.root}/")
    assert any(problem.file.startswith(name) for problem in collection.problems)
    assert collection.totals["planned"] == 3
    assert collection.totals["PASSED"] >= 2


def test_a_folder_without_a_plan_still_shows_its_records(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    for name in ("plan.jsonl", "sweep.json", "jobs.jsonl"):
        (sweep.ledger.root / name).unlink()
    collection = gathered(tmp_path, f"{sweep.ledger.root}/")
    assert collection.totals["PASSED"] == 3
    assert collection.points[0].setting("shape.seq_len") == 1024


def test_links_that_leave_the_folder_and_special_files_are_not_read(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    secret = tmp_path / "secret.json"
    secret.write_text("secret")
    attempt = sweep.ledger.root / "14/p-0000/attempt-1"
    for name in ("record.json", "output.log"):
        (attempt / name).unlink()
        (attempt / name).symlink_to(secret)
    fifo = sweep.ledger.root / "14/p-0001/attempt-1/record.json"
    fifo.unlink()
    os.mkfifo(fifo)
    log = sweep.ledger.root / "14/p-0002/attempt-1/output.log"
    log.unlink()
    os.mkfifo(log)
    loop = sweep.ledger.root / "14/p-0002/attempt-1/started.json"
    loop.unlink()
    loop.symlink_to(loop)
    (sweep.ledger.root / "15").symlink_to("/etc")
    with pytest.raises(UnknownId):
        gathered(tmp_path, "77")  # every attempt is searched for this id
    collection = gathered(tmp_path)
    named = {problem.file for problem in collection.problems}
    unread = ("p-0000/attempt-1/record", "p-0001/attempt-1/record", "p-0002/attempt-1/started")
    assert {"15", *(f"14/{name}.json" for name in unread)} <= named
    assert collection.folder is not None
    assert b"secret" not in b"".join(held for held, _ in files(collection.folder).values())


def test_another_folder_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(LedgerError) as refused:
        gathered(tmp_path, f"{tmp_path}/other")
    assert refused.value.path == tmp_path / "other"
    assert not (tmp_path / "results").exists()


def test_a_sweep_whose_plan_is_empty_is_an_empty_collection(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    (tmp_path / "left").mkdir()
    shutil.copy(sweep.ledger.root / "sweep.json", tmp_path / "left")
    collection = gathered(tmp_path, f"{tmp_path}/left")
    assert collection.totals["planned"] == 0
    assert collection.exit_code() == 3


def test_problems_of_other_points_are_left_out(tmp_path: Path) -> None:
    sweep = passed_sweep(tmp_path / "runs")
    path = sweep.ledger.root / "14" / "p-0002" / "attempt-1" / "record.json"
    path.write_text("{")
    assert not gathered(tmp_path, "14_0").problems
    assert [p.file for p in gathered(tmp_path, "14").problems] == [
        "14/p-0002/attempt-1/record.json"
    ]


def test_a_damaged_collection_is_an_error_with_its_path(tmp_path: Path) -> None:
    passed_sweep(tmp_path / "runs")
    folder = gathered(tmp_path).folder
    assert folder is not None
    (folder / "collection.json").write_text('{"points": [{"state": "DONE"}]}')
    with pytest.raises(RecordError) as refused:
        gathered(tmp_path, f"{folder}/")
    assert refused.value.path == folder / "collection.json"
