"""What `doctor` shows of a SLURM cluster: its limits, partitions and GPUs."""

from __future__ import annotations

from conf.schema import Gpu
from jobs.schedulers.scheduler import Site
from jobs.schedulers.slurm.limits import ClusterLimits, NodeKind, Partition
from jobs.terminal.console import Console
from jobs.terminal.table import Column, Table
from jobs.text import pluralize


class SlurmSite(Site):
    """A cluster's limits."""

    def __init__(self, limits: ClusterLimits) -> None:
        """Keep the limits that the cluster reported."""
        self._limits = limits

    def first_gpu(self) -> Gpu | None:
        """Return the first GPU type of any partition, by name."""
        names = sorted(
            name
            for part in self._limits.partitions.values()
            for kind in part.kinds
            for name in kind.gres
            if name.split(":")[0] == "gpu"
        )
        if not names:
            return None
        return Gpu(name=names[0].partition(":")[2] or "any", any=True, request=f"{names[0]}:1")

    def show(self, out: Console) -> None:
        """Show the cluster's limits, the user's own, and every partition."""
        limits = self._limits
        own = Table("property", "value", title=f"Cluster {limits.name}")
        own.add_row("SLURM", limits.version)
        own.add_row("array tasks", f"{limits.max_array_size} (MaxArraySize)")
        own.add_row("jobs kept", f"{limits.max_job_count} (MaxJobCount)")
        for one in limits.associations:
            allowed = _limits(one.max_submit_jobs, one.max_jobs, one.max_time_min)
            qos = f"; qos {', '.join(sorted(one.qos))}" if one.qos else ""
            own.add_row(f"account {one.account}", f"{allowed}{qos}")
        for quality in limits.qos.values():
            allowed = _limits(quality.max_submit_jobs, quality.max_jobs, quality.max_time_min)
            own.add_row(f"qos {quality.name}", allowed)
        if limits.accounting_error:
            own.add_row("accounting", limits.accounting_error)
        out.print_table(own)
        numbers = (Column(name, number=True) for name in ("nodes", "CPUs", "memory"))
        parts = Table("partition", *numbers, "GRES", "features", "time limit", title="Partitions")
        for part in limits.partitions.values():
            for number, kind in enumerate(part.kinds or (None,)):
                parts.add_row(*_cells(part, kind, first=number == 0))
        out.print_table(parts)


def _limits(submit: int | None, run: int | None, minutes: int | None) -> str:
    limits = (
        f"{submit} submitted" if submit is not None else "",
        f"{run} running" if run is not None else "",
        f"{pluralize(minutes, 'minute')} each" if minutes is not None else "",
    )
    return ", ".join(f"at most {limit}" for limit in limits if limit) or "no limits"


def _cells(part: Partition, kind: NodeKind | None, *, first: bool) -> tuple[str, ...]:
    marks = f"{'*' if part.default else ''}{'' if part.up else ' (down)'}"
    time_limit = "no limit" if part.max_time_min is None else f"{part.max_time_min} min"
    name, limit = (f"{part.name}{marks}", time_limit) if first else ("", "")
    if kind is None:
        return name, "0", "", "", "", "", limit
    gres = ", ".join(f"{one}:{count}" for one, count in kind.gres.items())
    memory = f"{kind.memory_mib / 1024:.0f} GiB"
    features = ", ".join(kind.features)
    return name, f"{kind.nodes} {kind.state}", str(kind.cpus), memory, gres, features, limit
