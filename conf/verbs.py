"""The type of each verb's whole configuration: one primary config a verb."""

from __future__ import annotations

from dataclasses import dataclass, field

from conf.schema import Point
from conf.site import Cluster, Grid, Launch


@dataclass
class Places:
    """Where sweeps and collections lie; None: `runs/` and `results/` in the checkout."""

    runs_dir: str | None = None
    results_dir: str | None = None


@dataclass
class Run(Point, Places):
    """One point, or with `--multirun` several.

    Attributes:
        cluster: Where it runs.
        launch: How points become jobs.
        wait: Follow the jobs to their end, where they are submitted.
        allow_unsupported: UNSUPPORTED counts as 0 in the exit code.
    """

    cluster: Cluster = field(default_factory=Cluster)
    launch: Launch = field(default_factory=Launch)
    wait: bool = False
    allow_unsupported: bool = False


@dataclass
class Sweep(Run):
    """Many points, by axes of a grid and of the command line."""

    grid: Grid = field(default_factory=Grid)


@dataclass
class Collect(Places):
    """Gather logs and records per job id; write the tables and the report."""

    report: bool = True
    allow_unsupported: bool = False


@dataclass
class Comparing:
    """When a change counts, and what may differ between points that are compared.

    Attributes:
        threshold: Relative change of a time that matters in practice.
        accuracy_threshold: Relative change of an error that matters.
        ignore: Keys of a point, groups included, in which compared points may differ.
        across_gpus: Compare points of different GPUs.
        metrics: Words one of which a judged metric's name must hold; empty: every metric.
    """

    threshold: float = 0.02
    accuracy_threshold: float = 0.05
    ignore: list[str] = field(default_factory=list)
    across_gpus: bool = False
    metrics: list[str] = field(default_factory=list)


@dataclass
class Compare(Places):
    """What changed between collections, and whether that is more than noise.

    Attributes:
        compare: When a change counts.
        every: Show what is the same, too.
    """

    compare: Comparing = field(default_factory=Comparing)
    every: bool = False


@dataclass
class Baseline(Places):
    """Name a collection to compare with, or show the baselines there are.

    Attributes:
        name: What the baseline is called; more points may be added under it later.
        replace: Replace records that it has already.
    """

    name: str | None = None
    replace: bool = False


@dataclass
class History(Compare):
    """Every metric over many collections, and where it changed for good."""


@dataclass
class Status(Places):
    """Where every point of some sweeps or jobs stands.

    Attributes:
        watch: Show it again and again, until every point has ended.
        interval_s: Seconds between two looks.
    """

    watch: bool = False
    interval_s: float = 10.0


@dataclass
class Logs(Places):
    """The last lines of the logs of some points.

    Attributes:
        lines: Lines of each log.
        follow: Go on with what is added, until every point has ended.
    """

    lines: int = 40
    follow: bool = False


@dataclass
class Cancel(Places):
    """End jobs.

    Attributes:
        yes: Do not ask.
    """

    yes: bool = False


@dataclass
class Resume(Places):
    """Submit the points of a sweep that have no good record and no job on its way.

    Attributes:
        wait: Follow the jobs to their end.
        allow_unsupported: UNSUPPORTED counts as 0 in the exit code.
    """

    wait: bool = False
    allow_unsupported: bool = False


@dataclass
class Repro(Resume):
    """Run one point again, exactly as the ledger has it."""
