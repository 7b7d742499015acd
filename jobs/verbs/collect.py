"""The verb `collect`: gathers jobs into tables and a report, and shows the points."""

from __future__ import annotations

from conf.verbs import Collect
from jobs.collect.gather import collect as gather
from jobs.collect.output import show
from jobs.errors import UsageError
from jobs.status.scheduler_query import whom
from jobs.sweeps.ledger import latest
from jobs.sweeps.plan import results_dir, runs_dir
from jobs.terminal import screen
from jobs.verbs.command_line import Call


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
    )
    if config.report:
        from jobs.report.report import write_report

        write_report(collection)
    out = screen.console()
    if "latest" in call.ids:
        screen.say(out, f"latest is {latest(runs_dir(config)).sweep_id}")
    show(collection, out)
    return collection.exit_code(allow_unsupported=config.allow_unsupported)
