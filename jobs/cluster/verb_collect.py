"""The verb `collect`: gathers jobs into tables and a report, and shows the points."""

from __future__ import annotations

from conf.verbs import Collect
from jobs.cluster import screen
from jobs.cluster.asking import whom
from jobs.cluster.collect import collect as gather
from jobs.cluster.collect_show import show
from jobs.cluster.command_line import Call
from jobs.cluster.ledger import latest
from jobs.cluster.plan import results_dir, runs_dir
from jobs.errors import UsageError


def collect(config: Collect, call: Call) -> int:
    """Gathers what the ids name, writes it, shows it.

    Args:
        config: Folders, and whether the report is written.
        call: The ids.

    Returns:
        0 if every planned point PASSED, 1 if one FAILED or is an ERROR, else 3, also where a
        plan could not be read whole.

    Raises:
        UsageError: No id, or one that names nothing.
    """
    if not call.ids:
        raise UsageError("collect must be given ids, got none; for the newest sweep: latest")
    collection = gather(
        list(call.ids),
        runs_dir(config),
        results_dir(config),
        ask_states=whom(),
        report=config.report,
    )
    out = screen.console()
    if "latest" in call.ids:
        screen.say(out, f"latest is {latest(runs_dir(config)).sweep_id}")
    show(collection, out)
    return collection.exit_code(allow_unsupported=config.allow_unsupported)
