"""From the words of a command line to typed points: composed once for each choice of groups.

Hydra composes at about 50 ms a configuration. Only group choices need that; plain keys are set on
typed copies of the composed configuration, which OmegaConf checks just the same.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict

from conf.rules import number_problems
from hydra_plugins.mxfp8_launcher._groups import is_group
from jobs.errors import InvalidConfig, UsageError
from jobs.sweeps.request import PointRequest

# One for a whole sweep: each point of it lies in the same places and is planned from one grid.
NOT_SWEPT = ("runs_dir", "results_dir", "wait", "allow_unsupported", "grid")
MOST_POINTS = 10_000
"""What one sweep may plan: a slip in a range must not fill memory before it is told."""
NAMED_GROUPS = ("gpu", "shape", "benchmark", "cluster", "launch", "grid")


@dataclass(frozen=True)
class Axis:
    """One key of a sweep and its values, as text for messages and as data for typed copies."""

    key: str
    texts: tuple[str, ...]
    values: tuple[Any, ...]
    is_group: bool


def named(config: DictConfig) -> DictConfig:
    """Names the choices of what Hydra composed for one run, while Hydra still knows them.

    Args:
        config: The composed configuration, without Hydra's own node.

    Returns:
        A copy in which a group whose file gives no name bears the choice's.
    """
    config = copy.deepcopy(config)
    _name_choices(config, HydraConfig.get().runtime.choices)
    return config


def typed(config: DictConfig) -> Any:  # noqa: ANN401 - whichever verb's dataclass
    """Turns a composed configuration into the verb's dataclass, with nothing missing.

    Args:
        config: The configuration, without Hydra's own node.

    Returns:
        An object of the verb's type in `conf.verbs`.
    """
    _refuse_unknown(config, "")
    return _object(config)


def axes_of(
    overrides: Sequence[Override], grid_axes: dict[str, list[Any]], loader: ConfigLoader
) -> tuple[list[str], list[Axis]]:
    """Splits a command line into what is fixed and what is swept; the command line wins.

    Args:
        overrides: The parsed words.
        grid_axes: The grid's axes, by key.
        loader: Hydra's loader, which knows the groups.

    Returns:
        The fixed words, and the axes: the grid's first, so that they vary slowest.

    Raises:
        UsageError: A key is given twice, a value twice, or a sweep has no end.
    """
    fixed: list[str] = []
    axes: list[Axis] = []
    named: set[str] = set()
    for override in overrides:
        key = override.key_or_group
        named.add(key)
        if not override.is_sweep_override():
            fixed.append(override.input_line or "")
            continue
        axes.append(_axis(override, loader))
    if axes and "grid" not in named:
        grid_axes = {}
    grid = [
        Axis(key, tuple(map(_text, values)), tuple(values), is_group(loader, key))
        for key, values in grid_axes.items()
        if key not in named
    ]
    axes = grid + axes
    for axis in axes:
        _check_axis(axis, loader)
    count = math.prod(len(axis.texts) for axis in axes)
    if count > MOST_POINTS:
        raise UsageError(
            f"a sweep must have at most {MOST_POINTS} points, got {count}: "
            f"{' x '.join(f'{len(axis.texts)} of {axis.key}' for axis in axes)}"
        )
    return fixed, axes


def _axis(override: Override, loader: ConfigLoader) -> Axis:
    key, word = override.key_or_group, override.input_line
    if override.is_delete():
        raise UsageError(f"~{key} must stand alone, got {word}")
    if not override.is_discrete_sweep():
        raise UsageError(f"{key} must list its values, got {word}")
    values = _values(override)
    if len(values) <= MOST_POINTS and (override.is_add() or is_group(loader, key)):
        texts = tuple(map(str, override.sweep_string_iterator()))
        return Axis(override.get_key_element(), texts, values, True)
    return Axis(key, tuple(map(_text, values)), values, False)


def _values(override: Override) -> tuple[Any, ...]:
    """What a key is swept over, one more than may be at most; a longer one is never made whole."""
    swept = override.value()
    try:
        if isinstance(swept, RangeSweep):  # shuffled, Hydra makes all of it first
            counted = tuple(itertools.islice(swept.range(), MOST_POINTS + 1))
            if len(counted) > MOST_POINTS:
                return counted
        return tuple(itertools.islice(override.sweep_iterator(), MOST_POINTS + 1))
    except (HydraException, ValueError, ArithmeticError) as error:  # no step, or NaN for a bound
        raise UsageError(
            f"{override.key_or_group} must be swept over values that can be counted, "
            f"got {override.input_line}; list them: a,b"
        ) from error


def compose_all(
    loader: ConfigLoader, master: DictConfig, fixed: list[str], axes: Sequence[Axis]
) -> Iterator[PointRequest]:
    """Composes every combination of the axes, the last axis varying fastest.

    Args:
        loader: Hydra's loader.
        master: The configuration that Hydra composed for the sweep itself.
        fixed: Words that hold for every point.
        axes: The swept keys.

    Yields:
        One typed configuration a combination.
    """
    groups = [axis for axis in axes if axis.is_group]
    bases: dict[tuple[str, ...], DictConfig] = {}
    for picks in itertools.product(*(range(len(axis.texts)) for axis in axes)):
        chosen = dict(zip((axis.key for axis in axes), picks, strict=True))
        words = tuple(f"{axis.key}={axis.texts[chosen[axis.key]]}" for axis in groups)
        if words not in bases:
            base = _without_hydra(loader.load_sweep_config(master, [*fixed, *words]))
            _refuse_unknown(base, "")  # a plain key adds none: what was composed is closed
            bases[words] = base
        config = bases[words]
        plain = [axis for axis in axes if not axis.is_group]
        if plain:
            config = copy.deepcopy(config)
            for axis in plain:
                OmegaConf.update(config, axis.key, axis.values[chosen[axis.key]])
        yield PointRequest(
            _object(config),
            {axis.key.lstrip("+"): axis.texts[chosen[axis.key]] for axis in axes},
        )


def _object(config: DictConfig) -> Any:  # noqa: ANN401 - whichever verb's dataclass
    made = OmegaConf.to_object(config)
    problems = number_problems(made)
    if problems:
        raise InvalidConfig(problems)
    return made


def _refuse_unknown(config: DictConfig, path: str) -> None:
    """A key that its type does not know is refused, also when it was added with +."""
    kind = OmegaConf.get_type(config)
    known = (
        {field.name for field in dataclasses.fields(kind)}
        if dataclasses.is_dataclass(kind)
        else None
    )
    for key in map(str, config):
        name = f"{path}{key}"
        if known is not None and key not in known:
            raise UsageError(f"{name} is no key; known: {', '.join(sorted(known))}")
        if OmegaConf.is_missing(config, key) or OmegaConf.is_interpolation(config, key):
            continue
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_none():
            _refuse_unknown(node, f"{name}.")


def _without_hydra(config: DictConfig) -> DictConfig:
    """Takes Hydra's node off."""
    choices = config.hydra.runtime.choices
    with open_dict(config):
        del config["hydra"]
    _name_choices(config, choices)
    return config


def _name_choices(config: DictConfig, choices: Mapping[Any, Any]) -> None:
    """A choice whose file gives no name is named by the choice."""
    for group in NAMED_GROUPS:
        if group in config and OmegaConf.is_missing(config[group], "name") and group in choices:
            config[group].name = str(choices[group]).rpartition("/")[2]


def parse(loader: ConfigLoader, words: list[str]) -> list[Override]:
    """Parses a command line's words by Hydra's own grammar."""
    return list(OverridesParser.create(config_loader=loader).parse_overrides(words))


def grid_of(config: DictConfig) -> dict[str, list[Any]]:
    """The axes of the verb's grid, by key; none where the verb has no grid."""
    if "grid" not in config:
        return {}
    axes = OmegaConf.to_container(config.grid.axes, resolve=True)
    return {str(key): list(values) for key, values in axes.items()}  # type: ignore[union-attr] # a mapping by its type


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_axis(axis: Axis, loader: ConfigLoader) -> None:
    key, got = axis.key.lstrip("+"), ", ".join(axis.texts[:20])
    if key.partition(".")[0] in NOT_SWEPT:
        raise UsageError(f"{key} must have one value for the whole sweep, got {got}")
    if not axis.texts:
        raise UsageError(f"{key} must have at least one value, got none")
    if len(axis.texts) > MOST_POINTS:
        raise UsageError(f"{key} must have at most {MOST_POINTS} values, got more")
    twice = [text for text, count in Counter(axis.texts).items() if count > 1]
    if twice:
        raise UsageError(f"{key} must name each value once, got {twice[0]} twice")
    if is_group(loader, key) and not all(isinstance(value, str) for value in axis.values):
        raise UsageError(f"{key} must be the name of one of its choices, got {got}")
