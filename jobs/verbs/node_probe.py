"""`doctor` on a SLURM cluster: its limits, partitions and GPUs, and a node through a real job."""

from __future__ import annotations

import dataclasses

from rich.console import Console

from conf.choices import Backend
from conf.schema import Gpu
from conf.verbs import Run
from jobs.errors import SchedulerError
from jobs.schedulers.slurm.limits import ClusterLimits, NodeKind, Partition, ask_limits
from jobs.status.survey import Survey
from jobs.sweeps.plan import make_plan
from jobs.sweeps.request import PointRequest
from jobs.sweeps.selection import Selection
from jobs.terminal import screen
from jobs.terminal.interrupts import nothing_started_told
from jobs.terminal.tables import show_table
from jobs.text import pluralize
from jobs.verbs.command_line import Call
from jobs.verbs.follow import follow
from jobs.verbs.status import show_next
from jobs.verbs.sweep import submit


def limits_or_reason() -> ClusterLimits | str:
    """What the cluster allows, or why it does not say, with the remedy."""
    with nothing_started_told():
        try:
            return ask_limits()
        except SchedulerError as error:
            return str(error)


def doctor_slurm(config: Run, call: Call, limits: ClusterLimits, out: Console) -> int:
    """Shows what a cluster allows and has, then what one of its nodes can do.

    Args:
        config: A probe; without a GPU named in the command, the first that the cluster has.
        call: The command.
        limits: What the cluster answered.
        out: Where it is shown.

    Returns:
        0 when it did its work, whatever it found; 1 if the probe ended as an ERROR.
    """
    show_limits(limits, out)
    if not any(word.startswith(("gpu=", "gpu.")) for word in call.overrides):
        config = _with_a_gpu(config, limits)
    ledger, _ = submit(make_plan([PointRequest(config, {})]), call, limits, waits=True)
    ids = ledger.sweep_id + call.places
    seen: Survey = follow([Selection(ledger.root)], ids, out)
    record = seen.points[0].record
    if record is not None:
        screen.show_record(record, out)
        screen.show_variables(record, out)
    show_next(seen, ids, out)
    return 1 if seen.points[0].state == "ERROR" else 0


def _with_a_gpu(config: Run, limits: ClusterLimits) -> Run:
    """Asks for whatever GPU there is, if the configuration asks for none."""
    if config.gpu.device == "cuda":
        return config
    found = sorted(
        name
        for part in limits.partitions.values()
        for kind in part.kinds
        for name in kind.gres
        if name.split(":")[0] == "gpu"
    )
    if not found:
        return config
    gpu = Gpu(name=found[0].partition(":")[2] or "any", any=True, request=f"{found[0]}:1")
    return dataclasses.replace(config, gpu=gpu, backend=Backend.te)


def show_limits(limits: ClusterLimits, out: Console) -> None:
    """Shows the cluster's limits, the user's own, and every partition."""
    own = screen.table(f"Cluster {limits.name}", "what", "answer")
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
    show_table(out, own)
    columns = ("partition", "nodes", "CPUs", "memory", "GPUs and more", "features", "longest job")
    parts = screen.table("Partitions", *columns, right=("nodes", "CPUs", "memory"))
    for part in limits.partitions.values():
        for number, kind in enumerate(part.kinds or (None,)):
            parts.add_row(*_cells(part, kind, first=number == 0))
    show_table(out, parts)


def _limits(submit: int | None, run: int | None, minutes: int | None) -> str:
    words = (
        f"{submit} submitted" if submit is not None else "",
        f"{run} running" if run is not None else "",
        f"{pluralize(minutes, 'minute')} each" if minutes is not None else "",
    )
    return ", ".join(f"at most {word}" for word in words if word) or "no limits"


def _cells(part: Partition, kind: NodeKind | None, *, first: bool) -> tuple[str, ...]:
    marks = f"{'*' if part.default else ''}{'' if part.up else ' (down)'}"
    longest = "no limit" if part.max_time_min is None else f"{part.max_time_min} min"
    name, limit = (f"{part.name}{marks}", longest) if first else ("", "")
    if kind is None:
        return name, "0", "", "", "", "", limit
    gres = ", ".join(f"{one}:{count}" for one, count in kind.gres.items())
    memory = f"{kind.memory_mib / 1024:.0f} GiB"
    features = ", ".join(kind.features)
    return name, f"{kind.nodes} {kind.state}", str(kind.cpus), memory, gres, features, limit
