"""The type of every key that says where points run and how they become jobs.

None of these decides a result, but `cluster.python`, `cluster.setup`, `cluster.env` and the
container image: those are part of a point's identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from conf.choices import Scheduler, Share
from conf.schema import MISSING


@dataclass
class Request:
    """What one GPU model needs from a scheduler; None leaves it to the cluster's own keys."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    gpus_per_node: str | None = None


@dataclass
class Container:
    """A container as pyxis takes it from srun.

    Attributes:
        image: Image name or .sqsh file; None: no container.
        mounts: "host:container[:flags]" each.
        workdir: Working directory inside.
        python: Interpreter inside.
        pythonpath: Where the checkout is mounted inside.
    """

    image: str | None = None
    mounts: list[str] = field(default_factory=list)
    workdir: str | None = None
    python: str = "python3"
    pythonpath: str | None = None


@dataclass
class Cluster:
    """Where jobs run and what the scheduler is told.

    Attributes:
        name: The group choice, and what tables print.
        scheduler: `local` runs here, `slurm` submits.
        python: The node's interpreter; None: the one that runs `launch.py`.
        setup: Shell lines before each job; a failing one fails the job.
        env: Environment variables of each job.
        requests: What each GPU model needs from the scheduler, by the name of `gpu`.
        partition: sbatch's --partition.
        account: sbatch's --account.
        qos: sbatch's --qos.
        constraint: sbatch's --constraint.
        gres: sbatch's --gres; None: what `gpu.request` or `requests` says.
        gpus_per_node: sbatch's --gpus-per-node, instead of gres.
        nodelist: sbatch's --nodelist.
        exclude: sbatch's --exclude.
        reservation: sbatch's --reservation.
        dependency: sbatch's --dependency.
        nice: sbatch's --nice.
        comment: Words added to the job's comment.
        wckey: sbatch's --wckey; None sends none.
        sbatch: Further sbatch options, by their long names.
        srun: Further srun arguments, one word each.
        container: A container for the job.
    """

    name: str = MISSING
    scheduler: Scheduler = Scheduler.local
    python: str | None = None
    setup: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    gpus_per_node: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    dependency: str | None = None
    nice: int | None = None
    comment: str | None = None
    wckey: str | None = None
    sbatch: dict[str, str] = field(default_factory=dict)
    srun: list[str] = field(default_factory=list)
    container: Container = field(default_factory=Container)


SCHEDULER_KEYS = (
    *("partition", "account", "qos", "constraint", "gres", "gpus_per_node", "nodelist"),
    *("exclude", "reservation", "dependency", "nice", "comment", "wckey"),
)
"""The keys of a cluster that are sbatch's options of the same names."""


@dataclass
class Launch:
    """How points become jobs.

    Attributes:
        name: The group choice, and what tables print.
        points_per_job: Points that one array task runs one after another.
        max_parallel: Array tasks that may run at once; None: no throttle.
        time_min: Minutes a job asks for; None: derived from its points.
        point_time_limit_s: Seconds after which a point's process is ended; None: derived.
        memory_gib: Host memory a job asks for.
        cpus_per_task: CPUs a job asks for, also given to srun.
        max_log_mib: What a point's log may hold; beyond it, its head and its tail are kept.
        retries: Resubmissions of a point that an infrastructure cause ended.
        snapshot: Run from a copy of the tree made at submission.
        share: Who may read the ledger.
    """

    name: str = MISSING
    points_per_job: int = 1
    max_parallel: int | None = None
    time_min: int | None = None
    point_time_limit_s: int | None = None
    memory_gib: float | None = None
    cpus_per_task: int | None = None
    max_log_mib: int = 64
    retries: int = 0
    snapshot: bool = False
    share: Share = Share.private


@dataclass
class Grid:
    """Named axes of a sweep: a group or a key, and the values it takes; the command line wins.

    Attributes:
        name: The group choice, and what tables print.
        axes: Values by key, as the command line would name it.
    """

    name: str = MISSING
    axes: dict[str, list[Any]] = field(default_factory=dict)
