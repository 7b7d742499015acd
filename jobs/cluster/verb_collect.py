"""The verb `collect`: gathers jobs into tables and a report, and shows the points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conf.verbs import Collect
from jobs.cluster import screen
from jobs.cluster.collect import collect as gather
from jobs.cluster.collect_points import CollectedPoint, Collection
from jobs.cluster.command_line import Call
from jobs.cluster.local import has_sbatch
from jobs.cluster.plan import results_dir, runs_dir
from jobs.cluster.states import ask_states
from jobs.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text


def collect(config: Collect, call: Call) -> int:
    """Gathers what the ids name, writes it, shows it.

    Args:
        config: Folders, and whether the report is written.
        call: The ids.

    Returns:
        0 if every point PASSED, 1 if one FAILED or is an ERROR, else 3.

    Raises:
        UsageError: No id, or one that names nothing.
    """
    if not call.ids:
        raise UsageError("collect must be given ids, got none; for the newest sweep: latest")
    collection = gather(
        list(call.ids),
        runs_dir(config),
        results_dir(config),
        ask_states=ask_states if has_sbatch() else None,
        report=config.report,
    )
    show(collection)
    return collection.exit_code(allow_unsupported=config.allow_unsupported)


def show(collection: Collection) -> None:
    """Shows a table of every planned point, the totals, and where everything lies."""
    out = screen.console()
    made = screen.table(
        f"Collection {collection.name}",
        *("point", "job", "what", "state", "fprop", "bprop", "reason"),
        right=("fprop", "bprop"),
    )
    for point in collection.points:
        made.add_row(*_cells(point))
    out.print(made)
    totals = ", ".join(f"{count} {name}" for name, count in collection.totals.items() if count)
    out.print(totals, markup=False)
    for problem in collection.problems:
        out.print(f"damaged: {problem.file}: {problem.what}", markup=False, style="yellow")
    report = collection.folder / "report.html" if collection.folder else None
    out.print(f"Collected: {collection.folder}", markup=False, soft_wrap=True)
    if report is not None and report.is_file():
        out.print(f"Next: open {report}", markup=False, soft_wrap=True)


def _cells(point: CollectedPoint) -> tuple[str | Text, ...]:
    fprop, bprop = screen.ratios(point.record) if point.record else ("", "")
    words = (f"{point.asked(key)}" for key in ("gpu.name", "shape.name", "recipe.name"))
    what = " ".join((*words, f"s={point.asked('shape.seq_len')}"))
    reason = screen.short(screen.harmless(point.reason))
    state = screen.styled(point.state)
    return point.point_id, point.job_id or "", what, state, fprop, bprop, reason
