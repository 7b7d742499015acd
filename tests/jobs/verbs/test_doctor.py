"""The verb doctor: what the login side and this machine can do, through a real probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.record import Outcome
from jobs.schedulers.slurm import limits
from jobs.schedulers.slurm.commands import Answer
from jobs.schedulers.slurm.limits import Association, ClusterLimits
from jobs.schedulers.slurm.site import SlurmSite
from jobs.terminal.console import Console
from tests.fake_node import install
from tests.launcher import Launcher


@pytest.mark.timeout(180)  # the node imports torch; a busy machine takes long
def test_it_shows_the_login_side_and_what_a_probe_found(launcher: Launcher) -> None:
    result = launcher("doctor", "gpu=cpu")
    assert (result.code, result.err) == (0, "")
    (record,) = launcher.records()
    assert record.outcome is Outcome.PASSED
    assert record.config["job"] == "probe"
    assert (record.validation, record.benchmark) == (None, None)
    assert record.environment.torch
    for words in ("Login side", "hydra-core", "free disk", "Availability", "MXFP8 available"):
        assert words in result.out
    assert f"torch {record.environment.torch}" in result.out
    assert str(launcher.runs_dir) in result.out
    assert "fingerprint taken" in result.out
    assert list(launcher.cwd.iterdir()) == []


def test_a_probe_that_dies_ends_with_1(launcher: Launcher, tmp_path: Path) -> None:
    text = "ModuleNotFoundError: No module named 'torch'"
    result = launcher("doctor", "gpu=cpu", f"cluster.python={install(tmp_path, {128: text})}")
    assert result.code == 1
    assert f"ERROR (import_error)  {text}" in result.out


def test_what_it_found_is_no_failure(launcher: Launcher, tmp_path: Path) -> None:
    python = install(tmp_path, {128: "UNSUPPORTED"})
    assert launcher("doctor", "gpu=cpu", f"cluster.python={python}").code == 0


def test_a_mistake_is_refused_before_anything_is_shown(launcher: Launcher) -> None:
    assert launcher("doctor", "shape.num_heads=0").refusal().startswith("shape.num_heads must be")
    assert not launcher.runs_dir.exists()


def test_a_limit_of_one_is_no_plural(capsys: pytest.CaptureFixture[str]) -> None:
    mine = Association("team", True, max_submit_jobs=1, max_jobs=2, max_time_min=1)
    limits = ClusterLimits("lab", "24.11", 1001, 10_000, associations=(mine,))
    SlurmSite(limits).show(Console())
    assert "at most 1 submitted, at most 2 running, at most 1 minute each" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("installed", [True, False])
def test_a_cluster_that_does_not_answer_is_an_answer_with_a_remedy(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    answer = Answer("", "sinfo: no controller")
    monkeypatch.setattr(limits, "call", lambda command: answer)
    which = "/usr/bin/sbatch" if installed else None
    monkeypatch.setattr("jobs.schedulers.slurm.scheduler.shutil.which", lambda name: which)
    result = launcher("doctor", "cluster=dlcluster")
    assert (result.code, result.err) == (0, "")
    shown = " ".join(result.out.split())
    assert ("sbatch is installed" if installed else "sbatch is not installed") in shown
    assert "sinfo: no controller" in shown
    assert "No node was probed" in result.out.splitlines()[-1]
    assert not launcher.runs_dir.exists()
