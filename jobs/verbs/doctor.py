"""The verb `doctor`: what this machine, or a node of a cluster, can run."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Sequence

from conf.choices import Backend
from conf.verbs import Run
from jobs.errors import SchedulerError
from jobs.record import Record, State
from jobs.schedulers.registry import all_schedulers, scheduler_named
from jobs.schedulers.scheduler import Site
from jobs.source import CHECKOUT
from jobs.sweeps.folders import runs_dir
from jobs.sweeps.new_sweep import software
from jobs.sweeps.plan import make_plan
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import source_of
from jobs.terminal.console import Console
from jobs.terminal.interrupts import nothing_started_notice
from jobs.terminal.records import print_record, print_variables
from jobs.terminal.table import Table
from jobs.text import shell_quote
from jobs.verbs.command_line import Call
from jobs.verbs.follow import follow
from jobs.verbs.scope import Scope
from jobs.verbs.submit import hidden_progress, show_submission, submit_new


def doctor(requests: Sequence[PointRequest], call: Call) -> int:
    """Show what the login side and, through a real probe, a node report.

    Returns 0 whatever they report, 1 if the probe ended as an ERROR.
    """
    config = requests[0].config
    scheduler = scheduler_named(config.cluster.scheduler.name)
    site: Site | None = None
    problem = ""
    with nothing_started_notice():
        make_plan(requests)
        try:
            site = scheduler.site()
        except SchedulerError as error:
            problem = str(error)
    out = Console()
    _show_login_side(config, problem)
    if site is None:
        out.print_line("No node was probed: nothing was submitted.", style="yellow")
        return 0
    site.show(out)
    if not any(word.startswith(("gpu=", "gpu.")) for word in call.overrides):
        config = _with_gpu_of(site, config)
    with nothing_started_notice():
        plan = make_plan([PointRequest(config, requests[0].choices)])
    ledger, result = submit_new(plan, scheduler, call, hidden_progress)
    if result.records:
        ((_, record),) = result.records
        _show_probe(record)
        out.print_line(f"Records: {shell_quote(ledger.root)}")
        return 1 if State(record.outcome) is State.ERROR else 0
    show_submission(ledger, result, call, waits=True)
    scope = Scope.of_sweep(ledger, call)
    survey = follow(scope, out)
    point = survey.points[0]
    if point.record is not None:
        _show_probe(point.record)
    scope.show_next(survey, out)
    return 1 if point.state is State.ERROR else 0


def _with_gpu_of(site: Site, config: Run) -> Run:
    """Return a probe of the first GPU, if the configuration requests none and there is one."""
    gpu = site.first_gpu()
    if config.gpu.device == "cuda" or gpu is None:
        return config
    return dataclasses.replace(config, gpu=gpu, backend=Backend.te)


def _show_probe(record: Record) -> None:
    out = Console()
    print_record(record, out)
    print_variables(record, out)


def _show_login_side(config: Run, problem: str) -> None:
    """Show software, folders and schedulers; `problem` is why the cluster did not answer."""
    source = source_of()
    commit = source.commit or "no git checkout"
    free_gib = shutil.disk_usage(CHECKOUT).free / 2**30
    table = Table("property", "value", title="Login side")
    table.add_row("Python", f"{sys.version.split()[0]} ({sys.executable})")
    for name, version in sorted(software().items()):
        if name != "python":
            table.add_row(name, version)
    table.add_row("commit", f"{commit}{' (dirty)' if source.dirty else ''}")
    table.add_row("runs_dir", str(runs_dir(config)))
    table.add_row("free disk", f"{free_gib:.0f} GiB")
    for scheduler in all_schedulers():
        presence = scheduler.presence()
        if presence is not None:
            used = scheduler.name == config.cluster.scheduler.name
            table.add_row(
                presence[0], f"{presence[1]}; {problem}" if used and problem else presence[1]
            )
    table.add_row("cluster", f"{config.cluster.name} ({config.cluster.scheduler.name})")
    Console().print_table(table)
