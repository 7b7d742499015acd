"""The verb `doctor`: what this machine, or a node of a cluster, can do, and why not."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from conf.choices import Backend, Scheduler
from conf.schema import Gpu
from conf.verbs import Run
from jobs.record import Outcome, Record
from jobs.schedulers.local import has_sbatch, run_plan
from jobs.schedulers.lock import submitting
from jobs.sweeps.folders import runs_dir
from jobs.sweeps.new_sweep import new_ledger, software, write_ledger
from jobs.sweeps.plan import make_plan
from jobs.sweeps.request import PointRequest
from jobs.sweeps.source import CHECKOUT, source_of
from jobs.terminal import screen
from jobs.terminal.interrupts import nothing_started_told
from jobs.terminal.tables import show_table
from jobs.text import shell_quote
from jobs.verbs.command_line import Call
from jobs.verbs.node_probe import doctor_slurm, limits_or_reason


def doctor(asks: Sequence[PointRequest], call: Call) -> int:
    """Shows what the login side and a node find, through a real probe.

    Args:
        asks: One configuration with job=probe.
        call: The command.

    Returns:
        0 when it did its work, whatever it found; 1 if the probe ended as an ERROR.
    """
    config: Run = asks[0].config
    if not any(word.startswith("gpu=") for word in call.overrides):
        config = _whatever_is_here(config)
    with nothing_started_told():
        made = make_plan([PointRequest(config, asks[0].choices)])
    slurm = config.cluster.scheduler is Scheduler.slurm
    answered = limits_or_reason() if slurm else None
    out = screen.console()
    login = screen.table("Login side", "what", "answer")
    for name, answer in _login(config, answered if isinstance(answered, str) else None):
        login.add_row(name, answer)
    show_table(out, login)
    if isinstance(answered, str):
        screen.say(out, "No node was asked: nothing was submitted.", style="yellow")
        return 0
    if answered is not None:
        return doctor_slurm(config, call, answered, out)
    with nothing_started_told():
        ledger = new_ledger(config)
        write_ledger(made, ledger, verb=call.verb, command=call.command)
    with submitting(ledger):
        ended = run_plan(made, ledger, lambda point, record: None)
    record: Record = ended[0][1]
    screen.show_record(record, out)
    screen.show_variables(record, out)
    screen.say(out, f"Records: {shell_quote(ledger.root)}")
    return 1 if record.outcome is Outcome.ERROR else 0


def _whatever_is_here(config: Run) -> Run:
    """On a local machine with a GPU driver, the probe takes the GPU that is there."""
    local = config.cluster.scheduler is Scheduler.local
    if local and Path("/dev/nvidiactl").exists():
        gpu = Gpu(name="any", any=True)
        return dataclasses.replace(config, gpu=gpu, backend=Backend.te)
    return config


def _login(config: Run, silent: str | None) -> list[tuple[str, str]]:
    source = source_of()
    commit = source.commit or "no git checkout"
    free_gib = shutil.disk_usage(CHECKOUT).free / 2**30
    return [
        ("Python", f"{sys.version.split()[0]} ({sys.executable})"),
        *sorted((name, version) for name, version in software().items() if name != "python"),
        ("commit", f"{commit}{' (dirty)' if source.dirty else ''}"),
        ("runs_dir", str(runs_dir(config))),
        ("free disk", f"{free_gib:.0f} GiB"),
        ("SLURM", _slurm(silent)),
        ("cluster", f"{config.cluster.name} ({config.cluster.scheduler.name})"),
    ]


def _slurm(silent: str | None) -> str:
    if silent is not None:
        return f"{'sbatch is here, but' if has_sbatch() else 'no sbatch here:'} {silent}"
    return "sbatch is here" if has_sbatch() else "no sbatch here: only cluster=local"
