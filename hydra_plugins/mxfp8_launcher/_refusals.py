"""From the exceptions of Hydra and OmegaConf to the errors of this tool.

Both explain a mistake only in their texts. The texts are read here and nowhere else: `_TEXTS` is
everything that is looked for in them.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import Node, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)
from yaml import YAMLError  # type: ignore[import-untyped] # PyYAML has no types

from conf import choices
from conf.verbs import Sweep
from jobs.errors import (
    ConfigFileError,
    InvalidValue,
    InvalidWord,
    JobError,
    MissingValue,
    NotComposed,
    UnknownName,
    UsageError,
)
from jobs.suggestions import key_meant, nearest

REFUSALS = (
    *(HydraException, OmegaConfBaseException, YAMLError, RecursionError),
    *(ValueError, OverflowError),
)
"""Exceptions that a user's mistake causes; some ValueErrors are mistakes of this tool."""

_TEXTS = {
    "override": re.compile(r"Could not override '([^'\n]+)'|Error merging override ([^\n]+)"),
    "file": re.compile(r"\AIn '([^'\n]+)': "),
    "full key": re.compile(r"^\s*full_key: (\S+)$", re.MULTILINE),
    "several values": re.compile(r"Ambiguous value|requires --multirun"),
    "quoted": re.compile(r"'([^']+)'"),
    "not a choice": re.compile(r"Config group override"),
    "no deletion": re.compile(r"does not support deletion"),
}
_CONSTRAINTS = (
    (r"expected one of \[(.*)\]", "be one of {}"),
    (r"is not a valid input for <enum '(\w+)'>", "be one of {}"),
    (r"could not be converted to (\w+)|is not a valid (\w+)", "be {}"),
    (r"is not a subclass|Cannot assign \w+ to Dict", "be a mapping of keys"),
    (r"to string: ", "be text"),
    (r"is not a ListConfig|type hint 'typing.List", "be a list, as in [a,b]"),
    (r"not Optional|None", "have a value"),
)
_TYPES = {
    **dict.fromkeys(("Integer", "int"), "an integer"),
    **dict.fromkeys(("Float", "float"), "a number"),
    **dict.fromkeys(("Boolean", "bool"), "true or false"),
    **dict.fromkeys(("String", "str"), "text"),
}


def refusal(error: Exception, words: Sequence[str] = ()) -> JobError:
    """Return the error that explains one of `REFUSALS`.

    Args:
        error: The exception.
        words: Flags and overrides, of which one is at fault if the exception does not name it.

    Raises:
        ValueError: `error` itself if no word explains it: then the mistake is in this tool.
    """
    if isinstance(error, MissingConfigException):
        return _missing_file(error)
    if isinstance(error, OverrideParseException):
        return InvalidWord(error.override, "cannot be parsed", _quoting(str(error.override)))
    if isinstance(error, OmegaConfBaseException):
        return _refused_value(error, "", words)
    if isinstance(error, YAMLError | RecursionError):
        return NotComposed(_first_line(error))
    if isinstance(error, OverflowError):
        return _too_wide(error, words)
    if isinstance(error, ValueError):
        return _refused_word(error, words)
    return _composition(error, words)


def _composition(error: Exception, words: Sequence[str]) -> JobError:
    """Return the cause of a composition error, with the override or the file in its text."""
    text = str(error)
    match = _TEXTS["override"].search(text)
    override = (match[1] or match[2]) if match else ""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OmegaConfBaseException):
        refused = _refused_value(cause, override, words)
        file = _TEXTS["file"].match(text)
        return ConfigFileError(Path(f"{file[1]}.yaml"), refused) if file else refused
    if isinstance(cause, MissingConfigException):
        return _missing_file(cause)
    if _TEXTS["several values"].search(text):
        quoted = _TEXTS["quoted"].search(text)
        return several_values(quoted[1] if quoted else "a key", words)
    if override:
        return UnknownName("key", override.partition("=")[0])
    return NotComposed(" ".join(text.split())[:400] or type(error).__name__)


def several_values(word: str, words: Sequence[str] = ()) -> InvalidWord:
    """Return the error for `key=a,b` where only one value is possible."""
    key = word.partition("=")[0]
    flag = next((flag for flag in words if flag.startswith(("--cfg", "--info"))), None)
    if flag is not None:
        given = shlex.join(other for other in words if not other.startswith("--"))
        problem = f"{flag.partition('=')[0]} prints the configuration of one point"
        return InvalidWord(word, problem, f"to see every point: python launch.py plan {given}")
    kind = _type_of(key)
    remedy = f"to run each value: python launch.py sweep {key}=a,b"
    if get_origin(kind) is list:
        remedy += f"; for a list: {key}=[a,b]"
    elif kind is str or str in get_args(kind):
        remedy += f"; for text, {_quoting(word)}"
    return InvalidWord(word, "this verb takes one value for each key", remedy)


def _quoting(word: str) -> str:
    """Return how to hand the value to Hydra as text through a shell; nothing for a list."""
    key, _, value = word.partition("=")
    if not value or '"' in value or value[0] in "'[{":
        return "quote it"
    return "quote it: " + shlex.quote(f'{key}="{value}"')


def _type_of(key: str) -> object:
    """Return the type of a key of a sweep; None if there is none of that name."""
    kind: object = Sweep
    for name in key.lstrip("+~").split("."):
        kind = get_type_hints(kind).get(name) if dataclasses.is_dataclass(kind) else None
    return kind


def _missing_file(error: MissingConfigException) -> JobError:
    path = str(error.missing_cfg_file or "")
    group, _, choice = path.rpartition("/")
    options = sorted(str(option) for option in (error.options or ()))
    if path and group and options:
        return UnknownName(group, choice, nearest(choice, options), options)
    if path:
        return ConfigFileError(Path(f"{path}.yaml"), "does not exist", "see --info searchpath")
    return NotComposed(_first_line(error))


def _too_wide(error: OverflowError, words: Sequence[str]) -> JobError:
    """OmegaConf accepts an integer of any width; its conversion to a float then overflows."""
    match = _TEXTS["full key"].search(str(error))
    if match is None:
        raise error
    given = (word.lstrip("+").partition("=") for word in words)
    value = next((value for name, _, value in given if name == match[1]), "more")
    return InvalidValue(match[1], "be a number of at most 300 digits", value)


def _refused_word(error: ValueError, words: Sequence[str]) -> JobError:
    """Find the word that Hydra's parser fails on, or the group whose choice is not a name."""
    not_a_choice = _TEXTS["not a choice"].search(str(error))
    for word in words:
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException:  # a flag, or reported as what it is
            continue
        except (ValueError, ArithmeticError):  # Python reads no number of thousands of digits
            key, _, value = word.partition("=")
            constraint = "be a number of at most 300 digits"
            return InvalidValue(key.lstrip("+~"), constraint, value, f"for text, {_quoting(word)}")
        key, several = override.key_or_group, override.is_sweep_override()
        if not_a_choice and "." not in key and not (several or isinstance(override.value(), str)):
            return InvalidValue(key, "name one of its choices", override.value())
    if not_a_choice:  # in the line that a shell completes
        return NotComposed(_first_line(error))
    raise error


def _refused_value(
    error: OmegaConfBaseException, override: str, words: Sequence[str]
) -> UsageError:
    key = str(error.full_key or override.partition("=")[0].lstrip("+~") or "a key")
    if isinstance(error, MissingMandatoryValue):
        return MissingValue(key)
    if isinstance(error, InterpolationKeyError):
        return InvalidWord(key, _first_line(error))
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return _unknown_key(error, key, words)
    if isinstance(error, ValidationError):
        return InvalidValue(key, _constraint(error), _value(error))
    if _TEXTS["no deletion"].search(str(error)):
        return InvalidWord(f"~{key}", "this key cannot be removed", "give it a value instead")
    return InvalidWord(override or key, _first_line(error))


def _unknown_key(error: OmegaConfBaseException, key: str, words: Sequence[str]) -> UsageError:
    kind = error.object_type
    parent, _, leaf = key.rpartition(".")
    word = next((word for word in words if re.match(rf"{re.escape(key)}[.=]", word)), None)
    if kind is dict and word is not None:
        if word.startswith(f"{key}="):
            return UnknownName("key", key, f"+{word}")
        # Hydra adds no mapping of keys from a command line.
        file = f"{parent.partition('.')[0]}/NAME.yaml"
        return InvalidWord(word, f"{parent} has no entry {leaf}", f"add it in your own {file}")
    known: list[str] = []
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        known = sorted(field.name for field in dataclasses.fields(kind))
    elif error.parent_node is not None:
        known = sorted(str(name) for name in error.parent_node)
    meant = nearest(leaf, known)
    if parent:
        return UnknownName("key", key, f"{parent}.{meant}" if meant else None, known)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        meant = key_meant(leaf, kind) or meant
    return UnknownName("key", key, meant, known)


def _constraint(error: OmegaConfBaseException) -> str:
    text = str(error.msg or error)
    for pattern, constraint in _CONSTRAINTS:
        if match := re.search(pattern, text):
            captured = next((group for group in match.groups() if group), "")
            return constraint.format(_spelled_type(captured))
    return f"fit its type ({_first_line(error)})"


def _spelled_type(name: str) -> str:
    kind = getattr(choices, name, None)
    if isinstance(kind, type):
        return ", ".join(kind.__members__)  # type: ignore[attr-defined] # an Enum
    return _TYPES.get(name, name)


def _value(error: OmegaConfBaseException) -> object:
    if not isinstance(error.value, Node):
        return error.value
    held = OmegaConf.to_container(OmegaConf.create({"value": error.value}))
    assert isinstance(held, dict)
    return held["value"]


def _first_line(error: Exception) -> str:
    text = str(getattr(error, "msg", None) or error)
    return text.splitlines()[0] if text else type(error).__name__
