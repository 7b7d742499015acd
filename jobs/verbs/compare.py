"""The verbs `compare`, `baseline` and `history`: what changed between collections."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from conf import verbs
from jobs.compare import history_output as history_show
from jobs.compare import output as compare_show
from jobs.compare.baseline import baseline_names, coverage, load_baseline, save_baseline
from jobs.compare.comparison import Rules, exit_code
from jobs.compare.comparison import compare as judge
from jobs.compare.history import emulated_points, why_nothing
from jobs.compare.history import history as follow
from jobs.compare.load import load_side, stored_collections
from jobs.errors import UsageError
from jobs.schedulers.registry import installed_schedulers
from jobs.status.collection import Collection
from jobs.sweeps.folders import results_dir, runs_dir
from jobs.terminal.console import Console
from jobs.terminal.table import Column, Table
from jobs.text import pluralize, shell_quote
from jobs.verbs.command_line import Call


def compare(config: verbs.Compare, call: Call) -> int:
    """Judges every further collection against the first, shows it and writes its page.

    Args:
        config: Thresholds, and what may differ.
        call: What is compared: ids, sweeps, folders, `baseline/NAME`, a file of figures.

    Returns:
        0 if nothing is worse, 1 on a regression, else 3.

    Raises:
        UsageError: Fewer than two, or one that names nothing.
    """
    if len(call.ids) < 2:
        raise UsageError(
            f"compare must be given at least two collections, got {len(call.ids)}; "
            "for example: baseline/NAME latest"
        )
    rules = _rules(config.compare)
    out = Console()
    again = [word for word in call.overrides if not word.startswith("compare.ignore=")]
    command = f"python launch.py compare {shlex.join([*call.ids, *again])}"
    found = judge(_sides(config, call, out), rules, command)
    for comparison in found:
        compare_show.show(comparison, out, every=config.every)
    _written(lambda: compare_show.write_comparisons(found, results_dir(config) / "compare"), out)
    return exit_code(found)


def baseline(config: verbs.Baseline, call: Call) -> int:
    """Stores a collection's good points under a name, or shows the baselines there are.

    Args:
        config: The name, and whether records may be replaced.
        call: The collections whose points are stored; none: show.

    Returns:
        0.

    Raises:
        UsageError: An id without a name or a name without an id, or a record would be replaced.
    """
    results, out = results_dir(config), Console()
    if bool(call.ids) is not bool(config.name):
        given = f"{call.ids[0]} without a name" if call.ids else f"name={config.name} without ids"
        raise UsageError(
            f"baseline must be given ids and a name, got {given}; for example: "
            "baseline latest name=gb300"
        )
    for side in _sides(config, call, out):
        saved = save_baseline(side, str(config.name), results, replace=config.replace)
        left = [f"{count} {state}" for state, count in saved.left_out.items()]
        left += [f"{saved.kept} stored before"] if saved.kept else []
        left += [f"{saved.repeated} older of the same"] if saved.repeated else []
        stored = f"Stored {saved.added} new and {saved.replaced} replaced"
        rest = f"; left out: {', '.join(left)}" if left else ""
        out.print(f"{stored} of {pluralize(len(side.points), 'point')}{rest}", markup=False)
    made = Table("name", "GPU", "shape", Column("points", number=True), title="Baselines")
    for name in baseline_names(results):
        for (gpu, shape), count in coverage(load_baseline(name, results)).items():
            made.add_row(name, gpu, shape, str(count))
    out.print_table(made)
    if config.name:
        out.print(
            f"Next: python launch.py compare baseline/{config.name} latest{call.places}",
            markup=False,
            soft_wrap=True,
        )
    return 0


def history(config: verbs.History, call: Call) -> int:
    """Follows every metric through collections and shows where it changed for good.

    Args:
        config: The threshold.
        call: The collections; none: every one in `results_dir`.

    Returns:
        0.

    Raises:
        UsageError: There are fewer than two collections.
    """
    results = results_dir(config)
    out = Console()
    found = _sides(config, call, out)
    if not call.ids:
        found = stored_collections(results)
    if len(found) < 2:
        raise UsageError(_too_few(call, len(found), results))
    rules = _rules(config.compare)
    series = follow(found, rules.threshold, rules.accuracy_threshold)
    if not series:
        out.print_line(f"Nothing to follow in {len(found)} collections: {why_nothing(found)}")
        return 0
    emulated = emulated_points(found)
    history_show.show(series, out, every=config.every)
    for line in history_show.figures(series, emulated):
        out.print_line(line)
    notes = history_show.notes(series, emulated, rules)
    _written(lambda: [history_show.write_history(series, results / "history", notes)], out)
    return 0


def _too_few(call: Call, found: int, results: Path) -> str:
    """Why fewer than two collections have no history: of those given, or of those there are."""
    if call.ids:
        return (
            f"history must be given at least two collections, got {call.ids[0]} alone; "
            f"name more beside it, or none: then it follows every one in {results}"
        )
    return (
        f"history must have at least two collections, got {found} in {results}; make them: "
        "python launch.py collect SWEEP, for each sweep"
    )


def _sides(config: verbs.Places, call: Call, out: Console) -> list[Collection]:
    """Reads every collection of a command, as `collect` would, and tells its notes."""
    places = runs_dir(config), results_dir(config)
    found = [load_side(word, *places, installed_schedulers()) for word in call.ids]
    for note in dict.fromkeys(note for side in found for note in side.notes):
        out.print_line(f"Note: {note}", style="yellow")
    return found


def _written(write: Callable[[], list[Path]], out: Console) -> None:
    """Writes pages and says where; the verdict stands where they cannot be written."""
    try:
        for page in write():
            out.print_line(f"Written: {shell_quote(page)}")
    except OSError as error:
        what = f"{error.filename}: {error.strerror}"
        out.print_line(f"No page was written: {what}; results_dir=... names another folder")


def _rules(config: verbs.Comparing) -> Rules:
    return Rules(
        threshold=config.threshold,
        accuracy_threshold=config.accuracy_threshold,
        ignore=tuple(config.ignore),
        across_gpus=config.across_gpus,
        metrics=tuple(config.metrics),
    )
