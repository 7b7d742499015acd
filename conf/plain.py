"""Typed configuration to plain JSON data and back."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from enum import Enum
from typing import Any

from conf.problem import Problem, ProblemError, UnknownKey
from conf.schema import RECIPES, TOLERANCES, Recipe, Tolerance

_VARIANTS: dict[type, dict[Any, type]] = {Recipe: dict(RECIPES), Tolerance: dict(TOLERANCES)}


def to_plain(value: Any) -> Any:  # noqa: ANN401 - JSON is any of its six types
    """Convert a dataclass of conf to dicts, lists and scalars; an enum becomes its name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: Any, plain: Any, key: str = "") -> Any:  # noqa: ANN401 - any annotation
    """Build a typed configuration from JSON data.

    Args:
        kind: A dataclass of conf, or the annotation of one of its fields.
        plain: The JSON data.
        key: Dotted name of the value, for messages.

    Raises:
        ProblemError: An unknown key, or a value of the wrong type.
    """
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        inner = [choice for choice in typing.get_args(kind) if choice is not type(None)]
        return None if plain is None else from_plain(inner[0], plain, key)
    if origin is list:
        (item,) = typing.get_args(kind)
        _require(isinstance(plain, list), key, "be a list", plain)
        return [from_plain(item, value, f"{key}[{i}]") for i, value in enumerate(plain)]
    if origin is dict:
        _, item = typing.get_args(kind)
        _require(isinstance(plain, dict), key, "be a mapping", plain)
        return {name: from_plain(item, value, f"{key}.{name}") for name, value in plain.items()}
    if dataclasses.is_dataclass(kind):
        _require(isinstance(plain, dict), key, "be a mapping", plain)
        return _dataclass_from_plain(typing.cast(type, kind), plain, key)
    if isinstance(kind, type) and issubclass(kind, Enum):
        names = list(kind.__members__)
        _require(plain in names, key, f"be one of {', '.join(names)}", plain)
        return kind[plain]
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        _require(abs(plain) < 2**1023, key, "be a finite number", plain)
        return float(plain)
    if kind is not Any:
        fits = isinstance(plain, kind) and (kind is bool or not isinstance(plain, bool))
        _require(fits, key, f"be of type {kind.__name__}", plain)
    return plain


def _dataclass_from_plain(kind: type, plain: dict[str, Any], key: str) -> Any:  # noqa: ANN401
    if kind in _VARIANTS and "name" in plain:
        hint = _hints(kind)["name"]
        name = from_plain(hint, plain["name"], f"{key}.name" if key else "name")
        kind = _VARIANTS[kind][name]
    hints = _hints(kind)
    prefix = f"{key}." if key else ""
    for name in sorted(set(plain) - set(hints)):
        raise ProblemError(UnknownKey(prefix + name, tuple(sorted(hints))))
    return kind(
        **{name: from_plain(hints[name], value, prefix + name) for name, value in plain.items()}
    )


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """A dataclass's annotations; resolving them takes longer than building the object."""
    return typing.get_type_hints(kind)


def _require(fits: bool, key: str, constraint: str, value: object) -> None:
    if not fits:
        raise ProblemError(Problem(key, constraint, value))
