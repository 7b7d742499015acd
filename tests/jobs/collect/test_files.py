"""Files of jobs are copied once, without secrets and without what leaves the sweep's folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs.collect.files import SweepCopy
from jobs.sweeps.reading import read_sweep
from tests.builders.ledger import FakeSweep, passed_sweep


@pytest.fixture
def sweep(tmp_path: Path) -> FakeSweep:
    return passed_sweep(tmp_path / "runs")


def copied(sweep: FakeSweep, folder: Path, jobs: dict[str, None] | None = None) -> SweepCopy:
    files = read_sweep(sweep.ledger.root)
    return SweepCopy(files, list(files.planned), folder, {} if jobs is None else jobs)


def test_one_job_id_of_two_clusters_has_two_folders(sweep: FakeSweep, tmp_path: Path) -> None:
    other = passed_sweep(tmp_path / "runs")
    jobs: dict[str, None] = {}
    for one in (sweep, other):
        copied(one, tmp_path / "copy", jobs)
    assert list(jobs) == ["14", f"14.{other.ledger.sweep_id}"]


def test_secrets_of_scripts_and_plans_are_masked(sweep: FakeSweep, tmp_path: Path) -> None:
    script = sweep.ledger.job_folder("14") / "14_submission.sh"
    script.write_text("export HF_TOKEN=hf_abcdefghijklmnopqrst\n")
    copy = copied(sweep, tmp_path / "copy")
    assert "hf_" not in (copy.places["14"] / script.name).read_text()


def test_a_shell_s_log_is_copied_if_its_job_has_no_folder(tmp_path: Path) -> None:
    sweep = FakeSweep.plan(tmp_path / "runs", [{}])
    sweep.submit("14", list(sweep.points), array=False)
    shutil.rmtree(sweep.ledger.job_folder("14"))
    log = sweep.ledger.root / "submissions" / "0" / "14_batch.out"
    log.parent.mkdir(parents=True)
    log.write_text("srun: error\n")
    copy = copied(sweep, tmp_path / "copy")
    assert (copy.places["14"] / "14_batch_log.out").read_text() == "srun: error\n"


def test_a_file_that_cannot_be_copied_is_one_problem(sweep: FakeSweep, tmp_path: Path) -> None:
    blocked = tmp_path / "copy" / "jobs" / "14" / "p-0001"
    blocked.parent.mkdir(parents=True)
    blocked.touch()  # in the way of a folder
    copy = copied(sweep, tmp_path / "copy")
    files = [problem.file for problem in copy.sweep.problems]
    assert len(files) == len(set(files)) == 3
    assert all(file.startswith("14/p-0001/attempt-1/") for file in files)
