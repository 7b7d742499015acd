"""The tool's verbs `run`, `sweep` and `plan`: what they start and show, and in which order."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.files import new_attempt
from jobs.record import Record
from jobs.schedulers.scheduler import Progress
from jobs.schedulers.slurm.limits import ClusterLimits, NodeKind, Partition
from jobs.sweeps.ledger import PLANNED_JOB, Ledger
from jobs.sweeps.planned_point import PlannedPoint
from jobs.terminal.interrupts import NOTHING_STARTED
from tests.fake_node import install
from tests.launcher import Launcher

RUN_POINTS = "jobs.schedulers.local.scheduler.run_points"
Records = list[tuple[PlannedPoint, Record]]


def test_plan_shows_every_point_and_the_command_that_runs_them(launcher: Launcher) -> None:
    result = launcher("plan", "shape.seq_len=128,256,100")
    assert result.code == 0
    assert "shape.seq_len=100 UNSUPPORTED: " in " ".join(result.out.split())
    last = result.out.splitlines()[-1]
    assert last.startswith("Next: python launch.py sweep shape.seq_len=128,256,100 runs_dir=")
    assert not launcher.runs_dir.exists()


def test_a_point_has_the_same_id_in_plan_and_in_sweep(launcher: Launcher, tmp_path: Path) -> None:
    words = ("shape.seq_len=128,256", f"cluster.python={install(tmp_path)}")
    shown = launcher("plan", *words).out
    assert launcher("sweep", *words).code == 0
    assert all(point.point_id in shown for point in launcher.ledger().plan())


def test_one_point_is_shown_whole_several_as_a_table(launcher: Launcher, tmp_path: Path) -> None:
    python = f"cluster.python={install(tmp_path)}"
    assert "Points" not in launcher(python).out
    several = launcher("sweep", "shape.seq_len=128,256", python).out
    assert several.splitlines()[:4] == [
        "[1/2] shape.seq_len=128",
        "PASSED  ends as PASSED",
        "[2/2] shape.seq_len=256",
        "PASSED  ends as PASSED",
    ]
    assert several.count("Points") == 1


def test_the_plan_is_written_first(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def run_points(points: Sequence[PlannedPoint], ledger: Ledger, _: Progress) -> Records:
        assert ledger.plan() == list(points)
        assert ledger.info().command.startswith("python launch.py sweep shape.seq_len=128,256 ")
        assert all(ledger.point_file(point.point_id).is_file() for point in points)
        assert ledger.jobs() == []
        seen.append(len(points))
        raise KeyboardInterrupt

    monkeypatch.setattr(RUN_POINTS, run_points)
    assert launcher("sweep", "shape.seq_len=128,256").code == 130
    assert seen == [2]


def test_ctrl_c_shows_the_records(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RUN_POINTS, _interrupted)
    result = launcher("sweep")
    assert (result.code, result.err) == (130, "")
    ledger = launcher.ledger()
    places = f"runs_dir={launcher.runs_dir} results_dir={launcher.results_dir}"
    resumed = f"{ledger.sweep_id} {places}"
    assert result.out.splitlines()[:3] == [
        "Interrupted: the running point is recorded as cancelled.",
        f"4 points were not started; to continue: python launch.py resume {resumed}",
        f"Records: {launcher.ledger().root}",
    ]


def test_a_late_ctrl_c_names_resume(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_points(points: Sequence[PlannedPoint], ledger: Ledger, _: Progress) -> Records:
        new_attempt(ledger.point_folder(PLANNED_JOB, points[0].point_id))
        raise KeyboardInterrupt

    monkeypatch.setattr(RUN_POINTS, run_points)
    result = launcher("run")
    assert (result.code, result.err) == (130, "")
    ids = f"{launcher.ledger().sweep_id} runs_dir={launcher.runs_dir}"
    assert f"\nTo run it again: python launch.py resume {ids}" in result.out


@pytest.mark.parametrize("far", [False, True])
def test_a_plan_warns_last_of_an_estimate_far_over_the_limit(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, far: bool
) -> None:
    memory = 1000 if not far else 500
    kind = NodeKind(1, 4, memory, {}, (), "idle")
    parts = {"all": Partition("all", True, True, kinds=(kind,))}
    limits = ClusterLimits("lab", "24.11", 100, 100, parts)
    monkeypatch.setattr("jobs.schedulers.slurm.scheduler.query_limits", lambda: limits)
    monkeypatch.setattr("jobs.schedulers.slurm.preview._test_only", lambda script: ("fine", None))
    result = launcher("plan", "cluster=slurm", "grid=none")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    capped = f"launch.memory_gib={memory / 1024:.1f} is the most that the partition allows"
    (told,) = (number for number, line in enumerate(lines) if capped in line)
    assert lines[told].startswith("Warning: " if far else "Note: ")
    assert lines[told + 1].startswith("Next: ") == far


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("cluster.partition=nope", "cluster.partition must "),
        ("launch.memory_gib=64", "launch.memory_gib must "),
    ],
)
def test_a_plan_that_the_cluster_would_refuse_is_the_refusal_alone(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, words: str, told: str
) -> None:
    kind = NodeKind(1, 4, 1000, {}, (), "idle")
    parts = {"all": Partition("all", True, True, kinds=(kind,))}
    limits = ClusterLimits("lab", "24.11", 100, 100, parts)
    monkeypatch.setattr("jobs.schedulers.slurm.scheduler.query_limits", lambda: limits)
    refused = launcher("plan", "cluster=slurm", "shape.seq_len=128", words).refusal()
    assert refused.startswith(told)


def _interrupted(*_words: object, **_about: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("verb", ["run", "sweep", "doctor"])
@pytest.mark.parametrize(
    "moment",
    [
        "hydra.main",
        "jobs.verbs.submit.make_plan",
        "jobs.sweeps.ledger.Ledger.write_plan",
        "jobs.schedulers.slurm.scheduler.query_limits",
    ],
)
def test_ctrl_c_before_the_plan_is_written_says_that_nothing_came_of_it(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, verb: str, moment: str
) -> None:
    if verb == "doctor":
        moment = moment.replace("verbs.submit", "verbs.doctor")
    monkeypatch.setattr(moment, _interrupted)
    words = ["cluster=slurm"] if moment.endswith("query_limits") else []
    result = launcher(verb, *words)
    assert (result.code, result.err) == (130, "")
    assert result.out.count(f"Interrupted: {NOTHING_STARTED}") == 1
    assert not list(launcher.runs_dir.glob("*"))


def test_what_is_to_be_pasted_is_quoted_for_a_shell(launcher: Launcher, tmp_path: Path) -> None:
    words = (f"runs_dir={tmp_path}/my runs", f"results_dir={tmp_path}/my results")
    ran = launcher("run", f"cluster.python={install(tmp_path)}", *words).out.splitlines()
    collected = launcher("collect", "latest", *words).out.splitlines()
    (sweep,) = (tmp_path / "my runs").iterdir()
    folder = tmp_path / "my results" / sweep.name
    told = [line.partition(": ") for line in (*ran, *collected)]
    pasted = {label: shlex.split(line) for label, _, line in told if "my r" in line}
    pasted.pop("On the cluster", None)  # where there is an sbatch
    assert pasted == {
        "Records": [str(sweep)],
        "Collected": [str(folder)],
        "Next": ["open", str(folder / "report.html")],
    }
    following = next(line for line in ran if line.startswith("Next: "))
    assert shlex.split(following)[-2:] == list(words)
