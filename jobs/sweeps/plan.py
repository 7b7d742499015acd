"""From composed configurations to a plan.

Every point is checked before the first is planned, so that a typing error in the last one costs
nothing. Nothing starts here.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass

from conf.plain import from_plain, to_plain
from conf.problem import Problem
from conf.rules import problems
from conf.schema import Point
from conf.verbs import Run
from jobs.errors import DuplicatePoint, InvalidConfig
from jobs.sweeps.planned_point import PlannedPoint, point_id
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import CHECKOUT, Source, source_of
from mxfp8_attention.capability.refusal import refusal_by_config

POINT_FIELDS = tuple(field.name for field in dataclasses.fields(Point))


@dataclass(frozen=True)
class Plan:
    """Every point of one command in its order, with the code that it will run from.

    Attributes:
        points: Points, those known to be unsupported too.
        config: Configuration of the verb and the site.
        source: Code that was planned.
        note: Remark for the user, printed before the points start.
    """

    points: tuple[PlannedPoint, ...]
    config: Run
    source: Source
    note: str | None = None

    @property
    def runnable(self) -> tuple[PlannedPoint, ...]:
        """Points that some node may run."""
        return tuple(point for point in self.points if point.unsupported is None)

    @property
    def unsupported(self) -> tuple[PlannedPoint, ...]:
        """Points that are known to be unsupported and are not submitted."""
        return tuple(point for point in self.points if point.unsupported is not None)


def make_plan(requests: Sequence[PointRequest], source: Source | None = None) -> Plan:
    """Check every configuration and plan the points, of the checkout's code by default.

    Raises:
        InvalidConfig: All problems of all configurations.
        DuplicatePoint: Two choices of axes that plan the same point.
    """
    every = [problem for request in requests for problem in problems(request.config)]
    every += _problems_of_all(requests)
    if every:
        raise InvalidConfig(list({str(problem): problem for problem in every}.values()))
    source = source or source_of()
    points: dict[str, PlannedPoint] = {}
    for index, request in enumerate(requests):
        point = _planned(index, request, source)
        twin = points.setdefault(point.point_id, point)
        if twin is not point:
            raise DuplicatePoint(twin.label, point.label, same_site=twin.site == point.site)
    return Plan(tuple(points.values()), requests[0].config, source)


def _problems_of_all(requests: Sequence[PointRequest]) -> list[Problem]:
    """Return the problems that no single point has."""
    every = []
    clusters = sorted({request.config.cluster.name for request in requests})
    if len(clusters) > 1:
        every.append(Problem("cluster", "be the same for the whole sweep", ", ".join(clusters)))
    if os.pathsep in str(CHECKOUT):
        constraint = f"have no {os.pathsep!r} in its path, which would split PYTHONPATH"
        every.append(Problem("the checkout", constraint, CHECKOUT))
    return every


def _planned(index: int, request: PointRequest, source: Source) -> PlannedPoint:
    plain = to_plain(request.config)
    config = {name: plain[name] for name in POINT_FIELDS}
    refusal = refusal_by_config(from_plain(Point, config))
    return PlannedPoint(
        point_id=point_id(config, request.config.cluster, source),
        index=index,
        config=config,
        site={"cluster": plain["cluster"], "launch": plain["launch"]},
        choices=request.choices,
        unsupported=None if refusal is None else str(refusal),
    )
