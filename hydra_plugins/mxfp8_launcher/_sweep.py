"""The points of a sweep: the axes of the command line and the grid, and their product.

Hydra takes about 50 ms to compose a configuration. Only a choice of groups needs that; plain keys
are set on typed copies of the composed configuration, which OmegaConf checks as well.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.mxfp8_launcher._groups import is_group
from hydra_plugins.mxfp8_launcher._typed import to_dataclass, without_hydra
from jobs.errors import InvalidValue, InvalidWord, MissingValue
from jobs.sweeps.request import PointRequest

NOT_SWEPT = ("runs_dir", "results_dir", "wait", "allow_unsupported", "grid")
MAX_POINTS = 10_000
"""Largest sweep; a typing error in a range must not fill the memory."""


@dataclass(frozen=True)
class Axis:
    """One key of a sweep.

    Attributes:
        key: Key, with the `+` that adds it.
        texts: Values as typed.
        values: Values as data.
        is_group: True if each value must be composed by Hydra.
    """

    key: str
    texts: tuple[str, ...]
    values: tuple[Any, ...]
    is_group: bool

    @classmethod
    def of_grid(cls, key: str, values: Sequence[Any], loader: ConfigLoader) -> Axis:
        """Return an axis of a grid file."""
        return cls(key, tuple(map(_text, values)), tuple(values), is_group(loader, key))

    @classmethod
    def of_override(cls, override: Override, loader: ConfigLoader) -> Axis:
        """Return an axis of the command line."""
        key, word = override.key_or_group, override.input_line or ""
        if override.is_delete():
            raise InvalidWord(word, "~ takes one value")
        if not override.is_discrete_sweep():
            raise InvalidWord(word, "an interval has no list of values", f"use {key}=a,b")
        values = _values(override)
        if len(values) <= MAX_POINTS and (override.is_add() or is_group(loader, key)):
            texts = tuple(map(str, override.sweep_string_iterator()))
            return cls(override.get_key_element(), texts, values, True)
        return cls(key, tuple(map(_text, values)), values, False)

    def check(self, loader: ConfigLoader) -> None:
        """Refuse an axis that makes no sweep."""
        key = self.key.lstrip("+")
        if key.partition(".")[0] in NOT_SWEPT:
            value = ", ".join(self.texts[:20])
            raise InvalidValue(key, "have one value for the whole sweep", value)
        if not self.texts:
            raise MissingValue(key)
        if len(self.texts) > MAX_POINTS:
            raise InvalidWord(key, f"more than {MAX_POINTS} values")
        text, count = Counter(self.texts).most_common(1)[0]
        if count > 1:
            raise InvalidWord(key, f"value {text} is given twice")
        for value in self.values if is_group(loader, key) else ():
            if not isinstance(value, str):
                raise InvalidValue(key, "name one of its choices", value)


def axes_of(
    overrides: Sequence[Override], grid_axes: dict[str, list[Any]], loader: ConfigLoader
) -> tuple[list[str], list[Axis]]:
    """Split overrides into fixed words and axes.

    A key of the command line replaces the grid's axis of that key, and any axis on the command
    line drops a grid that it does not name. The grid's axes come first, so they vary slowest.
    """
    fixed: list[str] = []
    axes: list[Axis] = []
    for override in overrides:
        if override.is_sweep_override():
            axes.append(Axis.of_override(override, loader))
        else:
            fixed.append(override.input_line or "")
    keys = {override.key_or_group for override in overrides}
    if axes and "grid" not in keys:
        grid_axes = {}
    axes = [
        *(Axis.of_grid(key, grid_axes[key], loader) for key in grid_axes if key not in keys),
        *axes,
    ]
    for axis in axes:
        axis.check(loader)
    count = math.prod(len(axis.texts) for axis in axes)
    if count > MAX_POINTS:
        factors = ", ".join(f"{axis.key} has {len(axis.texts)} values" for axis in axes)
        raise InvalidValue("a sweep", f"have at most {MAX_POINTS} points", count, factors)
    return fixed, axes


def _values(override: Override) -> tuple[Any, ...]:
    """Return an override's values, at most one more than a sweep may have."""
    swept = override.value()
    try:
        if isinstance(swept, RangeSweep):  # Hydra would build a shuffled range as a whole
            counted = tuple(itertools.islice(swept.range(), MAX_POINTS + 1))
            if len(counted) > MAX_POINTS:
                return counted
        return tuple(itertools.islice(override.sweep_iterator(), MAX_POINTS + 1))
    except (HydraException, ValueError, ArithmeticError) as error:  # step 0, or a NaN bound
        remedy = f"use {override.key_or_group}=a,b"
        word = override.input_line or ""
        raise InvalidWord(word, "its values cannot be counted", remedy) from error


def compose_all(
    loader: ConfigLoader, master: DictConfig, fixed: list[str], axes: Sequence[Axis]
) -> Iterator[PointRequest]:
    """Compose every combination of the axes; the last axis varies fastest."""
    groups = [axis for axis in axes if axis.is_group]
    plain = [axis for axis in axes if not axis.is_group]
    bases: dict[tuple[str, ...], DictConfig] = {}
    for picks in itertools.product(*(range(len(axis.texts)) for axis in axes)):
        chosen = dict(zip((axis.key for axis in axes), picks, strict=True))
        words = tuple(f"{axis.key}={axis.texts[chosen[axis.key]]}" for axis in groups)
        if words not in bases:
            bases[words] = without_hydra(loader.load_sweep_config(master, [*fixed, *words]))
        config = bases[words]
        if plain:
            config = copy.deepcopy(config)
            for axis in plain:
                OmegaConf.update(config, axis.key, axis.values[chosen[axis.key]])
        choices = {axis.key.lstrip("+"): axis.texts[chosen[axis.key]] for axis in axes}
        yield PointRequest(to_dataclass(config), choices)


def parse(loader: ConfigLoader, words: list[str]) -> list[Override]:
    """Parse overrides by Hydra's grammar."""
    return list(OverridesParser.create(config_loader=loader).parse_overrides(words))


def grid_of(config: DictConfig) -> dict[str, list[Any]]:
    """Return the axes of the configuration's grid by key; none if it has no grid."""
    if "grid" not in config:
        return {}
    axes = OmegaConf.to_container(config.grid.axes, resolve=True)
    return {str(key): list(values) for key, values in axes.items()}  # type: ignore[union-attr] # a mapping by its type


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
