"""Points requested by a command, as Hydra composed them."""

from __future__ import annotations

from dataclasses import dataclass

from conf.verbs import Run


@dataclass(frozen=True)
class PointRequest:
    """One composed configuration and the values of the sweep's axes that produced it."""

    config: Run
    choices: dict[str, str]
