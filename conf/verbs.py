"""The whole configuration of each verb; conf/VERB.yaml is its primary config."""

from __future__ import annotations

from dataclasses import dataclass, field

from conf.schema import Point
from conf.site import Cluster, Grid, Launch


@dataclass
class Places:
    """Folders of sweeps and collections; None: `runs/` and `results/` in the checkout."""

    runs_dir: str | None = None
    results_dir: str | None = None


@dataclass
class Run(Point, Places):
    """One point, and how it runs."""

    cluster: Cluster = field(default_factory=Cluster)
    launch: Launch = field(default_factory=Launch)
    wait: bool = False  # follow submitted jobs until they have ended
    allow_unsupported: bool = False  # UNSUPPORTED points do not change the exit code


@dataclass
class Sweep(Run):
    """Points of a sweep: the axes of a grid and of the command line."""

    grid: Grid = field(default_factory=Grid)


@dataclass
class Collect(Places):
    """Gathering records and logs into tables and a report."""

    report: bool = True
    allow_unsupported: bool = False


@dataclass
class Comparing:
    """When a change counts, and in which keys compared points may differ."""

    threshold: float = 0.02  # relative change of a time that matters in practice
    accuracy_threshold: float = 0.05  # relative change of an error that matters
    ignore: list[str] = field(default_factory=list)  # keys or groups that may differ
    across_gpus: bool = False  # compare points of different GPUs
    metrics: list[str] = field(default_factory=list)  # parts of metric names; empty: all metrics


@dataclass
class Compare(Places):
    """Comparison of two or more collections."""

    compare: Comparing = field(default_factory=Comparing)
    every: bool = False  # show unchanged metrics, too


@dataclass
class Baseline(Places):
    """A named collection to compare with."""

    name: str | None = None  # None: list the baselines; points can be added to a name later
    replace: bool = False  # replace records that the baseline already has


@dataclass
class History(Compare):
    """Metrics over many collections, and where they changed permanently."""


@dataclass
class Status(Places):
    """States of the points of sweeps or jobs."""

    watch: bool = False  # refresh until every point has ended
    interval_s: float = 10.0  # seconds between two refreshes


@dataclass
class Logs(Places):
    """The last lines of points' logs."""

    lines: int = 40  # of each log
    follow: bool = False  # print new lines until every point has ended


@dataclass
class Cancel(Places):
    """Cancellation of jobs."""

    yes: bool = False  # do not ask for confirmation


@dataclass
class Resume(Places):
    """Submission of the points of a sweep that have neither a final record nor a job."""

    wait: bool = False  # follow submitted jobs until they have ended
    allow_unsupported: bool = False  # UNSUPPORTED points do not change the exit code


@dataclass
class Repro(Resume):
    """Repetition of one point with the configuration in the ledger."""
