"""Collections named on the command line of `compare`, `baseline` and `history`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jobs.collect.gather import read_points
from jobs.collect.published import load_published
from jobs.collect.store import STORE_NAME, load_collection
from jobs.compare.baseline import FOLDER as BASELINES
from jobs.compare.baseline import load_baseline
from jobs.errors import RecordError, UsageError
from jobs.schedulers.scheduler import Scheduler
from jobs.status.collection import Collection

BASELINE_PREFIX = "baseline/"


def load_side(
    word: str, runs_dir: Path, results_dir: Path, schedulers: Sequence[Scheduler] = ()
) -> Collection:
    """Read one side of a comparison.

    Args:
        word: `baseline/NAME`, a file of published figures (`docs/results/published.json`) or of
            records (`docs/results/h200.jsonl`), the folder of a collection or of a sweep, a sweep
            id, `latest`, or a job id in any form.
        runs_dir: Where sweeps lie.
        results_dir: Where collections and baselines lie.
        schedulers: Schedulers to query for jobs that have not ended.

    Returns:
        The collection; nothing is gathered.

    Raises:
        JobError: The word names nothing that exists, or a damaged file.
    """
    path = Path(os.path.expanduser(word))
    if word.startswith(BASELINE_PREFIX) and not path.is_dir():
        return load_baseline(word.removeprefix(BASELINE_PREFIX), results_dir)
    if "/" in word and path.suffix == ".json":
        return load_published(path)
    try:
        return read_points([word], runs_dir, schedulers)
    except UsageError:
        gathered = results_dir / word
        if "/" in word or not (gathered / STORE_NAME).is_file():
            raise
        return load_collection(gathered)  # the sweep was deleted, its collection was not


def stored_collections(results_dir: Path) -> list[Collection]:
    """Every collection under `results_dir`, oldest first; baselines and damaged ones left out."""
    try:
        folders = [path for path in results_dir.iterdir() if path.name != BASELINES]
    except OSError:
        return []
    found = []
    for folder in sorted(folders):
        if (folder / STORE_NAME).is_file():
            try:
                found.append(load_collection(folder))
            except RecordError:
                continue  # it cannot be read any more; the others tell the history without it
    return sorted(found, key=moment)


def moment(collection: Collection) -> str:
    """When the last of a collection's points ended, ISO 8601; empty where none did."""
    ended = [point.record.finished_at for point in collection.points if point.record]
    return max((time for time in ended if time), default="")
