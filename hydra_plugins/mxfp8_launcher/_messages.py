"""What Hydra and OmegaConf refuse, in one line: the key, the rule, the value and the remedy."""

from __future__ import annotations

import dataclasses
import difflib
import re

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

_KINDS = {
    "Integer": "be an integer",
    "Float": "be a number",
    "Boolean": "be true or false",
    "int": "be an integer",
    "float": "be a number",
    "bool": "be true or false",
    "str": "be a text",
    "String": "be a text",
}
_OVERRIDE = re.compile(r"(?:Could not override|Error merging override) '?([^'\n]+?)'?\.?(?:\n|$)")
_CONVERTED = re.compile(r"could not be converted to (\w+)")
_NOT_A = re.compile(r"is not a valid (\w+)")
_EXPECTED = re.compile(r"expected one of \[(.*)\]")


def one_line(error: Exception) -> str:
    """Says in one line what was wrong with a command.

    Args:
        error: What Hydra or OmegaConf raised.

    Returns:
        "`key` must rule, got value; remedy", as far as the exception tells them.
    """
    if isinstance(error, MissingConfigException):
        return _missing_choice(error)
    if isinstance(error, OverrideParseException):
        return f"{error.override} must read key=value, got a word that cannot be parsed; quote it"
    if isinstance(error, OmegaConfBaseException):
        return _refused(error, None)
    override = _OVERRIDE.search(str(error))
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        return _refused(cause, override.group(1) if override else None)
    if isinstance(cause, MissingConfigException):
        return _missing_choice(cause)
    text = str(error)
    if "Ambiguous value" in text or "requires --multirun" in text:
        word = re.search(r"'([^']+)'", text)
        return (
            f"{word.group(1) if word else 'a key'} must have one value with this verb; to run "
            "every value: python launch.py sweep ..., or --multirun; for a list: key=[a,b]"
        )
    if override:
        return f"{override.group(1)} is no key here; --cfg job shows every key"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:400] or type(error).__name__


def nearest(word: str, known: list[str]) -> str:
    """`; did you mean X?` where something is near, else nothing."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""


def _missing_choice(error: MissingConfigException) -> str:
    path = str(error.missing_cfg_file or "")
    group, _, choice = path.rpartition("/")
    options = sorted(str(option) for option in (error.options or ()))
    if not group:
        return f"the configuration {path!r} is not there; --info searchpath shows where it looks"
    if not options:
        return f"{group} is no group with choices, got {path}"
    return f"{group} must be one of {', '.join(options)}, got {choice!r}{nearest(choice, options)}"


def _refused(error: OmegaConfBaseException, override: str | None) -> str:
    key = error.full_key or (override or "").partition("=")[0].lstrip("+~") or "a key"
    if isinstance(error, MissingMandatoryValue):
        return f"{key} must be given, got nothing"
    if isinstance(error, InterpolationKeyError):
        return f"{key} must refer to a key that exists, got {_line(error)}"
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return _unknown_key(error, str(key))
    if isinstance(error, ValidationError):
        return f"{key} must {_rule(error)}, got {_value(error, override)}"
    return f"{key}: {_line(error)}"


def _unknown_key(error: OmegaConfBaseException, key: str) -> str:
    kind = error.object_type
    known: list[str] = []
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        known = sorted(field.name for field in dataclasses.fields(kind))
    elif error.parent_node is not None:
        known = sorted(str(name) for name in error.parent_node)
    parent, _, leaf = key.rpartition(".")
    where = f" of {parent}" if parent else ""
    listed = f"; known: {', '.join(known)}" if known else ""
    return f"{key} is no key{where}{nearest(leaf, known)}{listed}"


def _rule(error: OmegaConfBaseException) -> str:
    text = str(error.msg or error)
    expected = _EXPECTED.search(text)
    if expected:
        return f"be one of {expected.group(1)}"
    converted = _CONVERTED.search(text) or _NOT_A.search(text)
    if converted:
        word = converted.group(1)
        return _KINDS.get(word, f"be of type {word}")
    if "not Optional" in text or "None" in text:
        return "have a value"
    return f"fit its type ({_line(error)})"


def _line(error: OmegaConfBaseException) -> str:
    return str(error.msg or error).splitlines()[0]


def _value(error: OmegaConfBaseException, override: str | None) -> str:
    if override and "=" in override:
        return repr(override.partition("=")[2])
    quoted = re.search(r"'([^']*)'", str(error.msg or ""))
    return repr(quoted.group(1)) if quoted else "another"
