"""The verb `collect`: gather logs, records, tables and a report of any ids."""

from __future__ import annotations

from conf.verbs import Collect
from jobs.collect.gather import collect as gather
from jobs.collect.output import print_collection
from jobs.errors import WrongIds
from jobs.files import private_files
from jobs.schedulers.registry import installed_schedulers
from jobs.sweeps.folders import results_dir, runs_dir
from jobs.sweeps.ledger import latest
from jobs.terminal.console import Console
from jobs.verbs.command_line import Call


def collect(config: Collect, call: Call) -> int:
    """Gather the ids, write tables and report, and print the points.

    The exit code is 0 if every planned point passed, 1 if one FAILED or is an ERROR, else 3.
    """
    if not call.ids:
        raise WrongIds("collect", "at least one id", example="collect latest")
    with private_files():
        ids = list(call.ids)
        collection = gather(
            ids, runs_dir(config), results_dir(config), schedulers=installed_schedulers()
        )
        if config.report:
            from jobs.report.report import write_report

            write_report(collection)
    out = Console()
    if "latest" in call.ids:
        out.print_line(f"latest is {latest(runs_dir(config)).sweep_id}")
    print_collection(collection, out)
    return collection.exit_code(allow_unsupported=config.allow_unsupported)
