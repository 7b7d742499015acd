"""From composed configurations to a plan: checked, named, and told what is known to fail.

Nothing starts here. Every point is checked before the first is planned, so that a typing error in
the last one costs nothing.
"""

from __future__ import annotations

import dataclasses
import getpass
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from conf.plain import from_plain, to_plain
from conf.problem import Problem, ProblemError
from conf.rules import problems
from conf.schema import Point
from conf.site import Cluster, Launch
from conf.verbs import Places, Run
from jobs.errors import InvalidConfig, LedgerError, UsageError
from jobs.files import readable_like, write_atomic
from jobs.sweeps.ledger import Ledger, PlannedPoint, Source, SweepInfo, now
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import CHECKOUT, source_of
from mxfp8_attention.capability.refusal import refusal_by_config

POINT_FIELDS = tuple(field.name for field in dataclasses.fields(Point))


@dataclass(frozen=True)
class Plan:
    """Every point of one command, in its order, with the code it will run from."""

    points: tuple[PlannedPoint, ...]
    config: Run
    source: Source
    note: str | None = None  # what the user should know of these points before they start

    @property
    def runnable(self) -> tuple[PlannedPoint, ...]:
        """The points that some node may take."""
        return tuple(point for point in self.points if point.unsupported is None)

    @property
    def unsupported(self) -> tuple[PlannedPoint, ...]:
        """The points that are known to be unsupported, and are not submitted."""
        return tuple(point for point in self.points if point.unsupported is not None)


def make_plan(requests: Sequence[PointRequest], source: Source | None = None) -> Plan:
    """Checks every configuration and makes the points.

    Args:
        requests: What was composed, at least one.
        source: The code; asked from git if not given.

    Returns:
        The plan.

    Raises:
        UsageError: A value that cannot be, or two choices that make the same point; one line for
            each problem, and nothing was started.
    """
    every = [problem for request in requests for problem in problems(request.config)]
    every += [*_mixed(requests), *_place_problems(CHECKOUT)]
    if every:
        raise InvalidConfig(list({str(problem): problem for problem in every}.values()))
    source = source or source_of()
    points: dict[str, PlannedPoint] = {}
    for index, request in enumerate(requests):
        point = _planned(index, request, source)
        twin = points.setdefault(point.point_id, point)
        if twin is not point:
            raise UsageError(_same_point(twin, point))
    return Plan(tuple(points.values()), requests[0].config, source)


def _mixed(requests: Sequence[PointRequest]) -> list[Problem]:
    names = sorted({request.config.cluster.name for request in requests})
    if len(names) > 1:
        return [Problem("cluster", "be the same for the whole sweep", ", ".join(names))]
    return []


def _place_problems(checkout: Path) -> list[Problem]:
    if os.pathsep in str(checkout):
        constraint = f"have no {os.pathsep!r} in its path, which would split PYTHONPATH"
        return [Problem("the checkout", constraint, checkout)]
    return []


def _planned(index: int, request: PointRequest, source: Source) -> PlannedPoint:
    plain = to_plain(request.config)
    config = {name: plain[name] for name in POINT_FIELDS}
    site = {"cluster": plain["cluster"], "launch": plain["launch"]}
    refusal = refusal_by_config(from_plain(Point, config))
    return PlannedPoint(
        point_id=point_id(config, request.config.cluster, source),
        index=index,
        config=config,
        site=site,
        choices=request.choices,
        unsupported=None if refusal is None else str(refusal),
    )


def point_of(planned: PlannedPoint) -> Point:
    """The typed configuration of a planned point; LedgerError where the plan is damaged."""
    point: Point = _from_plan(Point, planned, planned.config, "config")
    return point


def site_of(planned: PlannedPoint) -> tuple[Cluster, Launch]:
    """Its typed cluster and launch configuration; LedgerError where the plan is damaged."""
    cluster, launch = planned.site.get("cluster"), planned.site.get("launch")
    return (
        _from_plan(Cluster, planned, cluster, "site.cluster"),
        _from_plan(Launch, planned, launch, "site.launch"),
    )


def _from_plan(kind: type, planned: PlannedPoint, plain: Any, key: str) -> Any:  # noqa: ANN401 - JSON, and whichever kind
    try:
        return from_plain(kind, plain, key)
    except ProblemError as error:
        raise LedgerError(
            Path("plan.jsonl"), f"is damaged at {planned.point_id}: {error}"
        ) from error


def point_id(config: dict[str, Any], cluster: Cluster, source: Source) -> str:
    """A short hash of what decides a result; never of partition, node or folder.

    Args:
        config: The point, plain.
        cluster: Its interpreter, setup lines, environment and image count.
        source: Commit and dirty tree count.

    Returns:
        `p-` and twelve hexadecimal digits.
    """
    container = cluster.container
    parts = {
        "config": config,
        "commit": source.commit,
        "dirty_hash": source.dirty_hash,
        "python": container.python if container.image is not None else cluster.python,
        "setup": cluster.setup,
        "env": cluster.env,
        "image": container.image,
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "p-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def write_ledger(plan: Plan, ledger: Ledger, *, verb: str, command: str) -> None:
    """Writes everything a node or a reader needs, before anything is submitted.

    Args:
        plan: The plan.
        ledger: An empty sweep folder.
        verb: The verb that planned it.
        command: The command line, quoted for a shell.

    Raises:
        LedgerError: The folder cannot be written, and was removed, as after Ctrl-C.
    """
    try:
        with readable_like(ledger.root):
            _write_ledger(plan, ledger, verb, command)
    except BaseException as error:
        shutil.rmtree(ledger.root, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise LedgerError(
            ledger.root.parent,
            f"(runs_dir) cannot be written: {error.strerror or error}",
            "nothing was started",
        ) from error


def _write_ledger(plan: Plan, ledger: Ledger, verb: str, command: str) -> None:
    (ledger.root / "points").mkdir()
    for point in plan.points:
        given = {
            "point_id": point.point_id,
            "sweep_id": ledger.sweep_id,
            "point": point.config,
            "command": command,
            "image": plan.config.cluster.container.image,
            **plan.source.model_dump(),
        }
        write_atomic(ledger.point_file(point.point_id), json.dumps(given, indent=1) + "\n")
    info = SweepInfo(
        sweep_id=ledger.sweep_id,
        verb=verb,
        command=command,
        source=plan.source,
        software=software(),
        cluster=plan.config.cluster.name,
        scheduler=plan.config.cluster.scheduler.name,
        host=platform.node(),
        user=_user(),
        created_at=now(),
        points=len(plan.points),
    )
    ledger.write_plan(info, plan.points)


def runs_dir(config: Places) -> Path:
    """Where sweeps lie: `runs_dir`, by default `runs/` in the checkout."""
    return _folder("runs_dir", config.runs_dir, "runs")


def results_dir(config: Places) -> Path:
    """Where collections lie: `results_dir`, by default `results/` in the checkout."""
    return _folder("results_dir", config.results_dir, "results")


def _folder(key: str, named: str | None, default: str) -> Path:
    if named is not None and not named.strip():
        raise UsageError(f"{key} must name a folder, got {named!r}; leave it out for {default}/")
    return Path(os.path.realpath(os.path.expanduser(named))) if named else CHECKOUT / default


def _same_point(one: PlannedPoint, other: PlannedPoint) -> str:
    pair = f"{_words(one)} and {_words(other)} make the same point"
    if one.site == other.site:
        return f"{pair}; name it once"
    return f"{pair}: where it runs is no part of it; run two sweeps and compare them"


def _words(point: PlannedPoint) -> str:
    return " ".join(f"{key}={value}" for key, value in point.choices.items()) or point.point_id


def software() -> dict[str, str]:
    """Versions of what the login side submits with; nothing is imported for it."""
    names = ("hydra-core", "submitit", "pydantic", "torch")
    found = {"python": sys.version.split()[0]}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
