"""A short soak on a cluster of its own, and its command line."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pytest

from tests.slurm_cluster.daemons import missing_requirement
from tests.soak import soak as module
from tests.soak.plan import EXPECTED, Planner, act_counts


@pytest.mark.slurm
@pytest.mark.slow_fault
@pytest.mark.timeout(240)  # twenty seconds of faults, then every sweep has to finish
@pytest.mark.xdist_group("own-cluster")
def test_a_short_soak_accounts_for_every_point() -> None:
    if reason := missing_requirement():
        pytest.skip(reason)
    # Not tmp_path: the cluster's sockets need a short one.
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        # A controller killed twice within seconds forgets jobs that still run; the long soak kills
        # it minutes apart.
        summary, problems = module.soak(Path(name), 20, seed=7, restarts=0)
    assert problems == []
    assert summary["accounted"] == summary["points"] > 0
    assert sum(summary["faults_from_outside"].values()) > 0
    assert summary["duplicates"] == summary["orphan_processes"] == summary["orphan_files"] == 0


def test_one_seed_plans_the_same_sweeps_and_no_point_seed_is_repeated() -> None:
    planners = [Planner(random.Random("1 plan"), "python") for _ in range(2)]
    first, second = ([planner.next() for _ in range(50)] for planner in planners)
    assert first == second
    seeds = [seed for command in first for seed in command.seeds]
    assert len(set(seeds)) == len(seeds)
    assert {seed % 100 for seed in seeds} == set(EXPECTED)
    counts = act_counts(seeds)
    assert counts["hang"] == sum(seed % 100 == 15 for seed in seeds) > 0


def test_a_failed_check_returns_1_and_keeps_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problems: list[str] = []
    monkeypatch.setattr(module, "soak", lambda *_: ({"points": 1}, problems))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path / "kept"))
    for problems, code in ((["p-1 is lost"], 1), ([], 0)):
        (tmp_path / "kept").mkdir(exist_ok=True)
        out = tmp_path / "soak.json"
        assert module.main(["--minutes", "1", "--out", str(out)]) == code
        assert json.loads(out.read_text()) == {"points": 1}
        output = capsys.readouterr()
        assert json.loads(output.out) == {"points": 1}
        assert (tmp_path / "kept").exists() == bool(problems)
        assert ("p-1 is lost" in output.err) == bool(problems)
