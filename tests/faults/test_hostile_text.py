"""What hostile text does where it is shown or shared, who may read, and what is not told."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobs.record import Cause, to_json
from jobs.sweeps.ledger import Ledger
from tests.builders.demo_ledger import demo_sweep
from tests.builders.ledger import FakeSweep, passed_sweep
from tests.builders.records import asked, record
from tests.fake_node import install
from tests.faults.fixtures import Tell
from tests.faults.matrix import Place, Told
from tests.faults.telling import told_of
from tests.faults.test_damaged import ATTEMPT, POINT
from tests.faults.test_hostile import all_text, row
from tests.launcher import Launcher
from tests.slurm_cluster.launching import FAST, SlurmUser

# What a terminal would obey, or what turns a line around.
UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe \x08\x08\x00 end"


# ---- what is shown ----


def _evil_sweep(launcher: Launcher) -> FakeSweep:
    """Escapes in every text that a node, a log or a plan can hold."""
    sweep = passed_sweep(launcher.runs_dir)
    path = sweep.ledger.root / ATTEMPT / "record.json"
    held = json.loads(path.read_text())
    held |= {"outcome": "ERROR", "cause": "crashed", "reason": EVIL, "command": EVIL}
    held["evidence"] = [{"lines": [EVIL, f"RuntimeError: {EVIL}"], "file": EVIL}]
    held["identity"]["job_id"] = f"14_1{EVIL}"
    held["environment"] |= {"host": EVIL, "gpu_name": EVIL, "variables": {EVIL: EVIL}}
    path.write_text(json.dumps(held))
    (path.parent / "output.log").write_text(f"{EVIL}\nError {EVIL}\n", newline="")
    lines = [json.loads(line) for line in sweep.ledger.plan_jsonl.read_text().splitlines()]
    lines[1]["choices"] = {EVIL: EVIL}
    lines[1]["config"]["shape"]["name"] = EVIL
    sweep.ledger.plan_jsonl.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (sweep.ledger.root / "14" / f"{EVIL[:5]}link").symlink_to("/etc")
    return sweep


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            words,
            marks=row(
                f"terminal escapes, shown by {words[0]}", "ERROR", "end", words[1], slow=False
            ),
            id=words[0],
        )
        for words in (("status", 0), ("logs", 0), ("collect", 1))
    ],
)
def test_escapes(words: tuple[str, int], launcher: Launcher, tell: Tell) -> None:
    sweep = _evil_sweep(launcher)
    done = launcher(words[0], f"{sweep.ledger.root}/")
    assert UNSHOWN.search(done.out + done.err) is None
    told = "ERROR" if "Error" in done.out or "ERROR" in done.out else "?"
    tell(Told(told, done.out + done.err, code=done.code))


@row("terminal escapes in what is typed", "refused", "must be", 2)
def test_escapes_in_errors(launcher: Launcher, tell: Tell) -> None:
    for words in (("status", f"s-{EVIL}"), ("plan", f"shape={EVIL}"), ("plan", f"{EVIL}=1")):
        done = launcher(*words)
        assert UNSHOWN.search(done.err) is None
        assert done.code == 2
    tell(Told("refused", launcher("status", f"s-{EVIL}").err + " must be", code=2))


QUEUE = "14|1|16|RUNNING|0|0:12|{0}|{0}|{1}.0|{1}.0|\n"


@row(
    "terminal escapes in SLURM's reasons and node names",
    "RUNNING",
    "end",
    0,
    place=Place.constructed,
)
def test_escapes_from_slurm(
    launcher: Launcher, tell: Tell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    (ledger.root / ATTEMPT / "record.json").unlink()
    answer = tmp_path / "answer"
    answer.write_text(QUEUE.format(EVIL.replace("\x00", ""), ledger.sweep_id), newline="")
    for name, script in (("sbatch", "exit 1"), ("squeue", f"cat {answer}"), ("sacct", "exit 0")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    done = launcher("status", POINT)
    assert UNSHOWN.search(done.out + done.err) is None
    told = "RUNNING" if "RUNNING" in done.out else "?"
    tell(Told(told, done.out + done.err, code=done.code))


# ---- what is written to be shared ----

MARKUP = "</pre><script>alert(1)</script>|@everyone `x` [a](javascript:x)"


def _shared(launcher: Launcher) -> Path:
    """The collection of a sweep whose texts are markup and formulas."""
    sweep = FakeSweep.plan(launcher.runs_dir, [asked(), asked(shape__name="=HYPERLINK(1)")])
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
    "report.html": row("markup in texts: report.html", "FAILED", "&lt;script&gt;", 1),
    "points.csv": row("formulas in texts: points.csv", "FAILED", "'=cmd", 1),
    "review.md": row("markup and mentions in texts: review.md", "FAILED", "\\<script\\>", 1),
    "junit.xml": row("markup in texts: junit.xml", "FAILED", "&lt;script&gt;", 1),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=mark) for name, mark in SHARED.items()])
def test_what_is_shared(name: str, launcher: Launcher, tell: Tell) -> None:
    text = (_shared(launcher) / name).read_text()
    if name == "report.html":
        assert "<script>alert" not in text
    elif name == "points.csv":
        cells = re.findall(r'(?:^|,)"?([^,"\n]*)', text, re.MULTILINE)
        assert not [cell for cell in cells if cell[:1] in tuple("=+@")]
    elif name == "review.md":
        rows = [line for line in text.splitlines() if "Command" not in line]
        assert "@everyone" not in "\n".join(rows)
    else:
        ElementTree.fromstring(text)
    tell(Told("FAILED" if "FAILED" in text or "failure" in text else "?", text, code=1))


# ---- who may read, and what is not told ----


@row("any umask: folders 0700, files 0600", "PASSED", "PASSED", 0)
def test_permissions(launcher: Launcher, tell: Tell, tmp_path: Path) -> None:
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
    # The folder of all sweeps shows their names to others; nobody else may write there.
    assert launcher.runs_dir.stat().st_mode & 0o022 == 0
    assert not open_to_others
    tell(Told("PASSED", done.out, code=done.code))


@row("a token on the command line", "PASSED", "HF_TOKEN=***", 0)
def test_a_token_that_is_typed(launcher: Launcher, tell: Tell, tmp_path: Path) -> None:
    program = install(tmp_path, {128: "PASSED"})
    words = (f"cluster.python={program}", *FAST, "+cluster.env.HF_TOKEN=hunter2")
    done = launcher("run", *words)
    shown = [done, launcher("collect", "latest"), launcher("status"), launcher("logs")]
    # The plan holds what a job is given; its folder is its owner's alone.
    ledger = launcher.ledger()
    telling = [p for p in ledger.root.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    assert telling == [ledger.plan_jsonl]
    assert "hunter2" not in all_text(launcher.results_dir)
    assert not [one for one in shown if "hunter2" in one.out + one.err]
    tell(Told("PASSED", all_text(launcher.results_dir), code=done.code))


@row("a token that a point prints", "ERROR", "login with ***", 1, cause=Cause.exception)
def test_a_token_that_is_printed(launcher: Launcher, tell: Tell, tmp_path: Path) -> None:
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
    (found,) = Ledger(ledger.root).plan()
    (table,) = launcher.results_dir.glob("*/points.json")
    (told,) = json.loads(table.read_text())
    assert told["point_id"] == found.point_id
    text = "\n".join([str(told["reason"]), str(told["evidence"]), done.out])
    tell(Told(told["state"], text, told["cause"], code=done.code))


@row("tokens in a node's environment", "PASSED", '"NCCL_DEBUG": "INFO"', 0)
def test_recorded_variables(tell: Tell) -> None:
    from jobs.node.environment import recorded_variables

    token = "nvapi-" + "b" * 40
    found = recorded_variables(
        {
            **{name: "hunter2" for name in ("SLURM_JWT", "HF_TOKEN", "NVIDIA_API_KEY", "HOME")},
            "TORCH_HOME": f"https://me:{token}@host/x",
            "NCCL_DEBUG": "INFO",
        }
    )
    text = json.dumps(found)
    assert "hunter2" not in text
    assert token not in text
    tell(Told("PASSED", text, code=0))


@row("a report of everything that can go wrong", "PASSED", "</html>", 0, slow=True)
def test_the_demonstration(launcher: Launcher, tell: Tell) -> None:
    demo_sweep(launcher.runs_dir)
    launcher("collect", "latest")
    (page,) = launcher.results_dir.glob("*/report.html")
    text = page.read_text()
    assert "<script>document.title" not in text
    tell(Told("PASSED", text, code=0))


@row("launch.share=group: its group may read, nobody else", "PASSED", "PASSED", 0)
def test_a_shared_sweep(launcher: Launcher, tell: Tell, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        words = (f"cluster.python={install(tmp_path)}", *FAST, "launch.share=group")
        done = launcher("run", *words)
    finally:
        os.umask(before)
    root = launcher.ledger().root
    found = {p.lstat().st_mode & 0o7777 for p in root.rglob("*") if not p.name.startswith(".")}
    assert found == {0o750, 0o640}
    tell(Told("PASSED", done.out, code=done.code))


@pytest.mark.slurm
@row(
    "shell syntax in every field of a job",
    "PASSED",
    "1 PASSED",
    0,
    place=Place.slurm,
    note="no shell between us and sbatch; only cluster.setup is for one",
)
def test_no_shell(slurm_user: SlurmUser, tell: Tell) -> None:
    marker = slurm_user.folder / "run"
    evil = f"`touch {marker}`$(touch {marker});touch {marker}|touch {marker}&"
    done = slurm_user.run(
        *("run", "cluster=slurm", f"cluster.python={slurm_user.node}", *FAST, "wait=true"),
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
    tell(told_of(slurm_user, ledger, point.point_id))
