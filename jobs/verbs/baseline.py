"""The verb `baseline`: store good points under a name, or list the baselines."""

from __future__ import annotations

from conf import verbs
from jobs.compare.baseline import (
    Saved,
    baseline_names,
    coverage,
    load_baseline,
    save_baseline,
)
from jobs.errors import MissingValue, WrongIds
from jobs.sweeps.folders import results_dir
from jobs.terminal.console import Console
from jobs.terminal.table import Column, Table
from jobs.text import pluralize
from jobs.verbs.collections import load_collections
from jobs.verbs.command_line import Call


def baseline(config: verbs.Baseline, call: Call) -> int:
    """Store points that PASSED under a name; without ids, list the baselines."""
    if call.ids and not config.name:
        raise MissingValue("name")
    if config.name and not call.ids:
        raise WrongIds(
            "baseline", "at least one collection", (), f"baseline latest name={config.name}"
        )
    results, out = results_dir(config), Console()
    for collection in load_collections(config, call, out):
        saved = save_baseline(collection, str(config.name), results, replace=config.replace)
        out.print_line(_summary(saved, len(collection.points)))
    table = Table("name", "GPU", "shape", Column("points", number=True), title="Baselines")
    for name in baseline_names(results):
        for (gpu, shape), count in coverage(load_baseline(name, results)).items():
            table.add_row(name, gpu, shape, str(count))
    out.print_table(table)
    if config.name:
        out.print_line(
            f"Next: python launch.py compare baseline/{config.name} latest{call.places}"
        )
    return 0


def _summary(saved: Saved, count: int) -> str:
    skipped = [f"{number} {state}" for state, number in saved.left_out.items()]
    skipped += [f"{saved.kept} already stored"] if saved.kept else []
    skipped += [f"{saved.repeated} with a newer run"] if saved.repeated else []
    rest = f"; skipped: {', '.join(skipped)}" if skipped else ""
    stored = f"Stored {saved.added} new and {saved.replaced} replaced"
    return f"{stored} of {pluralize(count, 'point')}{rest}"
