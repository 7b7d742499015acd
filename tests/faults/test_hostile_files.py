"""Hostile input: it is reported in one line, shown harmless and never run."""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from tests.builders.ledger import passed_sweep
from tests.faults.matrix import REFUSED, Check, Part, Place, Report, fault
from tests.faults.reports import points_table, report_in
from tests.faults.test_damaged_files import ATTEMPT, POINT
from tests.launcher import Launcher
from tests.slurm_cluster.launching import ROOT

row = partial(fault, Part.security, place=Place.machine)


@pytest.fixture
def sweep(launcher: Launcher) -> Path:
    """The folder of a finished sweep of three good points."""
    return passed_sweep(launcher.runs_dir).ledger.root


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


def _text(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(text)

    return write


RECORDS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "1 GB": ("16 MiB", _sparse),
    "10 million keys": ("16 MiB", _many_keys),
    "a FIFO": ("record.json", _fifo),
    "nested 100,000 deep": ("record.json", _text('{"a":' * 100_000)),
    "huge numbers": ("record.json", _changed(telemetry=[{"when": 10**400}], cause=10**400)),
    "wrong types": ("validation", _changed(validation=[[{}]], outcome="PASSED")),
    "a list": ("record.json", _text("[1]")),
    "the record of another point": ("p-0000", _changed(identity={"point_id": "p-0000"})),
}


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(
            write,
            marks=row(
                f"record.json: {name}", "ERROR", Cause.lost, names=names, slow="10 m" in name
            ),
            id=name,
        )
        for name, (names, write) in RECORDS.items()
    ],
)
def test_a_hostile_record(
    write: Callable[[Path], None], launcher: Launcher, sweep: Path, check: Check
) -> None:
    write(sweep / ATTEMPT / "record.json")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = report_in(launcher, sweep, POINT)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 500 * 1024, grown_kib
    copies = launcher.results_dir.glob(f"*/jobs/{ATTEMPT}/record.json")
    assert all(copy.stat().st_size < 2**24 for copy in copies)
    check(report)


@row("record.json: numbers that no float or table can hold", "PASSED")
def test_a_record_with_huge_numbers(launcher: Launcher, sweep: Path, check: Check) -> None:
    path = sweep / ATTEMPT / "record.json"
    text = path.read_text().replace('"duration_s":', f'"duration_s":1{"0" * 400},"was":')
    path.write_text(text.replace('"attempt":', f'"attempt":1{"0" * 400},"at":'))
    check(report_in(launcher, sweep, POINT))


@row("record.json: a million unknown keys", "PASSED", slow=True)
def test_a_record_with_many_keys(launcher: Launcher, sweep: Path, check: Check) -> None:
    path = sweep / ATTEMPT / "record.json"
    good = path.read_text().rstrip().removesuffix("}")
    path.write_text(good + "".join(f',"{number}":0' for number in range(1_000_000)) + "}")
    check(report_in(launcher, sweep, POINT))


# ---- ids, names and links that would leave their folder ----

VERBS = ("status", "compare", "logs", "resume", "cancel", "repro")
LEAVING = ("s-../../etc", "p-../x", "local-../../x", "14_../1", "s-x/../../etc/", "baseline/../x")


@row("ids with ../ in them", REFUSED, names=LEAVING[0])
def test_ids(launcher: Launcher, sweep: Path, check: Check) -> None:
    for word, verb in zip(LEAVING, VERBS, strict=True):
        launcher(verb, word).refusal()
        launcher("collect", word).refusal()
    launcher("baseline", "latest", "name=../../x").refusal()
    launcher("compare", "latest", "baseline/../../x").refusal()
    assert not launcher.results_dir.exists()
    check(Report(REFUSED, launcher("status", LEAVING[0]).refusal(), code=2))


def swap(path: Path, old: str, new: str) -> None:
    """Replace a text in a JSON file."""
    path.write_text(path.read_text().replace(json.dumps(old), json.dumps(new)))


@row("ids in the ledger's files with ../ and absolute paths", "PASSED")
def test_names_in_files(launcher: Launcher, check: Check) -> None:
    ledger = passed_sweep(launcher.runs_dir).ledger
    secret = launcher.runs_dir.parent / "secret"
    secret.write_text("do not copy")
    with ledger.jobs_jsonl.open("a") as jobs:
        for name in ("../../secret", "/etc", ".", "..", "a/b", "", "-x", "p-\n"):
            line = {"job_id": name, "tasks": {"0": [name]}, "scheduler": "slurm"}
            jobs.write(json.dumps(line | {"submitted_at": "x"}) + "\n")
    swap(ledger.root / ATTEMPT / "record.json", "14_1", "../../../secret")
    swap(ledger.sweep_json, ledger.sweep_id, "../../../../tmp")
    before = _outside(launcher)
    report = report_in(launcher, ledger.root, POINT)
    assert _outside(launcher) == before
    assert "do not copy" not in all_text(launcher.results_dir)
    check(report)


def _outside(launcher: Launcher) -> set[Path]:
    """Return everything beside the results."""
    top = launcher.runs_dir.parent
    return {p for p in top.rglob("*") if not p.is_relative_to(launcher.results_dir)}


def all_text(folder: Path) -> str:
    """Return the paths and contents of all files of a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return "\n".join(f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in files)


def _link_to_passwords(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@row("record.json is a link to /etc/passwd", "ERROR", Cause.lost, names="record.json")
def test_a_link_in_place_of_a_record(launcher: Launcher, sweep: Path, check: Check) -> None:
    _link_to_passwords(sweep / ATTEMPT / "record.json")
    report = report_in(launcher, sweep, POINT)
    assert "root:x:" not in all_text(launcher.results_dir) + report.text
    check(report)


@row("links in place of logs, started.json and a job's folder", "PASSED", names="attempt-2")
def test_links(launcher: Launcher, sweep: Path, check: Check) -> None:
    for name in ("started.json", "output.log"):
        _link_to_passwords(sweep / ATTEMPT / name)
    (sweep / "14" / "14_1_0_log.err").symlink_to("/etc/passwd")
    (sweep / "15").symlink_to("/etc")
    (sweep / "14" / "p-0002" / "attempt-2").symlink_to("/etc")
    report = report_in(launcher, sweep, POINT)
    logs = launcher("logs", POINT)
    assert "root:x:" not in all_text(launcher.results_dir) + report.text + logs.out + logs.err
    check(report)


@row("collection.json names a record and logs outside", "PASSED", names="etc/passwd")
def test_a_collection(launcher: Launcher, sweep: Path, check: Check) -> None:
    launcher("collect", f"{sweep}/", "report=false")
    (store,) = launcher.results_dir.glob("*/collection.json")
    content = json.loads(store.read_text())
    outside = {"record_file": "../../../../../../etc/passwd", "logs": ["/etc/passwd"]}
    content["points"][1] |= outside
    store.write_text(json.dumps(content))
    done = launcher("collect", f"{store.parent}/")
    assert "root:x:" not in all_text(launcher.results_dir) + done.out + done.err
    state = points_table(launcher.results_dir)[POINT]["state"]
    check(Report(state, done.out, code=done.code))


# ---- nothing that was read is run ----


class _MakesFolder:
    """Creates a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self.folder),)


def _plant(root: Path, marker: Path) -> None:
    """Add pickles and sources that would create a folder if anything loaded them."""
    code = f"import os; os.mkdir({str(marker)!r})\n"
    for folder in (root, root / "14", root / ATTEMPT, root / "submissions" / "0"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("14_0_result.pkl", "14_submitted.pkl", "entry.pkl", "record.pkl"):
            (folder / name).write_bytes(pickle.dumps(_MakesFolder(marker)))
        for name in ("sitecustomize.py", "json.py", "conftest.py", "jobs.py", "submitit.py"):
            (folder / name).write_text(code)
        with zipfile.ZipFile(folder / "entry.zip", "w") as archive:
            archive.writestr("sitecustomize.py", code)


@row("planted pickles, sources and archives in a sweep", "PASSED", slow=True)
def test_nothing_is_run(launcher: Launcher, sweep: Path, check: Check, tmp_path: Path) -> None:
    marker = tmp_path / "run"
    _plant(sweep, marker)
    report = report_in(launcher, sweep, POINT)
    for verb in ("status", "logs", "compare latest latest", "history"):
        launcher(*verb.split())
    assert not list(launcher.results_dir.rglob("*.p*y*"))
    assert not list(launcher.results_dir.rglob("*.pkl"))
    words = [sys.executable, str(ROOT / "launch.py"), "status", f"runs_dir={launcher.runs_dir}"]
    subprocess.run(words, cwd=sweep, check=True, capture_output=True)
    assert not marker.exists()
    check(report)
