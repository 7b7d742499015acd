"""The verb `compare`: judge collections against the first one."""

from __future__ import annotations

import shlex

from conf import verbs
from jobs.compare import comparison, output
from jobs.errors import WrongIds
from jobs.sweeps.folders import results_dir
from jobs.terminal.console import Console
from jobs.verbs.collections import load_collections, print_pages, rules_of
from jobs.verbs.command_line import Call


def compare(config: verbs.Compare, call: Call) -> int:
    """Judge every further collection against the first, print the result and write its page.

    Returns:
        0 if nothing is worse, 1 on a regression, else 3.
    """
    if len(call.ids) < 2:
        raise WrongIds(
            "compare", "at least two collections", call.ids, "compare baseline/NAME latest"
        )
    out = Console()
    overrides = [word for word in call.overrides if not word.startswith("compare.ignore=")]
    comparisons = comparison.compare(
        load_collections(config, call, out),
        rules_of(config.compare),
        f"python launch.py compare {shlex.join([*call.ids, *overrides])}",
    )
    for one in comparisons:
        output.show(one, out, every=config.every)
    folder = results_dir(config) / "compare"
    print_pages(lambda: output.write_comparisons(comparisons, folder), out)
    return comparison.exit_code(comparisons)
