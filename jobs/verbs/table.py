"""The table of verbs: one row is everything that the command line needs to know of a verb."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conf import verbs as configs

if TYPE_CHECKING:
    from jobs.verbs.command_line import Call

DEFAULT_VERB = "run"
MULTIRUN_VERB = "sweep"  # the verb that `run --multirun` is


@dataclass(frozen=True)
class Verb:
    """One command.

    Attributes:
        function: "module:function"; the function takes the configuration and a `Call`.
        config: Type of the configuration; the YAML is conf/NAME.yaml.
        summary: Line of `--help`.
        takes_ids: True if job, point or sweep ids may follow the verb.
        points: True if the configuration describes points.
        many: True if the verb takes all points of a sweep at once.
    """

    function: str
    config: type
    summary: str
    takes_ids: bool = False
    points: bool = False
    many: bool = False

    def load(self) -> Callable[[Any, Call], int]:
        """Import the function, and with it only what this verb needs."""
        module, _, name = self.function.partition(":")
        loaded: Callable[[Any, Call], int] = getattr(importlib.import_module(module), name)
        return loaded


VERBS = {
    "run": Verb(
        "jobs.verbs.run:run",
        configs.Run,
        "run one point: here, or as one SLURM job (the default verb)",
        points=True,
    ),
    "plan": Verb(
        "jobs.verbs.plan:plan",
        configs.Sweep,
        "show what a sweep would run and submit; nothing is submitted",
        points=True,
        many=True,
    ),
    "sweep": Verb(
        "jobs.verbs.sweep:sweep",
        configs.Sweep,
        "run every point of a grid, or of axes: shape.seq_len=1024,4096 recipe=bf16,mxfp8",
        points=True,
        many=True,
    ),
    "status": Verb(
        "jobs.verbs.status:status",
        configs.Status,
        "show the state of every point of a sweep or of jobs",
        takes_ids=True,
    ),
    "logs": Verb(
        "jobs.verbs.logs:logs", configs.Logs, "print the end of each point's log", takes_ids=True
    ),
    "cancel": Verb("jobs.verbs.cancel:cancel", configs.Cancel, "cancel jobs", takes_ids=True),
    "resume": Verb(
        "jobs.verbs.resume:resume",
        configs.Resume,
        "submit the points of a sweep that have no final record",
        takes_ids=True,
    ),
    "repro": Verb(
        "jobs.verbs.repro:repro", configs.Repro, "run one point again, unchanged", takes_ids=True
    ),
    "collect": Verb(
        "jobs.verbs.collect:collect",
        configs.Collect,
        "gather records and logs of jobs; write tables and the report",
        takes_ids=True,
    ),
    "compare": Verb(
        "jobs.verbs.compare:compare",
        configs.Compare,
        "compare collections: what changed, and whether it exceeds the noise",
        takes_ids=True,
    ),
    "baseline": Verb(
        "jobs.verbs.baseline:baseline",
        configs.Baseline,
        "name a collection to compare with later",
        takes_ids=True,
    ),
    "history": Verb(
        "jobs.verbs.history:history",
        configs.History,
        "show each metric over many collections",
        takes_ids=True,
    ),
    "doctor": Verb(
        "jobs.verbs.doctor:doctor",
        configs.Run,
        "show what this machine, or with cluster=... a node, supports",
        points=True,
    ),
}


def verbs_that(attribute: str) -> str:
    """Return the names of the verbs with an attribute such as `takes_ids`, for messages."""
    return ", ".join(name for name, verb in VERBS.items() if getattr(verb, attribute))
