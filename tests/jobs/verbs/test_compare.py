"""compare, baseline and history as a user types them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from jobs.collect.gather import collect
from jobs.errors import (
    BaselineConflict,
    InvalidValue,
    JobError,
    MissingValue,
    RecordError,
    TooFewCollections,
    UnknownId,
    UnknownName,
    WrongIds,
)
from tests.builders.ledger import FakeSweep
from tests.builders.records import point_config, record
from tests.launcher import Launcher

PUBLISHED = Path(__file__).parents[3] / "docs" / "results" / "published.json"


def swept(
    launcher: Launcher,
    scale: float = 1.0,
    *,
    seed: int = 0,
    gather: bool = False,
    gpu: str = "gb300",
) -> str:
    """A finished sweep of one point; returns its id."""
    config = point_config(gpu=gpu, shape__seq_len=4096)
    sweep = FakeSweep.plan(launcher.runs_dir, [config])
    job_id = str(100 + seed)
    sweep.submit(job_id, ["p-0000"], array=False)
    left = record("p-0000", config, job_id=job_id, scale=scale, seed=seed)
    day = f"2025-11-{seed + 1:02d}"
    moments = {"started_at": f"{day}T07:59:00+00:00", "finished_at": f"{day}T08:00:00+00:00"}
    left = left.model_copy(update=moments)
    sweep.attempt(job_id, "p-0000", left)
    if gather:
        collect([sweep.ledger.sweep_id], launcher.runs_dir, launcher.results_dir)
    return sweep.ledger.sweep_id


def test_a_regression_closes_the_gate_and_is_written_down(launcher: Launcher) -> None:
    first, second = swept(launcher), swept(launcher, 1.05, seed=5)
    result = launcher("compare", first, second)
    assert result.code == 1, result.err
    assert "1 matched point: 1 SLOWER" in result.out
    (page,) = (launcher.results_dir / "compare").rglob("compare.html")
    assert f"Written: {page}" in result.out


def test_jobs_and_sweeps_mix_and_the_threshold_is_the_users(launcher: Launcher) -> None:
    swept(launcher), swept(launcher, 1.05, seed=5)
    assert launcher("compare", "100", "105").code == 1
    assert launcher("compare", "100", "105", "compare.threshold=0.1").code == 0
    assert launcher("compare", "100", "105", "100", "compare.metrics=[bf16]").code == 0
    assert "bf16 fprop" in launcher("compare", "100", "100", "every=true").out


def test_a_baseline_is_stored_shown_and_compared_with(launcher: Launcher) -> None:
    swept(launcher), swept(launcher, 1.05, seed=5)
    result = launcher("baseline", "100", "name=good")
    assert result.code == 0, result.err
    assert "Stored 1 new and 0 replaced of 1 point" in result.out
    assert "Next: python launch.py compare baseline/good latest" in result.out
    assert "NVIDIA GB300" in launcher("baseline").out
    assert launcher("compare", "baseline/good", "105").code == 1
    assert launcher("compare", "baseline/good", "100").code == 0
    assert isinstance(launcher("baseline", "105", "name=good").error, BaselineConflict)
    assert launcher("baseline", "105", "name=good", "replace=true").code == 0
    assert launcher("compare", "baseline/good", "105").code == 0


def test_published_figures_are_compared_with_and_marked(launcher: Launcher) -> None:
    swept(launcher)
    result = launcher("compare", str(PUBLISHED), "100")
    assert result.code == 3
    assert "published, not measured" in " ".join(result.out.split())


def test_a_history_is_dated(launcher: Launcher) -> None:
    for seed in range(10):
        swept(launcher, 1.06 if seed > 5 else 1.0, seed=seed, gather=True)
    result = launcher("history")
    assert result.code == 0, result.err
    assert "2025-11-07" in result.out
    assert "14 series, 4 of them changed" in result.out
    page = (launcher.results_dir / "history" / "history.html").read_text(encoding="utf-8")
    assert "Times and speedups are trimmed means over blocks" in result.out
    assert "Times and speedups are trimmed means over blocks" in page
    assert "intervals are not drawn" in page
    assert "differ by at least 2 % (an error&#39;s by 5 %), and the 99 % interval" in page
    assert "emulated" not in result.out + page
    assert "0 of them changed" in launcher("history", "100", "101").out


def test_a_history_of_emulated_runs_follows_their_errors_alone(launcher: Launcher) -> None:
    names = [swept(launcher, seed=seed, gather=True, gpu="cpu") for seed in range(2)]
    result = launcher("history", *names, "every=true")
    assert result.code == 0, result.err
    assert "error of dx" in result.out
    assert "recipe fprop" not in result.out
    left_out = "Times of emulated arms are not followed (2 points): they do not measure hardware."
    page = (launcher.results_dir / "history" / "history.html").read_text(encoding="utf-8")
    assert left_out in result.out
    assert left_out in page
    assert "trimmed means over blocks" not in result.out + page


@pytest.mark.parametrize(
    ("words", "error", "fields"),
    [
        ("compare", WrongIds, {"given": ()}),
        ("compare 100", WrongIds, {"given": ("100",)}),
        ("compare 100 999", UnknownId, {"kind": "job", "word": "999"}),
        ("compare 100 baseline/none", UnknownName, {"kind": "baseline", "name": "none"}),
        ("compare 100 no/file.json", RecordError, {"path": Path("no/file.json")}),
        ("compare 100 100 compare.threshold=2", InvalidValue, {"key": "compare.threshold"}),
        ("baseline 100", MissingValue, {"key": "name"}),
        ("baseline name=x", WrongIds, {"verb": "baseline", "given": ()}),
        ("baseline 100 name=../x", InvalidValue, {"key": "name", "value": "../x"}),
        ("history", TooFewCollections, {"count": 0}),
        ("history 100", WrongIds, {"verb": "history", "given": ("100",)}),
    ],
)
def test_a_mistake_is_an_error_with_fields(
    launcher: Launcher, words: str, error: type[JobError], fields: dict[str, object]
) -> None:
    swept(launcher)
    result = launcher(*words.split())
    result.refusal()
    assert isinstance(result.error, error)
    assert {name: getattr(result.error, name) for name in fields} == fields


def test_a_verdict_stands_where_its_page_cannot_be_written(launcher: Launcher) -> None:
    for seed, scale in enumerate((1.0, 1.06)):
        swept(launcher, scale, seed=seed)
    (launcher.cwd / "file").write_text("no folder")
    for words, code in ((("compare", "100", "101"), 1), (("history", "100", "101"), 0)):
        result = launcher(*words, f"results_dir={launcher.cwd}/file")
        assert result.code == code, result.err
        assert "Written: " not in result.out


def test_the_page_links_reports_and_shows_when_both_sides_ran(launcher: Launcher) -> None:
    first, second = swept(launcher), swept(launcher, seed=5)
    launcher("collect", first)
    launcher("baseline", "100", "name=good")
    assert launcher("compare", first, second, "baseline/good").code == 0
    folder = launcher.results_dir / "compare"
    page = folder / f"{first}--{second}" / "compare.html"
    text = page.read_text(encoding="utf-8")
    (link,) = re.findall(r'<a href="([^"#]+)">', text)
    assert (page.parent / link).resolve() == launcher.results_dir / first / "report.html"
    assert f">{first}</a>, ran 2025-11-01 07:59 to 2025-11-01 08:00 UTC." in text
    assert f"Second: {second}, ran 2025-11-06 07:59 to 2025-11-06 08:00 UTC." in text
    other = (folder / f"{first}--good" / "compare.html").read_text(encoding="utf-8")
    assert "Third: baseline/good, ran 2025-11-01 07:59 to 2025-11-01 08:00 UTC." in other


def test_the_next_command_is_whole_and_works(launcher: Launcher) -> None:
    swept(launcher), swept(launcher, seed=5)
    kept = launcher.results_dir / "one.jsonl"
    launcher.results_dir.mkdir()
    config = point_config(gpu="gb300", shape__seq_len=4096, shape__seed=7)
    kept.write_text(record("p-0000", config).model_dump_json() + "\n")
    result = launcher("compare", "100", str(kept), "compare.threshold=0.5")
    (step,) = re.findall(r"^Next: python launch.py (.+)$", result.out, flags=re.M)
    words = shlex.split(step)
    assert "compare.threshold=0.5" in words
    assert "1 matched point" in launcher(*words).out


def test_every_verb_knows_of_a_job_what_the_scheduler_says(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(launcher, seed=5)
    waiting = FakeSweep.plan(launcher.runs_dir, [point_config(gpu="gb300", shape__seq_len=4096)])
    waiting.submit("100", ["p-0000"], array=False)
    name = waiting.ledger.sweep_id
    programs = tmp_path / "bin"
    programs.mkdir()
    said = {
        "sbatch": "exit 1",
        "squeue": f"echo '100|N/A|100|CANCELLED|0|0:00||None|{name}.0|{name}|'",
        "sacct": f"echo '100|100|CANCELLED by 7|0:0|0|None assigned|None|{name}.0'",
    }
    for program, text in said.items():
        (programs / program).write_text(f"#!/bin/sh\n{text}\n")
        (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert "ERROR" in launcher("status", name).out
    for word in (name, "100"):
        result = launcher("compare", "105", word)
        assert "ERROR (cancelled)" in " ".join(result.out.split()), result.out
        assert "no scheduler to ask" not in result.out
        assert result.code == 3  # a cancelled point is no regression
    (programs / "squeue").write_text("#!/bin/sh\necho 'Unable to contact' >&2\nexit 1\n")
    assert "Note: squeue does not answer" in launcher("compare", "105", name).out
    assert launcher("collect", name).code == 1
