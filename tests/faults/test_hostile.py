"""What somebody put there who means harm: it is told in a line, shown harmless, never run."""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.record import Cause
from tests.builders.ledger import passed_sweep
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, Place, Told, fault
from tests.faults.test_damaged import ATTEMPT, POINT, told_here
from tests.launcher import Launcher
from tests.slurm_cluster.launching import ROOT


def row(name: str, told: str, quotes: str, code: int, **more: Any) -> pytest.MarkDecorator:  # noqa: ANN401
    """A row of this part, on this machine."""
    return fault(
        Part.security, name, told=told, quotes=quotes, code=code, **{"place": Place.machine} | more
    )


# ---- a hostile record.json ----


def _sparse(path: Path) -> None:
    with path.open("wb") as handle:
        handle.truncate(2**30)


def _many_keys(path: Path) -> None:
    with path.open("w") as handle:
        handle.write('{"outcome": "PASSED"')
        for number in range(10_000_000):
            handle.write(f',"{number}":0')
        handle.write("}")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _changed(**changes: object) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return write


def _holding(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(text)

    return write


RECORDS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "1 GB": ("larger than 16 MiB", _sparse),
    "10 million keys": ("larger than 16 MiB", _many_keys),
    "a FIFO": ("no regular file", _fifo),
    "nested 100,000 deep": ("no record", _holding('{"a":' * 100_000)),
    "huge numbers": ("no record", _changed(telemetry=[{"when": 10**400}], cause=10**400)),
    "wrong types": ("no record: validation", _changed(validation=[[{}]], outcome="PASSED")),
    "a list": ("no record", _holding("[1]")),
    "the record of another point": (
        "record of 'p-0000'",
        _changed(identity={"point_id": "p-0000"}),
    ),
}


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(
            write,
            marks=row(
                f"record.json: {name}", "ERROR", quote, 1, cause=Cause.lost, slow="10 m" in name
            ),
            id=name,
        )
        for name, (quote, write) in RECORDS.items()
    ],
)
def test_a_hostile_record(write: Callable[[Path], None], launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    write(ledger.root / ATTEMPT / "record.json")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = told_here(launcher, ledger.root)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 500 * 1024, grown_kib
    copies = launcher.results_dir.glob(f"*/jobs/{ATTEMPT}/record.json")
    assert all(copy.stat().st_size < 2**24 for copy in copies)
    tell(told)


@row("record.json: numbers that no float or table holds", "PASSED", "3 PASSED", 0)
def test_a_record_with_huge_numbers(launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    path = ledger.root / ATTEMPT / "record.json"
    text = path.read_text().replace('"duration_s":', f'"duration_s":1{"0" * 400},"was":')
    path.write_text(text.replace('"attempt":', f'"attempt":1{"0" * 400},"at":'))
    tell(told_here(launcher, ledger.root))


@row("record.json: a million keys that nobody knows", "PASSED", "3 PASSED", 0, slow=True)
def test_a_record_with_many_keys(launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    path = ledger.root / ATTEMPT / "record.json"
    good = path.read_text().rstrip().removesuffix("}")
    path.write_text(good + "".join(f',"{number}":0' for number in range(1_000_000)) + "}")
    tell(told_here(launcher, ledger.root))


# ---- ids, names and links that would leave their folder ----

VERBS = ("status", "compare", "logs", "resume", "cancel", "repro")
LEAVING = ("s-../../etc", "p-../x", "local-../../x", "14_../1", "s-x/../../etc/", "baseline/../x")


@row("ids with ../ in them", "refused", "must", 2)
def test_ids(launcher: Launcher, tell: Tell) -> None:
    passed_sweep(launcher.runs_dir)
    said = []
    for word, verb in zip(LEAVING, VERBS, strict=True):
        said.append(launcher(verb, word).refusal())
        said.append(launcher("collect", word).refusal())
    said.append(launcher("baseline", "latest", "name=../../x").refusal())
    said.append(launcher("compare", "latest", "baseline/../../x").refusal())
    assert not launcher.results_dir.exists()
    tell(Told("refused", said[0], code=2))


def _swap(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(json.dumps(old), json.dumps(new)))


@row("ids in the ledger's files with ../ and absolute paths", "PASSED", "3 PASSED", 0)
def test_names_in_files(launcher: Launcher, tell: Tell) -> None:
    sweep = passed_sweep(launcher.runs_dir)
    ledger = sweep.ledger
    secret = launcher.runs_dir.parent / "secret"
    secret.write_text("do not tell")
    with ledger.jobs_jsonl.open("a") as jobs:
        for name in ("../../secret", "/etc", ".", "..", "a/b", "", "-x", "p-\n"):
            line = {"job_id": name, "tasks": {"0": [name]}, "scheduler": "slurm"}
            jobs.write(json.dumps(line | {"submitted_at": "x"}) + "\n")
    _swap(ledger.root / ATTEMPT / "record.json", "14_1", "../../../secret")
    _swap(ledger.sweep_json, ledger.sweep_id, "../../../../tmp")
    before = _outside(launcher)
    told = told_here(launcher, ledger.root)
    assert _outside(launcher) == before
    assert "do not tell" not in all_text(launcher.results_dir)
    tell(told)


def _outside(launcher: Launcher) -> set[Path]:
    """Everything beside runs and results."""
    top = launcher.runs_dir.parent
    return {p for p in top.rglob("*") if not p.is_relative_to(launcher.results_dir)}


def all_text(folder: Path) -> str:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return "\n".join(f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in files)


def _to_password_file(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@row("record.json is a link to /etc/passwd", "ERROR", "leaves the folder", 1, cause=Cause.lost)
def test_a_link_for_a_record(launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    _to_password_file(ledger.root / ATTEMPT / "record.json")
    told = told_here(launcher, ledger.root)
    assert "root:x:" not in all_text(launcher.results_dir) + told.text
    tell(told)


@row("links in place of logs, started.json and a job's folder", "PASSED", "is a link", 0)
def test_links(launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    for name in ("started.json", "output.log"):
        _to_password_file(ledger.root / ATTEMPT / name)
    (ledger.root / "14" / "14_1_0_log.err").symlink_to("/etc/passwd")
    (ledger.root / "15").symlink_to("/etc")
    (ledger.root / "14" / "p-0002" / "attempt-2").symlink_to("/etc")
    told = told_here(launcher, ledger.root)
    shown = launcher("logs", POINT)
    assert "root:x:" not in all_text(launcher.results_dir) + told.text + shown.out + shown.err
    tell(told)


@row("collection.json names a record and logs outside", "PASSED", "must lie inside", 0)
def test_a_collection(launcher: Launcher, tell: Tell) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    launcher("collect", f"{ledger.root}/", "report=false")
    (store,) = launcher.results_dir.glob("*/collection.json")
    held = json.loads(store.read_text())
    held["points"][1] |= {"record_file": "../../../../../../etc/passwd", "logs": ["/etc/passwd"]}
    store.write_text(json.dumps(held))
    done = launcher("collect", f"{store.parent}/")
    assert "root:x:" not in all_text(launcher.results_dir) + done.out + done.err
    (table,) = launcher.results_dir.glob("*/points.json")
    told = json.loads(table.read_text())[1]["state"]
    tell(Told(told, done.out, code=done.code))


# ---- nothing is run that was read ----


class _Touches:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self.marker),)


def _plant(root: Path, marker: Path) -> None:
    """Pickles and sources that would make a folder if anything loaded them."""
    code = f"import os; os.mkdir({str(marker)!r})\n"
    for folder in (root, root / "14", root / ATTEMPT, root / "submissions" / "0"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("14_0_result.pkl", "14_submitted.pkl", "entry.pkl", "record.pkl"):
            (folder / name).write_bytes(pickle.dumps(_Touches(marker)))
        for name in ("sitecustomize.py", "json.py", "conftest.py", "jobs.py", "submitit.py"):
            (folder / name).write_text(code)
        with zipfile.ZipFile(folder / "entry.zip", "w") as archive:
            archive.writestr("sitecustomize.py", code)


@row("planted pickles, sources and archives in a sweep", "PASSED", "3 PASSED", 0, slow=True)
def test_nothing_is_run(launcher: Launcher, tell: Tell, tmp_path: Path) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    marker = tmp_path / "run"
    _plant(ledger.root, marker)
    told = told_here(launcher, ledger.root)
    for verb in ("status", "logs", "compare latest latest", "history"):
        launcher(*verb.split())
    assert not list(launcher.results_dir.rglob("*.p*y*"))
    assert not list(launcher.results_dir.rglob("*.pkl"))
    words = [sys.executable, str(ROOT / "launch.py"), "status", f"runs_dir={launcher.runs_dir}"]
    subprocess.run(words, cwd=ledger.root, check=True, capture_output=True)
    assert not marker.exists()
    tell(told)
