"""What a command asks for, as Hydra composed it: one configuration for each point."""

from __future__ import annotations

from dataclasses import dataclass

from conf.verbs import Run


@dataclass(frozen=True)
class Ask:
    """One composed configuration and the values of the sweep's axes that made it."""

    config: Run
    choices: dict[str, str]
