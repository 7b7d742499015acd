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
