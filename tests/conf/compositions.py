"""Composes verbs without running them, and lists every choice that conf/ offers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir

from hydra_plugins.mxfp8_launcher._schemas import register
from hydra_plugins.mxfp8_launcher._typed import typed

CONF = Path(__file__).parents[2] / "conf"
POINT_VERBS = ("run", "plan", "sweep", "doctor")


def choices() -> dict[str, list[str]]:
    """Every group and its choices, as the folders hold them."""
    groups: dict[str, list[str]] = {}
    for file in sorted(CONF.glob("*/*.yaml")):
        groups.setdefault(file.parent.name, []).append(file.stem)
    return groups


def rows(groups: dict[str, list[str]]) -> Iterator[list[str]]:
    """Overrides of all groups at once, until each choice was in one of them."""
    for row in range(max(map(len, groups.values()))):
        yield [f"{group}={names[row % len(names)]}" for group, names in groups.items()]


@cache
def composed(verb: str, *overrides: str) -> Any:  # noqa: ANN401 - whichever verb's dataclass
    """A verb's typed configuration, composed once a session; it must not be changed."""
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return typed(compose(verb, overrides=list(overrides)))
