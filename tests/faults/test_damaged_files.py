"""Damaged, truncated, empty and foreign files of the ledger: each costs only itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.new_sweep import write_ledger
from jobs.sweeps.plan import make_plan
from jobs.sweeps.request import PointRequest
from tests.builders.ledger import passed_sweep
from tests.builders.programs import install_scheduler
from tests.conf.compositions import composed
from tests.faults.matrix import REFUSED, Check, Part, Place, Report, fault
from tests.faults.reports import points_table, report_in
from tests.launcher import Launcher

row = partial(fault, Part.around, place=Place.machine)

POINT = "p-0001"
ATTEMPT = f"14/{POINT}/attempt-1"
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda good: b"",
    "truncated": lambda good: good[: len(good) // 2],
    "binary": lambda good: b"\xff\xfe\x00\x1b[2J" + good[:20],
    "another program's": lambda good: b'{"version": 3, "nodes": [1, {"a": null}]}\n',
}
# File, how the sweep's second point is reported, exit code, and what is named for each damage.
FILES: tuple[tuple[str, str, Cause | None, int, tuple[str, ...]], ...] = (
    ("sweep.json", "PASSED", None, 3, ("sweep.json",) * 4),
    (
        *("plan.jsonl", "PASSED", None, 3),
        ("plan.jsonl", "plan.jsonl:2", "plan.jsonl:1", "plan.jsonl:1"),
    ),
    ("jobs.jsonl", "PASSED", None, 0, ("", *["jobs.jsonl:1"] * 3)),
    (f"{ATTEMPT}/started.json", "PASSED", None, 0, ("started.json",) * 4),
    (f"{ATTEMPT}/record.json", "ERROR", Cause.lost, 1, ("record.json",) * 4),
    (f"{ATTEMPT}/output.log", "PASSED", None, 0, ("",) * 4),
)


def _file_rows() -> list[object]:
    rows: list[object] = []
    for file, reported, cause, code, names in FILES:
        shown = file.removeprefix(f"14/{POINT}/")
        for damage, name in zip(DAMAGES, names, strict=True):
            mark = row(f"{shown} is {damage}", reported, cause, code=code, names=name or ())
            rows.append(pytest.param(file, damage, marks=mark, id=f"{shown}-{damage}"))
    return rows


@pytest.mark.parametrize(("file", "damage"), _file_rows())
def test_a_file_of_a_finished_sweep(
    file: str, damage: str, launcher: Launcher, check: Check
) -> None:
    root = passed_sweep(launcher.runs_dir).ledger.root
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(DAMAGES[damage](path.read_bytes() if path.exists() else b"{}\n" * 20))
    check(report_in(launcher, root, POINT))


def _add_foreign_files(root: Path) -> None:
    for name in ("README", "core.4711", ".nfs000012", "x" * 200, "name with\nnewline\x1b[2J"):
        (root / name).write_bytes(b"\x00\xff nothing of ours")
    for folder in ("p-0001", "14/p-9", "14/p-0001/attempt-x", "attempt-1", "15/notes", "é"):
        (root / folder).mkdir(parents=True)
        (root / folder / "notes.txt").write_text("mine")
    (root / ATTEMPT).mkdir(parents=True, exist_ok=True)
    (root / ATTEMPT / "profile.nsys-rep").write_bytes(os.urandom(64))


@row("foreign files and folders in a sweep", "PASSED")
def test_foreign_files(launcher: Launcher, check: Check) -> None:
    root = passed_sweep(launcher.runs_dir).ledger.root
    _add_foreign_files(root)
    _add_foreign_files(launcher.runs_dir)
    (launcher.runs_dir / "s-20260101-000000-abcdef").mkdir()
    report = report_in(launcher, root, POINT)
    assert launcher("status").out.count("PASSED") >= 3
    check(report)


def _write_as_newer_version(ledger: Ledger) -> None:
    """Give every file a higher version number and fields of its own."""
    for path in (*ledger.root.glob("*/*/attempt-*/*.json"), ledger.sweep_json):
        content = json.loads(path.read_text())
        content |= {"schema_version": 7, "speculation": {"depth": [1, 2]}}
        for part in [value for value in content.values() if isinstance(value, dict)]:
            part["later"] = "a field that this version does not know"
        path.write_text(json.dumps(content))
    lines = [
        json.loads(line) | {"later": 1} for line in ledger.plan_jsonl.read_text().splitlines()
    ]
    ledger.plan_jsonl.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@row("records of a newer version", "PASSED", note="unknown fields are kept")
def test_a_newer_version(launcher: Launcher, check: Check) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    _write_as_newer_version(ledger)
    report = report_in(launcher, ledger.root, POINT)
    (copy,) = launcher.results_dir.glob(f"*/jobs/{ATTEMPT}/record.json")
    assert json.loads(copy.read_text())["speculation"]["depth"] == [1, 2]
    check(report)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            damage,
            marks=fault(
                Part.around,
                f"{LAST_SEEN} is {damage}, and squeue does not answer",
                "RUNNING",
                names="squeue",
                code=0,
                place=Place.constructed,
            ),
            id=damage,
        )
        for damage in DAMAGES
    ],
)
def test_the_cache_of_scheduler_states(
    damage: str,
    launcher: Launcher,
    check: Check,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    (ledger.root / ATTEMPT / "record.json").unlink()
    good = b'{"at": 1.0, "tasks": {"14_1": {"job_id": "14_1", "raw_job_id": "16", "state": "X"}}}'
    (ledger.root / LAST_SEEN).write_bytes(DAMAGES[damage](good))
    script = "echo Unable to contact slurm controller >&2; exit 1"
    install_scheduler(tmp_path, monkeypatch, sbatch=script, squeue=script, sacct=script)
    done = launcher("status", POINT)
    (line,) = [line for line in done.out.splitlines() if line.startswith(POINT)]
    state = next(word for word in line.split() if word.isupper())
    check(Report(state, done.out + done.err, code=done.code))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            damage,
            marks=row(
                f"points/<id>.json is {damage} before its point runs",
                "ERROR",
                Cause.exception,
                names=".json",
                slow=True,
            ),
            id=damage,
        )
        for damage in DAMAGES
    ],
)
def test_the_point_file_of_the_node(damage: str, launcher: Launcher, check: Check) -> None:
    point_id, ledger = _planned_sweep(launcher)
    path = ledger.point_file(point_id)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    done = launcher("resume")
    launcher("collect", f"{ledger.root}/", "report=false")
    point = points_table(launcher.results_dir)[point_id]
    text = f"{done.out}{done.err}{point['reason']}{point['evidence']}"
    check(Report(point["state"], text, point["cause"], code=done.code))


@row(".submitting is a folder", REFUSED, names=".submitting")
def test_the_lock(launcher: Launcher, check: Check) -> None:
    _, ledger = _planned_sweep(launcher)
    (ledger.root / ".submitting").mkdir()
    done = launcher("resume")
    assert not ledger.jobs()
    check(Report(REFUSED, done.refusal(), code=done.code))


def _planned_sweep(launcher: Launcher) -> tuple[str, Ledger]:
    """Write a local sweep of one point, as if its process had died before it ran."""
    plan = make_plan([PointRequest(composed("run"), {})])
    ledger = Ledger.create(launcher.runs_dir)
    write_ledger(plan, ledger, verb="run", command="python launch.py run")
    return plan.points[0].point_id, ledger
