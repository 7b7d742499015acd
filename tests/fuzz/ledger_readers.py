"""Readers of files: of the ledger, of the node, and of what `collect` wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from jobs.collect.gather import collect
from jobs.collect.published import load_published
from jobs.collect.store import STORE_NAME, load_collection
from jobs.compare.comparison import compare
from jobs.compare.page import page
from jobs.errors import JobError
from jobs.node.point_file import read_point_file
from jobs.record import read_record
from jobs.report.plots.report_plots import Plots
from jobs.report.report import render
from jobs.runner.attempt import read_outcome
from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from jobs.schedulers.slurm.task import SlurmTask
from jobs.status.collection import Collection
from jobs.status.survey import survey
from jobs.sweeps.ledger import Ledger, latest, sweeps
from jobs.sweeps.reading import read_sweep
from jobs.sweeps.selection import Selection, select
from tests.builders.ledger import passed_sweep
from tests.fuzz.inputs import changed, changed_bytes
from tests.fuzz.reader import Reader

_PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "published.json"
ATTEMPT = "14/p-0001/attempt-1"
LEDGER_FILES = (
    *("sweep.json", "plan.jsonl", "jobs.jsonl"),
    *(f"{ATTEMPT}/record.json", f"{ATTEMPT}/started.json", f"{ATTEMPT}/output.log"),
)


def ledger_readers(folder: Path) -> list[Reader]:
    """Return the readers of files; their sweep and collection are created in a folder."""
    sweep = _CollectedSweep(folder / "files")
    record = (sweep.root / ATTEMPT / "record.json").read_text()
    point = (sweep.root / "points" / "p-0001.json").read_text()
    store = (sweep.gathered / STORE_NAME).read_text()
    seen = (sweep.root / LAST_SEEN).read_text()
    files = st.sampled_from(LEDGER_FILES).flatmap(
        lambda name: st.tuples(st.just(name), sweep.changes(name))
    )
    published = _PUBLISHED.read_text()
    file = ("sweep.json", (sweep.root / "sweep.json").read_bytes())
    part = "counts damage that was reported; the rest is read nevertheless"
    of_file = sweep.one_file
    return [
        Reader("record.json", changed(record), of_file(read_record), 60, record.encode()),
        Reader("record.json on the node", changed(record), sweep.outcome, 60, record.encode()),
        Reader(
            "point.json on the node", changed(point), of_file(read_point_file), 60, point.encode()
        ),
        Reader("the ledger's files", files, sweep.ledger, 40, file, part),
        Reader(LAST_SEEN, changed(seen), sweep.last_seen, 60, seen.encode()),
        Reader("collect of a ledger", files, sweep.collect, 12, file, part),
        Reader("collection.json", changed(store), sweep.store, 25, store.encode()),
        Reader(
            "published figures",
            changed(published),
            of_file(load_published),
            40,
            published.encode(),
        ),
    ]


class _CollectedSweep:
    """A finished sweep of three points, and its collection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs, self.results = folder / "runs", folder / "results"
        ledger = passed_sweep(self.runs).ledger
        self.root = ledger.root
        (self.root / "points").mkdir()
        for point in ledger.plan():
            text = '{"point_id": "p-0001", "point": %s, "command": "x"}'
            config = point.model_dump_json(include={"config"}).removeprefix('{"config":')[:-1]
            (self.root / "points" / f"{point.point_id}.json").write_text(text % config)
        survey([Selection(self.root)], [SlurmScheduler(lambda _: JobStates({"14_0": _RUNNING}))])
        (self.root / LAST_SEEN).unlink(missing_ok=True)
        self.notes_without_cache = self._notes()
        (self.root / LAST_SEEN).write_text(
            '{"at": 1.0, "tasks": {"14_1": {"job_id": "14_1", "raw_job_id": "15", '
            '"state": "RUNNING", "evidence": ["squeue: x"]}}}'
        )
        collection = collect([f"{self.root}/"], self.runs, self.results)
        assert collection.folder is not None
        self.gathered = collection.folder
        self.good = load_collection(self.gathered)

    def changes(self, name: str) -> SearchStrategy[bytes]:
        """Return the inputs in place of a file of the sweep."""
        good = (self.root / name).read_text()
        return changed_bytes(good.encode()) if name.endswith(".log") else changed(good)

    def one_file(self, read: Callable[[Path], object]) -> Callable[[bytes], bool]:
        """Return a reader of one file."""

        def read_data(data: bytes) -> bool:
            path = self.folder / "given.json"
            path.write_bytes(data)
            try:
                read(path)
            except JobError:  # quotes its input; escaped where it is shown
                return True
            return False

        return read_data

    def outcome(self, data: bytes) -> bool:
        """Read a record as the runner does."""
        folder = self.folder / "attempt-1"
        folder.mkdir(exist_ok=True)
        (folder / "record.json").write_bytes(data)
        return bool(read_outcome(folder)["cause"] == "lost")

    def ledger(self, given: tuple[str, bytes]) -> bool:
        """Read a ledger in every way except `collect`."""
        with self._changed(*given):
            refused = False
            sweep = read_sweep(self.root)
            assert {"p-0000", "p-0002"} <= set(sweep.planned)
            result = survey(
                [Selection(self.root)], [SlurmScheduler(lambda _: JobStates({"14_1": _RUNNING}))]
            )
            assert sum(result.totals.values()) == len(result.points)
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
                except JobError:
                    refused = True
        return refused

    def last_seen(self, data: bytes) -> bool:
        """Read the cached states, as while the controller is down."""
        with self._changed(LAST_SEEN, data):
            return self._notes() == self.notes_without_cache

    def _notes(self) -> list[str]:
        with self._changed(f"{ATTEMPT}/record.json", b""):
            (self.root / ATTEMPT / "record.json").unlink()
            result = survey(
                [Selection(self.root)],
                [SlurmScheduler(lambda _: JobStates({}, "squeue: down", "no"))],
            )
        assert len(result.points) == 3
        return list(result.notes)

    def collect(self, given: tuple[str, bytes]) -> bool:
        """Collect a sweep and render its pages."""
        with self._changed(*given):
            collection = collect([f"{self.root}/"], self.runs, self.folder / "again")
        totals = collection.totals
        assert totals.pop("planned") == sum(totals.values()) == len(collection.points)
        assert {"p-0000", "p-0002"} <= {point.point_id for point in collection.points}
        self._render(collection)
        return bool(collection.problems)

    def store(self, data: bytes) -> bool:
        """Read a collection and write it anew."""
        path = self.gathered / STORE_NAME
        good = path.read_bytes()
        try:
            path.write_bytes(data)
            collection = collect([f"{self.gathered}/"], self.runs, self.results)
            self._render(collection)
        except JobError:
            return True
        finally:
            path.write_bytes(good)
        return False

    def _render(self, collection: Collection) -> None:
        assert "</html>" in render(collection, Plots())
        for one in compare([self.good, collection]):
            assert "</html>" in page(one)

    @contextlib.contextmanager
    def _changed(self, name: str, data: bytes) -> Iterator[None]:
        """Replace a file of the sweep for the duration of the block."""
        path = self.root / name
        good = path.read_bytes()
        path.write_bytes(data)
        try:
            yield
        finally:
            path.write_bytes(good)


_RUNNING = SlurmTask("14_1", "15", "RUNNING", evidence=("squeue: x",))
