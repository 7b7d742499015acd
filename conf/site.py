"""The keys that decide where points run and how they become jobs.

None of them decides a result, except `cluster.python`, `cluster.setup`, `cluster.env` and the
container image, which are part of a point's identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from conf.choices import Scheduler, Share
from conf.schema import MISSING


@dataclass
class Request:
    """What one GPU model needs from the scheduler; None leaves it to the cluster's own keys."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    gpus_per_node: str | None = None


@dataclass
class Container:
    """A container, passed to srun in pyxis syntax."""

    image: str | None = None  # image name or .sqsh file; None: no container
    mounts: list[str] = field(default_factory=list)  # "host:container[:flags]" each
    workdir: str | None = None  # working directory inside
    python: str = "python3"  # interpreter inside
    pythonpath: str | None = None  # path of the checkout inside


@dataclass
class Cluster:
    """Where jobs run, and the options of their submission."""

    name: str = MISSING  # choice of the group, shown in tables
    scheduler: Scheduler = Scheduler.local
    python: str | None = None  # the node's interpreter; None: the one that runs launch.py
    setup: list[str] = field(default_factory=list)  # shell lines before each job; must succeed
    env: dict[str, str] = field(default_factory=dict)  # environment variables of each job
    requests: dict[str, Request] = field(default_factory=dict)  # by the name of the GPU model
    partition: str | None = None  # this and the following keys are sbatch's options
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None  # None: `requests`, or `gpu.request`
    gpus_per_node: str | None = None  # instead of gres
    nodelist: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    dependency: str | None = None
    nice: int | None = None
    comment: str | None = None  # appended to the tool's own comment
    wckey: str | None = None
    sbatch: dict[str, str] = field(default_factory=dict)  # more options by their long names
    srun: list[str] = field(default_factory=list)  # more arguments of srun
    container: Container = field(default_factory=Container)


SCHEDULER_KEYS = (
    *("partition", "account", "qos", "constraint", "gres", "gpus_per_node", "nodelist"),
    *("exclude", "reservation", "dependency", "nice", "comment", "wckey"),
)
"""Keys of a cluster that are options of sbatch with the same name."""


@dataclass
class Launch:
    """How points become jobs."""

    name: str = MISSING  # choice of the group, shown in tables
    points_per_job: int = 1  # points that one array task runs one after another
    max_parallel: int | None = None  # array tasks that may run at once; None: no limit
    time_min: int | None = None  # time limit of a job, minutes; None: estimated from its points
    point_time_limit_s: int | None = None  # time limit of a point's process; None: estimated
    memory_gib: float | None = None  # host memory of a job
    cpus_per_task: int | None = None  # CPUs of a job, also passed to srun
    max_log_mib: int = 64  # size limit of a point's log; a longer one keeps its head and tail
    retries: int = 0  # resubmissions of a point that an infrastructure cause ended
    snapshot: bool = False  # run from a copy of the checkout made at submission
    share: Share = Share.private


@dataclass
class Grid:
    """Named axes of a sweep; the command line takes precedence."""

    name: str = MISSING  # choice of the group, shown in tables
    axes: dict[str, list[Any]] = field(default_factory=dict)  # values by group or key
