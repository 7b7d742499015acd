"""The verb `repro`: runs one point again."""

from __future__ import annotations

from collections.abc import Sequence

from conf.verbs import Repro, Run
from jobs.errors import WrongIds
from jobs.sweeps.plan import Plan
from jobs.sweeps.planned_point import PlannedPoint, point_id
from jobs.sweeps.reading import read_sweep
from jobs.sweeps.selection import Selection
from jobs.sweeps.source import source_of
from jobs.terminal.console import Console
from jobs.verbs.command_line import Call
from jobs.verbs.scope import Scope
from jobs.verbs.submit import start

_ONE_POINT = "exactly one point id (p-...)"


def repro(config: Repro, call: Call) -> int:
    """Run one point again exactly as the ledger has it, as a sweep of its own."""
    if len(call.ids) != 1:
        raise WrongIds("repro", _ONE_POINT, call.ids)
    point = _only_point(Scope.of_call(config, call).selections)
    cluster, launch = point.typed_site()
    source = source_of()
    name = point_id(point.config, cluster, source)
    if name != point.point_id:
        Console().print_line(
            f"Note: {point.point_id} ran from other code; with the present code "
            f"({source}) it is {name}. To run the same code, check out its commit.",
        )
    run = Run(
        cluster=cluster,
        launch=launch,
        runs_dir=config.runs_dir,
        wait=config.wait,
        allow_unsupported=config.allow_unsupported,
    )
    again = point.model_copy(update={"point_id": name, "index": 0})
    return start(Plan((again,), run, source), call)


def _only_point(selections: Sequence[Selection]) -> PlannedPoint:
    points = {
        name: sweep.planned[name]
        for part in selections
        for sweep in [read_sweep(part.folder)]
        for name in part.points_of(sweep)
    }
    if len(points) != 1:
        raise WrongIds("repro", _ONE_POINT, list(points))
    return next(iter(points.values()))
