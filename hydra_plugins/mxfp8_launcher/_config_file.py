"""Reads one configuration file of the user, and refuses whatever Hydra could not compose.

Hydra assumes a file's form: a defaults list that is a mapping, a key that is a number or a file
that refers to itself ends in a traceback of Hydra's own.
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

from jobs.errors import ConfigFileError
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
# Raised by PyYAML's constructors besides its own errors: !!int x, !!bool x, !!timestamp x.
_UNREADABLE = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


@dataclass(frozen=True)
class ConfigFile:
    """Contents of a configuration file.

    Attributes:
        config: All keys.
        header: Hydra's directives: the package.
        included: Names of other files in its defaults list, as written there.
    """

    config: DictConfig
    header: dict[str, str | None]
    included: tuple[str, ...]


def read_config_file(path: Path) -> ConfigFile:
    """Read a file; ConfigFileError if Hydra could not compose it."""
    try:
        return _read(path)
    except _Refusal as error:
        raise ConfigFileError(path, error.problem, error.remedy, error.line) from error


@dataclass
class _Refusal(Exception):
    """A problem of the file that is being read."""

    problem: str
    remedy: str = ""
    line: int | None = None


def _read(path: Path) -> ConfigFile:
    text = _text(path)
    values = _values(text)
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise _Refusal("not a mapping of keys", "write lines of key: value")
    _check_values(values)
    if "hydra" in values:
        raise _Refusal("the key hydra cannot be set", "remove it")
    header = _header(text)
    entries = values.get("defaults", [])
    if not isinstance(entries, list):
        raise _Refusal("defaults is not a list", "write a list, for example [tiny], or omit it")
    included = tuple(name for entry in entries for name in _names(entry))
    for i, entry in enumerate(entries):
        if entry in entries[:i]:
            raise _Refusal(f"{entry!r} stands twice in defaults", "remove one")
    try:
        return ConfigFile(OmegaConf.create(values), header, included)
    except OmegaConfBaseException as error:
        reason = " ".join(str(error.msg or error).split())
        raise _Refusal(reason, "write \\${ for a ${ that is no reference") from error


def _text(path: Path) -> str:
    with open_regular(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _Refusal(f"larger than {MAX_BYTES // 1024} KiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 text (byte {data[error.start]:#x})"
        raise _Refusal(problem, "save it as UTF-8") from error


class _Loader(get_yaml_loader()):  # type: ignore[misc] # a class that OmegaConf makes at run time
    """OmegaConf's reader of YAML, which also reports the line of a value that a tag rejects."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401
        try:
            return super().construct_object(node, deep=deep)
        except _UNREADABLE as error:
            kind = str(node.tag).rpartition(":")[2]
            problem = f"{node.value!r} is not of type {kind}; quote it if it is text"
            raise yaml.constructor.ConstructorError(
                None, None, problem, node.start_mark
            ) from error


def _values(text: str) -> Any:  # noqa: ANN401 - whatever YAML holds
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        reason = " ".join(str(error.problem or error.context).split())
        raise _Refusal(f"invalid YAML: {reason}", line=line) from error
    except yaml.reader.ReaderError as error:
        problem = f"invalid YAML: character {error.character:#x}"
        raise _Refusal(problem, "remove it or write it as an escape") from error
    except RecursionError as error:
        raise _Refusal(_TOO_DEEP) from error
    except _UNREADABLE as error:  # a collection, which is filled last
        raise _Refusal("invalid YAML: a tag does not fit its value", "remove it") from error
    finally:
        if loader is not None:
            loader.dispose()


def _check_values(values: dict[Any, Any]) -> None:
    """Refuse keys that are not text, values that are not data, and too many or too deep ones."""
    waiting: list[tuple[Any, int]] = [(values, 1)]
    count = 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise _Refusal(_TOO_DEEP)
        if count + len(waiting) > MAX_VALUES:  # aliases of aliases: a few lines, 10**9 values
            raise _Refusal(f"more than {MAX_VALUES} values")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise _Refusal(f"key {key!r} is not text", "quote it")
            waiting += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list):
            waiting += [(item, depth + 1) for item in value]
        elif isinstance(value, int) and abs(value) >= MAX_NUMBER:
            raise _Refusal("a number has more than 300 digits", "quote it if it is text")
        elif not isinstance(value, str | int | float | None):
            kind = type(value).__name__
            raise _Refusal(f"a value of type {kind} is not supported", "quote it")


def _header(text: str) -> dict[str, str | None]:
    """Return Hydra's directives at the beginning of a file."""
    try:
        header: dict[str, str | None] = ConfigSource._get_header_dict(text[:_HEADER_CHARACTERS])
    except ValueError as error:
        raise _Refusal(f"invalid # @package line: {error}", "remove it") from error
    _check_package(header["package"])
    return header


def _check_package(package: str | None) -> None:
    if package is None:
        return
    if not _PACKAGE.fullmatch(package) or "hydra" in package.split("."):
        raise _Refusal(f"package {package!r} cannot be set", "use _global_, or remove it")


def _names(entry: object) -> Iterator[str]:
    """Yield the files that an entry of a defaults list names; none if Hydra resolves it later."""
    if entry == _SELF:
        return
    match = _PATH.fullmatch(entry) if isinstance(entry, str) else None
    if match and match[1].rpartition("/")[2] != _MISSING:
        _check_default(match)
        yield match[1]
        return
    group, choices = _choice(entry)
    match = _GROUP.fullmatch(group)
    if match is None or not all(
        isinstance(name, str) and name not in ("", _MISSING) for name in choices
    ):
        remedy = "write a name, group: name, or _self_"
        raise _Refusal(f"{entry!r} in defaults is not a name", remedy)
    _check_default(match)
    if not group.startswith("override "):
        yield from (f"{match[1]}/{name}" for name in choices if "${" not in name)


def _choice(entry: object) -> tuple[str, list[Any]]:
    """Return a group and its choices; an empty group if the entry has another form."""
    if not isinstance(entry, dict) or len(entry) != 1:
        return "", []
    ((group, chosen),) = entry.items()
    if chosen is None:  # the group is omitted
        return group, []
    return group, chosen if isinstance(chosen, list) else [chosen]


def _check_default(match: re.Match[str]) -> None:
    if match[1].strip("/").partition("/")[0] == "hydra":
        raise _Refusal(f"{match[0]!r} in defaults cannot be set", "remove it")
    _check_package(match[2])
