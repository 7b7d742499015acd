"""The verb `history`: follow every metric through collections."""

from __future__ import annotations

from conf import verbs
from jobs.compare import history as histories
from jobs.compare import history_output as output
from jobs.compare.load import stored_collections
from jobs.errors import TooFewCollections, WrongIds
from jobs.sweeps.folders import results_dir
from jobs.terminal.console import Console
from jobs.verbs.collections import load_collections, print_pages, rules_of
from jobs.verbs.command_line import Call


def history(config: verbs.History, call: Call) -> int:
    """Show where metrics changed permanently; without ids in all collections; return 0."""
    results, out = results_dir(config), Console()
    if len(call.ids) == 1:
        raise WrongIds("history", "at least two collections, or none for all", call.ids)
    collections = load_collections(config, call, out) if call.ids else stored_collections(results)
    if len(collections) < 2:
        raise TooFewCollections(len(collections), results)
    rules = rules_of(config.compare)
    series = histories.history(collections, rules.threshold, rules.accuracy_threshold)
    if not series:
        reason = histories.why_nothing(collections)
        out.print_line(f"No history in {len(collections)} collections: {reason}")
        return 0
    emulated = histories.emulated_points(collections)
    output.show(series, out, every=config.every)
    for line in output.figures(series, emulated):
        out.print_line(line)
    notes = output.notes(series, emulated, rules)
    print_pages(lambda: [output.write_history(series, results / "history", notes)], out)
    return 0
