"""The rules of tests/conftest.py hold, also under xdist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
SKIPPED = """
import pytest

@pytest.mark.{marker}
def test_that_is_skipped():
    pytest.skip("no such thing here")
"""


def run_pytest(
    folder: Path, source: str, ci: str, *options: str
) -> subprocess.CompletedProcess[str]:
    rules = re.sub(r"pytest_plugins = .*", "", CONFTEST.read_text())
    (folder / "conftest.py").write_text(rules)
    (folder / "test_one.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  slurm: s\n  browser: b\n  gpu: g\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", *options],
        cwd=folder,
        env=os.environ | {"CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("marker", ["slurm", "browser"])
def test_a_skip_of_a_required_test_fails_in_ci_with_its_reason(
    tmp_path: Path, marker: str
) -> None:
    done = run_pytest(tmp_path, SKIPPED.format(marker=marker), "true")
    assert done.returncode == 1, done.stdout
    assert f"`{marker}`" in done.stdout
    assert "no such thing here" in done.stdout


@pytest.mark.parametrize(("marker", "ci"), [("slurm", ""), ("gpu", "true")])
def test_other_skips_stay_skips(tmp_path: Path, marker: str, ci: str) -> None:
    done = run_pytest(tmp_path, SKIPPED.format(marker=marker), ci)
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout


def test_slurm_tests_of_one_session_run_in_one_worker(tmp_path: Path) -> None:
    source = """
import os, pathlib, pytest

@pytest.mark.slurm
@pytest.mark.parametrize("number", range(6))
def test_worker(number):
    with pathlib.Path("workers").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""
    done = run_pytest(tmp_path, source, "", "-n", "2", "--dist", "loadgroup")
    assert done.returncode == 0, done.stdout
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1
