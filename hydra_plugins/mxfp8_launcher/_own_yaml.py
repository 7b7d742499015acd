"""Reads one configuration file of a user's own, and refuses whatever Hydra could not compose.

Hydra takes a file's shape for granted: a defaults list that is a mapping, a key that is a number
or a file that refers to itself ends in a traceback of Hydra's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped] # PyYAML has no types
from hydra.plugins.config_source import ConfigSource
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from jobs.errors import UsageError
from jobs.files import open_regular

MAX_BYTES = 2**18
MAX_VALUES = 100_000
MAX_DEPTH = 20
MAX_NUMBER = 10**300  # a float holds no more
_HEADER_CHARACTERS = 512  # as many as Hydra reads
_SELF = "_self_"
_MISSING = "???"
_PACKAGE = re.compile(r"\w+(?:\.\w+)*")
_GROUP = re.compile(r"(?:(?:optional|override) )*(/?[\w.-]+(?:/[\w.-]+)*)(?:@([\w.]+))?")
_PATH = re.compile(r"(/?[^\s/@:${}]+(?:/[^\s/@:${}]+)*)(?:@([\w.]+))?")
_KINDS = {dict: "a mapping", list: "a list", str: "a text", type(None): "null", bool: "a boolean"}
# What PyYAML's constructors raise beside its own errors: !!int x, !!bool x, !!timestamp x.
_UNREADABLE = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


@dataclass(frozen=True)
class OwnFile:
    """What a configuration file holds.

    Attributes:
        config: All of it.
        header: Hydra's directives: its package.
        included: The names of other files in its defaults list, as written there.
    """

    config: DictConfig
    header: dict[str, str | None]
    included: tuple[str, ...]


def read_own(path: Path) -> OwnFile:
    """Reads a file.

    Args:
        path: Where it lies.

    Returns:
        What Hydra makes of it.

    Raises:
        UsageError: It is no configuration; one line that names the file.
    """
    text = _text(path)
    held = _values(path, text)
    if held is None:
        held = {}
    if not isinstance(held, dict):
        raise _refusal(path, "hold a mapping of keys", _kind(held), "write lines of key: value")
    _check_values(path, held)
    if "hydra" in held:
        raise _refusal(path, "leave hydra as it is", "the key hydra", "take it out")
    header = _header(path, text)
    entries = held.get("defaults", [])
    if not isinstance(entries, list):
        remedy = "write a list, as [tiny], or leave it out"
        raise _refusal(path, "have a list as its defaults", _kind(entries), remedy)
    included = tuple(name for entry in entries for name in _names(path, entry))
    twice = next((entry for i, entry in enumerate(entries) if entry in entries[:i]), None)
    if twice is not None:
        raise _refusal(path, "list each of its defaults once", f"{twice!r} twice", "take one out")
    try:
        return OwnFile(OmegaConf.create(held), header, included)
    except OmegaConfBaseException as error:
        reason = " ".join(str(error.msg or error).split())
        remedy = "a ${ that is no reference is written \\${"
        raise _refusal(path, "hold values that can be read", reason, remedy) from error


def _text(path: Path) -> str:
    with open_regular(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _refusal(path, f"be at most {MAX_BYTES // 1024} KiB", "more", "name another file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        got = f"byte {data[error.start]:#x}"
        raise _refusal(path, "be UTF-8 text", got, "save it as UTF-8") from error


class _Loader(get_yaml_loader()):  # type: ignore[misc] # a class that OmegaConf makes at run time
    """OmegaConf's reader of YAML, which tells the line of a value that a tag cannot make."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401
        try:
            return super().construct_object(node, deep=deep)
        except _UNREADABLE as error:
            kind = str(node.tag).rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{node.value!r}, which is no {kind}; a text is quoted",
                node.start_mark,
            ) from error


def _values(path: Path, text: str) -> Any:  # noqa: ANN401 - whatever YAML holds
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}," if error.problem_mark else ""
        reason = " ".join(str(error.problem or error.context).split())
        raise UsageError(f"{path}{line} must be YAML, got: {reason}") from error
    except yaml.reader.ReaderError as error:
        got = f"character {error.character:#x}"
        raise _refusal(path, "be YAML", got, "take it out, or write it as an escape") from error
    except RecursionError as error:
        raise _too_deep(path) from error
    except _UNREADABLE as error:  # a collection, which is filled last
        got = "a tag that does not fit what it marks"
        raise _refusal(path, "be YAML", got, "take out what begins with !") from error
    finally:
        if loader is not None:
            loader.dispose()


def _check_values(path: Path, held: dict[Any, Any]) -> None:
    """Refuses keys that are no texts, values that are no data, and more of both than is sane."""
    waiting: list[tuple[Any, int]] = [(held, 1)]
    seen = 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise _too_deep(path)
        if seen + len(waiting) > MAX_VALUES:  # aliases of aliases: a few lines, a billion values
            raise _refusal(path, f"hold at most {MAX_VALUES} values", "more", "split it")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise _refusal(path, "have texts as keys", repr(key), "quote it")
            waiting += [(one, depth + 1) for one in value.values()]
        elif isinstance(value, list):
            waiting += [(one, depth + 1) for one in value]
        elif isinstance(value, int) and abs(value) >= MAX_NUMBER:
            remedy = "quote it, if it is a text"
            raise _refusal(path, "hold numbers of at most 300 digits", _spelled(value), remedy)
        elif not isinstance(value, str | int | float | None):
            kind = type(value).__name__
            raise _refusal(path, "hold texts, numbers, lists and mappings", kind, "quote it")


def _spelled(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than Python spells, by way of a number in base 16
        return "thousands of digits"


def _too_deep(path: Path) -> UsageError:
    rule = f"be nested at most {MAX_DEPTH} deep"
    return _refusal(path, rule, "more", "a mapping may not hold itself")


def _header(path: Path, text: str) -> dict[str, str | None]:
    """Hydra's directives at a file's beginning."""
    try:
        header: dict[str, str | None] = ConfigSource._get_header_dict(text[:_HEADER_CHARACTERS])
    except ValueError as error:
        raise _refusal(path, "begin with # @package NAME", str(error), "take it out") from error
    package = header["package"]
    if package is not None:
        _check_package(path, package)
    return header


def _check_package(path: Path, package: str) -> None:
    if not _PACKAGE.fullmatch(package) or "hydra" in package.split("."):
        rule = "name a package of this tool"
        raise _refusal(path, rule, package, "as in _global_, or take it out")


def _names(path: Path, entry: object) -> Iterator[str]:
    """The files that one entry of a defaults list names; none where Hydra finds that out later."""
    found = _PATH.fullmatch(entry) if isinstance(entry, str) else None
    if entry == _SELF:
        return
    if found and found[1].rpartition("/")[2] != _MISSING:
        _check_default(path, found)
        yield found[1]
        return
    group, choices = _choice(entry)
    found = _GROUP.fullmatch(group)
    if found is None or not all(
        isinstance(one, str) and one not in ("", _MISSING) for one in choices
    ):
        remedy = "write one name, group: name, or _self_"
        raise _refusal(path, "list names as its defaults", repr(entry), remedy)
    _check_default(path, found)
    if not group.startswith("override "):
        yield from (f"{found[1]}/{one}" for one in choices if "${" not in one)


def _choice(entry: object) -> tuple[str, list[Any]]:
    """A group and its choices; no group where an entry is no such thing."""
    if not isinstance(entry, dict) or len(entry) != 1:
        return "", []
    ((group, chosen),) = entry.items()
    if chosen is None:  # the group is left out
        return group, []
    return group, chosen if isinstance(chosen, list) else [chosen]


def _check_default(path: Path, found: re.Match[str]) -> None:
    name, package = found[1], found[2]
    if name.strip("/").partition("/")[0] == "hydra":
        raise _refusal(path, "leave hydra as it is", f"{found[0]!r} in defaults", "take it out")
    if package is not None:
        _check_package(path, package)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")


def _refusal(path: Path, rule: str, got: str, remedy: str) -> UsageError:
    return UsageError(f"{path} must {rule}, got {got}; {remedy}")
