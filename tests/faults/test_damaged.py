"""Damaged, truncated, empty and foreign files of the ledger: each costs itself alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.record import Cause
from jobs.status.scheduler_query import LAST_SEEN
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.plan import make_plan, write_ledger
from jobs.sweeps.request import PointRequest
from tests.builders.ledger import passed_sweep
from tests.conf.compositions import composed
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, Place, Told, fault
from tests.launcher import Launcher

POINT = "p-0001"
ATTEMPT = f"14/{POINT}/attempt-1"
HARMS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda good: b"",
    "cut short": lambda good: good[: len(good) // 2],
    "no text": lambda good: b"\xff\xfe\x00\x1b[2J" + good[:20],
    "another program's": lambda good: b'{"version": 3, "nodes": [1, {"a": null}]}\n',
}
# File, what of its sweep's second point is told, exit code, and words for each harm.
FILES = (
    ("sweep.json", "PASSED", None, 3, ("sweep.json: is damaged",) * 4),
    (
        "plan.jsonl",
        "PASSED",
        None,
        3,
        ("plans 0 points", *["plan.jsonl:2: is damaged"], *["plan.jsonl:1: is damaged"] * 2),
    ),
    ("jobs.jsonl", "PASSED", None, 0, ("3 PASSED", *["jobs.jsonl:1: is damaged"] * 3)),
    (f"{ATTEMPT}/started.json", "PASSED", None, 0, ("started.json: is damaged",) * 4),
    (f"{ATTEMPT}/record.json", "ERROR", Cause.lost, 1, ("record.json is no record",) * 4),
    (f"{ATTEMPT}/output.log", "PASSED", None, 0, ("3 PASSED",) * 4),
)


def told_here(launcher: Launcher, root: Path, point_id: str = POINT) -> Told:
    """Collects a sweep without a scheduler and reads what is told of one point."""
    done = launcher("collect", f"{root}/", "report=false")
    (table,) = launcher.results_dir.glob("*/points.json")
    rows = {row["point_id"]: row for row in json.loads(table.read_text())}
    row = rows[point_id]
    states = {name: rows[name]["state"] for name in rows if name != point_id}
    text = "\n".join(str(row[key]) for key in ("reason", "evidence") if row[key])
    return Told(
        told=row["state"],
        text="\n".join([text, done.out, done.err]),
        cause=row["cause"],
        code=done.code,
        lost=2 - sum(state == "PASSED" for state in states.values()),
    )


def _rows() -> list[object]:
    made: list[object] = []
    for name, told, cause, code, quotes in FILES:
        shown = name.replace(f"14/{POINT}/", "")
        for harm, quote in zip(HARMS, quotes, strict=True):
            mark = fault(
                Part.around,
                f"{shown} is {harm}",
                told=told,
                cause=cause,
                code=code,
                quotes=quote,
                place=Place.machine,
            )
            made.append(pytest.param(name, harm, marks=mark, id=f"{shown}-{harm}"))
    return made


@pytest.mark.parametrize(("name", "harm"), _rows())
def test_a_file_of_a_finished_sweep(name: str, harm: str, launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    path = ledger.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(HARMS[harm](path.read_bytes() if path.exists() else b"{}\n" * 20))
    tell(told_here(launcher, ledger.root))


def _foreign(root: Path) -> None:
    """Things that lie in a sweep's folder and are nobody's."""
    for name in ("README", "core.4711", ".nfs000012", "x" * 200, "name with\nnewline\x1b[2J"):
        (root / name).write_bytes(b"\x00\xff nothing of ours")
    for folder in ("p-0001", "14/p-9", "14/p-0001/attempt-x", "attempt-1", "15/notes", "é"):
        (root / folder).mkdir(parents=True)
        (root / folder / "notes.txt").write_text("mine")
    (root / ATTEMPT).mkdir(parents=True, exist_ok=True)
    (root / ATTEMPT / "profile.nsys-rep").write_bytes(os.urandom(64))


@fault(
    Part.around,
    "files and folders of nobody's in a sweep",
    told="PASSED",
    quotes="3 PASSED",
    code=0,
    place=Place.machine,
)
def test_foreign_files(launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    _foreign(ledger.root)
    _foreign(launcher.runs_dir)
    (launcher.runs_dir / "s-20260101-000000-abcdef").mkdir()
    told = told_here(launcher, ledger.root)
    assert launcher("status").out.count("PASSED") >= 3
    tell(told)


def _newer(ledger: Ledger) -> None:
    """Every file as a later version might write it: a higher number, fields of its own."""
    for path in (*ledger.root.glob("*/*/attempt-*/*.json"), ledger.sweep_json):
        held = json.loads(path.read_text())
        held |= {"schema_version": 7, "speculation": {"depth": [1, 2]}}
        for part in [value for value in held.values() if isinstance(value, dict)]:
            part["later"] = "a field that this version does not know"
        path.write_text(json.dumps(held))
    lines = [
        json.loads(line) | {"later": 1} for line in ledger.plan_jsonl.read_text().splitlines()
    ]
    ledger.plan_jsonl.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@fault(
    Part.around,
    "records of a newer version",
    told="PASSED",
    quotes="3 PASSED",
    code=0,
    place=Place.machine,
    note="fields that are not known are kept",
)
def test_a_newer_version(launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    _newer(ledger)
    told = told_here(launcher, ledger.root)
    (kept,) = launcher.results_dir.glob(f"*/jobs/{ATTEMPT}/record.json")
    assert json.loads(kept.read_text())["speculation"]["depth"] == [1, 2]
    tell(told)


def _last_seen_rows() -> list[object]:
    return [
        pytest.param(
            harm,
            marks=fault(
                Part.around,
                f".last_seen.json is {harm}, and squeue is down",
                told="RUNNING",
                quotes="of jobs, nothing is shown",
                code=0,
                place=Place.constructed,
            ),
            id=harm,
        )
        for harm in HARMS
    ]


@pytest.mark.parametrize("harm", _last_seen_rows())
def test_the_cache(
    harm: str, launcher: Launcher, tell: Tell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    (ledger.root / ATTEMPT / "record.json").unlink()
    good = b'{"at": 1.0, "tasks": {"14_1": {"job_id": "14_1", "raw_job_id": "16", "state": "X"}}}'
    (ledger.root / LAST_SEEN).write_bytes(HARMS[harm](good))
    for name in ("sbatch", "squeue", "sacct"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\necho Unable to contact slurm controller >&2; exit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    done = launcher("status", "p-0001")
    (line,) = [line for line in done.out.splitlines() if line.startswith(POINT)]
    told = next(word for word in line.split() if word.isupper())
    tell(Told(told, done.out + done.err, code=done.code))


def _point_file_rows() -> list[object]:
    quotes = ("must be JSON", "must be JSON", "must be JSON", "with the key point")
    return [
        pytest.param(
            harm,
            marks=fault(
                Part.around,
                f"points/<id>.json is {harm}, before its point runs",
                told="ERROR",
                cause=Cause.exception,
                quotes=quote,
                code=1,
                place=Place.machine,
                slow=True,
            ),
            id=harm,
        )
        for harm, quote in zip(HARMS, quotes, strict=True)
    ]


@pytest.mark.parametrize("harm", _point_file_rows())
def test_the_file_that_the_node_is_given(harm: str, launcher: Launcher, tell: Tell) -> None:
    point, ledger = _planned_here(launcher)
    path = ledger.point_file(point)
    path.write_bytes(HARMS[harm](path.read_bytes()))
    done = launcher("resume")
    (row,) = [row for row in _collected(launcher, ledger) if row["point_id"] == point]
    text = "\n".join([done.out, done.err, str(row["reason"]), str(row["evidence"])])
    tell(Told(row["state"], text, row["cause"], code=done.code))


@fault(
    Part.around,
    ".submitting is a folder",
    told="refused",
    quotes=".submitting",
    code=2,
    place=Place.machine,
)
def test_the_lock(launcher: Launcher, tell: Tell) -> None:
    _, ledger = _planned_here(launcher)
    (ledger.root / ".submitting").mkdir()
    done = launcher("resume")
    assert not ledger.jobs()
    tell(Told("refused", done.refusal(), code=done.code))


def _planned_here(launcher: Launcher) -> tuple[str, Ledger]:
    """A sweep of one point on this machine, written as if its process had died at once."""
    plan = make_plan([PointRequest(composed("run"), {})])
    ledger = Ledger.create(launcher.runs_dir)
    write_ledger(plan, ledger, verb="run", command="python launch.py run")
    return plan.points[0].point_id, ledger


def _collected(launcher: Launcher, ledger: Ledger) -> list[dict[str, Any]]:
    launcher("collect", f"{ledger.root}/", "report=false")
    (table,) = launcher.results_dir.glob("*/points.json")
    rows: list[dict[str, Any]] = json.loads(table.read_text())
    return rows
