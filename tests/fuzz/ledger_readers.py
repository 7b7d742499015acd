"""Readers of files: the ledger's, the node's, and what `collect` wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from jobs.collect.gather import collect
from jobs.collect.published import load_published
from jobs.collect.store import STORE_NAME, load_collection
from jobs.compare.comparison import compare
from jobs.compare.page import page
from jobs.errors import JobError, RecordError, UsageError
from jobs.node.point_file import read_point_file
from jobs.record import read_record
from jobs.report.drawings import Plots
from jobs.report.report import render
from jobs.runner.attempt import read_outcome
from jobs.schedulers.slurm.states import Knowledge, TaskState
from jobs.status.collection import Collection
from jobs.status.scheduler_query import LAST_SEEN
from jobs.status.survey import survey
from jobs.sweeps.ledger import Ledger, latest, sweeps
from jobs.sweeps.reading import read_sweep
from jobs.sweeps.selection import Selection, select
from tests.builders.ledger import passed_sweep
from tests.fuzz.reader import Reader, changed, changed_bytes

_PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "published.json"
ATTEMPT = "14/p-0001/attempt-1"
LEDGER_FILES = (
    *("sweep.json", "plan.jsonl", "jobs.jsonl"),
    *(f"{ATTEMPT}/record.json", f"{ATTEMPT}/started.json", f"{ATTEMPT}/output.log"),
)


def ledger_readers(folder: Path) -> list[Reader]:
    """Every reader of files.

    Args:
        folder: Where a sweep and a collection are made for them.
    """
    world = _World(folder / "files")
    record = (world.root / ATTEMPT / "record.json").read_text()
    point = (world.root / "points" / "p-0001.json").read_text()
    store = (world.gathered / STORE_NAME).read_text()
    seen = (world.root / LAST_SEEN).read_text()
    files = st.sampled_from(LEDGER_FILES).flatmap(
        lambda name: st.tuples(st.just(name), world.changes(name))
    )
    published = _PUBLISHED.read_text()
    file = ("sweep.json", (world.root / "sweep.json").read_bytes())
    part = "counts what was told as damaged; what is not is read all the same"
    of_file = world.one_file
    return [
        Reader("record.json", changed(record), of_file(read_record), 60, record.encode()),
        Reader("record.json on the node", changed(record), world.outcome, 60, record.encode()),
        Reader(
            "point.json on the node", changed(point), of_file(read_point_file), 60, point.encode()
        ),
        Reader("the ledger's files", files, world.ledger, 40, file, part),
        Reader(LAST_SEEN, changed(seen), world.last_seen, 60, seen.encode()),
        Reader("collect of a ledger", files, world.collect, 12, file, part),
        Reader("collection.json", changed(store), world.store, 25, store.encode()),
        Reader(
            "published figures",
            changed(published),
            of_file(load_published),
            40,
            published.encode(),
        ),
    ]


class _World:
    """A finished sweep of three points, and what was gathered of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs, self.results = folder / "runs", folder / "results"
        ledger = passed_sweep(self.runs).ledger
        self.root = ledger.root
        (self.root / "points").mkdir()
        for point in ledger.plan():
            text = '{"point_id": "p-0001", "point": %s, "command": "x"}'
            held = point.model_dump_json(include={"config"}).removeprefix('{"config":')[:-1]
            (self.root / "points" / f"{point.point_id}.json").write_text(text % held)
        survey([Selection(self.root)], lambda _: Knowledge({"14_0": _RUNS}))
        (self.root / LAST_SEEN).write_text(
            '{"at": 1.0, "tasks": {"14_1": {"job_id": "14_1", "raw_job_id": "15", '
            '"state": "RUNNING", "evidence": ["squeue: x"]}}}'
        )
        found = collect([f"{self.root}/"], self.runs, self.results)
        assert found.folder is not None
        self.gathered = found.folder
        self.sound = load_collection(self.gathered)

    def changes(self, name: str) -> SearchStrategy[bytes]:
        """What a file of the sweep may hold instead."""
        good = (self.root / name).read_text()
        return changed_bytes(good.encode()) if name.endswith(".log") else changed(good)

    def one_file(self, read: Callable[[Path], object]) -> Callable[[bytes], bool]:
        """A reader of a file anywhere."""

        def fed(data: bytes) -> bool:
            path = self.folder / "given.json"
            path.write_bytes(data)
            try:
                read(path)
            except (RecordError, UsageError):  # quotes what it read; whoever shows it escapes it
                return True
            return False

        return fed

    def outcome(self, data: bytes) -> bool:
        """What the entry says of a record that it finds."""
        folder = self.folder / "attempt-1"
        folder.mkdir(exist_ok=True)
        (folder / "record.json").write_bytes(data)
        return str(read_outcome(folder)["reason"]).startswith("its record")

    def ledger(self, given: tuple[str, bytes]) -> bool:
        """All that reads a ledger but for `collect`."""
        with self._changed(*given):
            refused = False
            sweep = read_sweep(self.root)
            assert {"p-0000", "p-0002"} <= set(sweep.planned)
            seen = survey([Selection(self.root)], lambda names: Knowledge({"14_1": _RUNS}))
            assert sum(seen.totals.values()) == len(seen.points)
            ledger = Ledger(self.root)
            for read in (ledger.info, ledger.plan, ledger.jobs, lambda: latest(self.runs)):
                try:
                    read()
                except JobError:
                    refused = True
            assert [one.root for one in sweeps(self.runs)] == [self.root]
            for word in ("14_1", "p-0001", "14", "latest", self.root.name):
                try:
                    select([word], self.runs)
                except UsageError:
                    refused = True
        return refused

    def last_seen(self, data: bytes) -> bool:
        """The cache, which is read while the controller is down."""
        with self._changed(LAST_SEEN, data), self._changed(f"{ATTEMPT}/record.json", b""):
            (self.root / ATTEMPT / "record.json").unlink()
            seen = survey([Selection(self.root)], lambda _: Knowledge({}, "squeue: down", "no"))
        assert len(seen.points) == 3
        return any("nothing is shown" in note for note in seen.notes)

    def collect(self, given: tuple[str, bytes]) -> bool:
        """The whole way to the pages."""
        with self._changed(*given):
            found = collect([f"{self.root}/"], self.runs, self.folder / "again")
        totals = found.totals
        assert totals.pop("planned") == sum(totals.values()) == len(found.points)
        assert {"p-0000", "p-0002"} <= {point.point_id for point in found.points}
        self._pages(found)
        return bool(found.problems)

    def store(self, data: bytes) -> bool:
        """A collection that is read back, and written anew."""
        path = self.gathered / STORE_NAME
        good = path.read_bytes()
        try:
            path.write_bytes(data)
            found = collect([f"{self.gathered}/"], self.runs, self.results)
            self._pages(found)
        except (RecordError, UsageError):
            return True
        finally:
            path.write_bytes(good)
        return False

    def _pages(self, found: Collection) -> None:
        assert "</html>" in render(found, Plots())
        for one in compare([self.sound, found]):
            assert "</html>" in page(one)

    def _changed(self, name: str, data: bytes) -> _Changed:
        return _Changed(self.root / name, data)


class _Changed:
    """A file holds other bytes while this lasts."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._good = path.read_bytes()
        self._data = data

    def __enter__(self) -> None:
        self._path.write_bytes(self._data)

    def __exit__(self, *_: object) -> None:
        self._path.write_bytes(self._good)


_RUNS = TaskState("14_1", "15", "RUNNING", evidence=("squeue: x",))
