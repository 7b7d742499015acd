"""Hostile text where it is shown or shared, permissions of files, and secrets."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobs.record import Cause, to_json
from tests.builders.demo_ledger import demo_sweep
from tests.builders.ledger import FakeSweep, passed_sweep
from tests.builders.programs import install_scheduler
from tests.builders.records import point_config, record
from tests.fake_node import install
from tests.faults.matrix import REFUSED, Check, Place, Report
from tests.faults.reports import points_table, report_of
from tests.faults.test_damaged_files import ATTEMPT, POINT
from tests.faults.test_hostile_files import all_text, row, swap
from tests.launcher import Launcher
from tests.slurm_cluster.launching import FAST, SlurmUser

# What a terminal would obey, or what reverses the direction of a line.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe \x08\x08\x00 end"


# ---- what is shown ----


def _evil_sweep(launcher: Launcher) -> FakeSweep:
    """Write terminal escapes into every text that a node, a log or a plan can hold."""
    sweep = passed_sweep(launcher.runs_dir)
    path = sweep.ledger.root / ATTEMPT / "record.json"
    content = json.loads(path.read_text())
    content |= {"outcome": "ERROR", "cause": "crashed", "reason": EVIL, "command": EVIL}
    content["evidence"] = [{"lines": [EVIL, f"RuntimeError: {EVIL}"], "file": EVIL}]
    content["identity"]["job_id"] = f"14_1{EVIL}"
    content["environment"] |= {"host": EVIL, "gpu_name": EVIL, "variables": {EVIL: EVIL}}
    path.write_text(json.dumps(content))
    (path.parent / "output.log").write_text(f"{EVIL}\nError {EVIL}\n", newline="")
    lines = [json.loads(line) for line in sweep.ledger.plan_jsonl.read_text().splitlines()]
    lines[1]["choices"] = {EVIL: EVIL}
    lines[1]["config"]["shape"]["name"] = EVIL
    sweep.ledger.plan_jsonl.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (sweep.ledger.root / "14" / f"{EVIL[:5]}link").symlink_to("/etc")
    return sweep


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(
            verb,
            marks=row(f"terminal escapes, shown by {verb}", "ERROR", names="gnp.exe", code=code),
        )
        for verb, code in (("status", 0), ("logs", 0), ("collect", 1))
    ],
)
def test_escapes(verb: str, launcher: Launcher, check: Check) -> None:
    sweep = _evil_sweep(launcher)
    done = launcher(verb, f"{sweep.ledger.root}/")
    assert CONTROL.search(done.out + done.err) is None
    state = "ERROR" if "error" in done.out.lower() else "?"
    check(Report(state, done.out + done.err, code=done.code))


@row("terminal escapes in what is typed", REFUSED)
def test_escapes_in_errors(launcher: Launcher, check: Check) -> None:
    for words in (("status", f"s-{EVIL}"), ("plan", f"shape={EVIL}"), ("plan", f"{EVIL}=1")):
        done = launcher(*words)
        assert CONTROL.search(done.err) is None
        assert done.code == 2
    check(Report(REFUSED, code=2))


QUEUE = "14|1|16|RUNNING|0|0:12|{0}|{0}|{1}.0|{1}.0|\n"


@row(
    "terminal escapes in SLURM's reasons and node names",
    "RUNNING",
    names="gnp.exe",
    code=0,
    place=Place.constructed,
)
def test_escapes_from_slurm(
    launcher: Launcher, check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    (ledger.root / ATTEMPT / "record.json").unlink()
    swap(ledger.root / ATTEMPT / "started.json", "14", "14_1")
    answer = tmp_path / "answer"
    answer.write_text(QUEUE.format(EVIL.replace("\x00", ""), ledger.sweep_id), newline="")
    install_scheduler(
        tmp_path, monkeypatch, sbatch="exit 1", squeue=f"cat {answer}", sacct="exit 0"
    )
    done = launcher("status", POINT)
    assert CONTROL.search(done.out + done.err) is None
    state = "RUNNING" if "RUNNING" in done.out else "?"
    check(Report(state, done.out + done.err, code=done.code))


# ---- what is written to be shared ----

MARKUP = "</pre><script>alert(1)</script>|@everyone `x` [a](javascript:x)"


def _shared(launcher: Launcher) -> Path:
    """Collect a sweep whose texts are markup and formulas and return the folder."""
    sweep = FakeSweep.plan(
        launcher.runs_dir, [point_config(), point_config(shape__name="=HYPERLINK(1)")]
    )
    sweep.submit("14", list(sweep.points))
    for point_id, reason in zip(sweep.points, (MARKUP, "=cmd|' /C calc'!A0"), strict=True):
        config = sweep.points[point_id]
        left = record(point_id, config, reason=reason, gpu_name=MARKUP, host=f"+{MARKUP}")
        failed = left.model_copy(update={"outcome": left.outcome.FAILED, "command": reason})
        sweep.attempt("14", point_id, to_json(failed), log=f"{MARKUP}\n")
    launcher("collect", "latest")
    (folder,) = launcher.results_dir.iterdir()
    return folder


SHARED = {
    "report.html": row("markup in texts: report.html", "FAILED", names="&lt;script&gt;"),
    "points.csv": row("formulas in texts: points.csv", "FAILED", names="'=cmd"),
    "review.md": row("markup and mentions in texts: review.md", "FAILED", names="\\<script\\>"),
    "junit.xml": row("markup in texts: junit.xml", "FAILED", names="&lt;script&gt;"),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=mark) for name, mark in SHARED.items()])
def test_a_shared_file(name: str, launcher: Launcher, check: Check) -> None:
    text = (_shared(launcher) / name).read_text()
    if name == "report.html":
        assert "<script>alert" not in text
    elif name == "points.csv":
        cells = [cell for line in csv.reader(text.splitlines()) for cell in line]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]
    elif name == "review.md":
        lines = [line for line in text.splitlines() if "Command" not in line]
        assert "@everyone" not in "\n".join(lines)
    else:
        ElementTree.fromstring(text)
    state = "FAILED" if "FAILED" in text or "failure" in text else "?"
    check(Report(state, text, code=1))


# ---- permissions and secrets ----


@row("any umask: folders 0700, files 0600", "PASSED")
def test_permissions(launcher: Launcher, check: Check, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        words = (f"cluster.python={install(tmp_path)}", *FAST, "shape.seed=1,2")
        done = launcher("sweep", *words)
        launcher("collect", "latest")
        launcher("baseline", "latest", "name=first")
    finally:
        os.umask(before)
    open_to_others = [
        f"{path.stat().st_mode:o} {path}"
        for top in (launcher.runs_dir, launcher.results_dir)
        for path in top.rglob("*")
        if path.lstat().st_mode & 0o077
    ]
    # Others may list the folder of all sweeps, but not write to it.
    assert launcher.runs_dir.stat().st_mode & 0o022 == 0
    assert not open_to_others
    check(Report("PASSED", done.out, code=done.code))


@row("a token on the command line", "PASSED", names="HF_TOKEN=***")
def test_a_token_that_is_typed(launcher: Launcher, check: Check, tmp_path: Path) -> None:
    program = install(tmp_path, {128: "PASSED"})
    words = (f"cluster.python={program}", *FAST, "+cluster.env.HF_TOKEN=hunter2")
    done = launcher("run", *words)
    shown = [done, launcher("collect", "latest"), launcher("status"), launcher("logs")]
    # The plan holds the environment of its jobs; only the owner can read its folder.
    ledger = launcher.ledger()
    holders = [p for p in ledger.root.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    assert holders == [ledger.plan_jsonl]
    assert "hunter2" not in all_text(launcher.results_dir)
    assert not [one for one in shown if "hunter2" in one.out + one.err]
    check(Report("PASSED", all_text(launcher.results_dir), code=done.code))


@row("a token that a point prints", "ERROR", Cause.exception, names="login with ***")
def test_a_token_that_is_printed(launcher: Launcher, check: Check, tmp_path: Path) -> None:
    token = "hf_" + "a" * 34
    program = install(tmp_path, {128: f"RuntimeError: login with {token} failed"})
    launcher("run", f"cluster.python={program}", *FAST)
    ledger = launcher.ledger()
    done = launcher("collect", "latest")
    shown = [done, launcher("status"), launcher("logs")]
    assert not [one for one in shown if token in one.out + one.err]
    for name in ("report.html", "points.csv", "points.json", "review.md", "junit.xml"):
        (path,) = launcher.results_dir.glob(f"*/{name}")
        assert token not in path.read_text(), name
    (point,) = ledger.plan()
    shown_row = points_table(launcher.results_dir)[point.point_id]
    text = f"{shown_row['reason']}\n{shown_row['evidence']}\n{done.out}"
    check(Report(shown_row["state"], text, shown_row["cause"], code=done.code))


@row("tokens in a node's environment", "PASSED", names='"NCCL_DEBUG": "INFO"')
def test_recorded_variables(check: Check) -> None:
    from jobs.node.environment import recorded_variables

    token = "nvapi-" + "b" * 40
    recorded = recorded_variables(
        {
            **{name: "hunter2" for name in ("SLURM_JWT", "HF_TOKEN", "NVIDIA_API_KEY", "HOME")},
            "TORCH_HOME": f"https://me:{token}@host/x",
            "NCCL_DEBUG": "INFO",
        }
    )
    text = json.dumps(recorded)
    assert "hunter2" not in text
    assert token not in text
    check(Report("PASSED", text))


@row("a report of everything that can go wrong", "PASSED", names="</html>", slow=True)
def test_the_demonstration(launcher: Launcher, check: Check) -> None:
    demo_sweep(launcher.runs_dir)
    launcher("collect", "latest")
    (page,) = launcher.results_dir.glob("*/report.html")
    text = page.read_text()
    assert "<script>document.title" not in text
    check(Report("PASSED", text))


@row("launch.share=group: only its group may read", "PASSED")
def test_a_shared_sweep(launcher: Launcher, check: Check, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        words = (f"cluster.python={install(tmp_path)}", *FAST, "launch.share=group")
        done = launcher("run", *words)
    finally:
        os.umask(before)
    root = launcher.ledger().root
    modes = {p.lstat().st_mode & 0o7777 for p in root.rglob("*") if not p.name.startswith(".")}
    assert modes == {0o750, 0o640}
    check(Report("PASSED", done.out, code=done.code))


@pytest.mark.slurm
@row(
    "shell syntax in every field of a job",
    "PASSED",
    place=Place.slurm,
    note="no shell between launch.py and sbatch; only cluster.setup is run by one",
)
def test_no_shell(slurm_user: SlurmUser, check: Check) -> None:
    marker = slurm_user.folder / "run"
    evil = f"`touch {marker}`$(touch {marker});touch {marker}|touch {marker}&"
    done = slurm_user.run(
        *("run", *slurm_user.site, "wait=true"),
        "shape.seed=0",
        *(f"{key}='{evil}'" for key in ("cluster.comment", "+cluster.env.EVIL", "shape.name")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    refused = slurm_user.run("run", "cluster=slurm", f"cluster.partition='{evil}'", *FAST)
    assert refused.returncode == 2, refused.stdout
    assert not marker.exists()
    ledger = slurm_user.ledger()
    (point,) = ledger.plan()
    assert point.site["cluster"]["comment"] == evil
    check(report_of(slurm_user, ledger, point.point_id))
