"""What Hydra and OmegaConf refuse, in one line: the key, the rule, the value and the remedy."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence
from typing import get_args, get_origin, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)
from yaml import MarkedYAMLError, YAMLError  # type: ignore[import-untyped] # PyYAML has no types

from conf import choices
from conf.verbs import Sweep
from jobs.suggestions import key_meant, nearest

# What composing raises for a user's mistake; Hydra's ValueError is one of a few, told apart below.
REFUSALS = (
    *(HydraException, OmegaConfBaseException, YAMLError, RecursionError),
    *(ValueError, OverflowError),
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
_OVERRIDE = re.compile(r"Could not override '([^'\n]+)'|Error merging override ([^\n]+)")
_IN_FILE = re.compile(r"In '([^'\n]+)': ")
_FULL_KEY = re.compile(r"^\s*full_key: (\S+)$", re.MULTILINE)
_CHOICE = re.compile(r"is not a valid input for <enum '(\w+)'>")
_CONVERTED = re.compile(r"could not be converted to (\w+)")
_NOT_A = re.compile(r"is not a valid (\w+)")
_EXPECTED = re.compile(r"expected one of \[(.*)\]")


def one_line(error: Exception, words: Sequence[str] = ()) -> str:
    """Says in one line what was wrong with a command.

    Args:
        error: One of `REFUSALS`.
        words: The overrides, to find the one at fault where the exception does not tell.

    Returns:
        "`key` must rule, got value; remedy", as far as the exception tells them.

    Raises:
        ValueError: `error` itself, where no word explains it: then it is our mistake.
    """
    if isinstance(error, MissingConfigException):
        return _missing_choice(error)
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override} must read key=value, got a word that cannot be parsed; quote it"
            f"{_as_text(str(error.override))}"
        )
    if isinstance(error, OmegaConfBaseException):
        return _refused(error, None, words)
    if isinstance(error, MarkedYAMLError):
        return _no_yaml(error)
    if isinstance(error, YAMLError | RecursionError):
        reason = (
            "one of itself" if isinstance(error, RecursionError) else " ".join(str(error).split())
        )
        return f"a configuration file must be YAML and include no file twice, got: {reason}"
    if isinstance(error, OverflowError):
        return _no_float(error, words)
    if isinstance(error, ValueError):
        return _unread(words) or _no_name(error, words)
    return _composition(error, words)


def _composition(error: Exception, words: Sequence[str]) -> str:
    """What a composition error says: its cause tells the key, its text the override or file."""
    text = str(error)
    found = _OVERRIDE.search(text)
    override = (found.group(1) or found.group(2)) if found else None
    file = _IN_FILE.match(text)
    where = f"{file.group(1)}.yaml: " if file else ""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OmegaConfBaseException):
        return where + _refused(cause, override, words)
    if isinstance(cause, MissingConfigException):
        return _missing_choice(cause)
    if "Ambiguous value" in text or "requires --multirun" in text:
        quoted = re.search(r"'([^']+)'", text)
        return several_values(quoted.group(1) if quoted else "a key", words)
    if override:
        return f"{override} is no key here; --cfg job shows every key"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:400] or type(error).__name__


def several_values(word: str, words: Sequence[str] = ()) -> str:
    """What to do with a key that was given several values where one belongs.

    Args:
        word: The key with its values.
        words: The whole command's flags and overrides.
    """
    key = word.partition("=")[0]
    flag = next((flag for flag in words if flag.startswith(("--cfg", "--info"))), None)
    if flag is not None:
        given = shlex.join(other for other in words if not other.startswith("--"))
        return (
            f"{word} must have one value with {flag.partition('=')[0]}, which shows one "
            f"configuration; to see every point: python launch.py plan {given}"
        )
    kind = _type_of(key)
    one = ""
    if get_origin(kind) is list:
        one = f"; for a list: {key}=[a,b]"
    elif kind is str or str in get_args(kind):
        one = f"; for one text{_as_text(word)}"
    return (
        f"{word} must have one value with this verb; to run every value: "
        f"python launch.py sweep {key}=a,b{one}"
    )


def _as_text(word: str) -> str:
    """How a shell hands a value to Hydra as one text, whatever it holds; nothing for a list."""
    key, _, value = word.partition("=")
    if not value or '"' in value or value[0] in "'[{":
        return ""
    return ": " + shlex.quote(f'{key}="{value}"')


def _type_of(key: str) -> object:
    """The type of a key of a run or a sweep; None where there is none of that name."""
    kind: object = Sweep
    for name in key.lstrip("+~").split("."):
        kind = get_type_hints(kind).get(name) if dataclasses.is_dataclass(kind) else None
    return kind


def _no_yaml(error: MarkedYAMLError) -> str:
    mark = error.problem_mark
    where = f"{mark.name}, line {mark.line + 1}," if mark else "a configuration file"
    return f"{where} must be YAML, got: {error.problem}"


def _no_float(error: OverflowError, words: Sequence[str]) -> str:
    """OmegaConf takes an integer of any width, and lets its conversion to a float overflow."""
    found = _FULL_KEY.search(str(error))
    if found is None:
        raise error
    key = found[1]
    given = (word.lstrip("+").partition("=") for word in words)
    got = next((value for name, _, value in given if name == key), "another")
    return f"{key} must be a number of at most 300 digits, got {got}"


def _unread(words: Sequence[str]) -> str | None:
    """The word that Hydra's own parser fails on: Python reads no number of thousands of digits."""
    for word in words:
        try:
            OverridesParser.create().parse_override(word)
        except HydraException:  # a flag, or told as what it is
            continue
        except (ValueError, ArithmeticError):
            key, _, value = word.partition("=")
            remedy = "for a text, quote it" + _as_text(word)
            return (
                f"{key.lstrip('+~')} must be a number of at most 300 digits, got {value}; {remedy}"
            )
    return None


def _no_name(error: ValueError, words: Sequence[str]) -> str:
    """A group was given a number, null or a mapping, or a file is no text."""
    if isinstance(error, UnicodeDecodeError):
        return f"a configuration file must be UTF-8 text, got byte {error.object[error.start]:#x}"
    if "Config group override" in str(error):
        for word in words:
            try:
                override = OverridesParser.create().parse_override(word)
            except HydraException:  # a flag, or what is told next
                continue
            key, many = override.key_or_group, override.is_sweep_override()
            if "." not in key and not many and not isinstance(override.value(), str):
                got = word.partition("=")[2]
                return f"{key} must be the name of one of its choices, got {got}"
        return "a group must be the name of one of its choices"  # the line that a shell completes
    raise error


def _did_you_mean(meant: str | None, parent: str = "") -> str:
    """`; did you mean X?` where there is something, else nothing."""
    return f"; did you mean {parent}{meant}?" if meant else ""


def _missing_choice(error: MissingConfigException) -> str:
    path = str(error.missing_cfg_file or "")
    group, _, choice = path.rpartition("/")
    options = sorted(str(option) for option in (error.options or ()))
    if not group or not options:
        return f"the configuration {path!r} is not there; --info searchpath shows where it looks"
    meant = _did_you_mean(nearest(choice, options))
    return f"{group} must be one of {', '.join(options)}, got {choice!r}{meant}"


def _refused(error: OmegaConfBaseException, override: str | None, words: Sequence[str]) -> str:
    key = error.full_key or (override or "").partition("=")[0].lstrip("+~") or "a key"
    if isinstance(error, MissingMandatoryValue):
        return f"{key} must be given, got nothing"
    if isinstance(error, InterpolationKeyError):
        return f"{key} must refer to a key that exists, got {_line(error)}"
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return _unknown_key(error, str(key), words)
    if isinstance(error, ValidationError):
        return f"{key} must {_rule(error)}, got {_value(error, override)}"
    if "does not support deletion" in str(error):
        return f"{key} must stay, got ~{key}; set it instead"
    return f"{key}: {_line(error)}"


def _unknown_key(error: OmegaConfBaseException, key: str, words: Sequence[str]) -> str:
    kind = error.object_type
    word = next((one for one in words if re.match(rf"{re.escape(key)}[.=]", one)), None)
    if kind is dict and word is not None:
        parent = key.rpartition(".")[0]
        how = f"+{word}"
        if not word.startswith(f"{key}="):  # Hydra adds no mapping of keys from a command line
            how = f"in a file of your own, {parent.partition('.')[0]}/NAME.yaml"
        return f"{key} must be added, for {parent} holds none of that name yet: {how}"
    known: list[str] = []
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        known = sorted(field.name for field in dataclasses.fields(kind))
    elif error.parent_node is not None:
        known = sorted(str(name) for name in error.parent_node)
    parent, _, leaf = key.rpartition(".")
    where = f" of {parent}" if parent else ""
    listed = f"; known: {', '.join(known)}" if known else ""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and not parent:
        meant = _did_you_mean(key_meant(leaf, kind) or nearest(leaf, known))
    else:
        meant = _did_you_mean(nearest(leaf, known), f"{parent}." if parent else "")
    return f"{key} is no key{where}{meant}{listed}"


def _rule(error: OmegaConfBaseException) -> str:
    text = str(error.msg or error)
    expected = _EXPECTED.search(text)
    if expected:
        return f"be one of {expected.group(1)}"
    choice = _CHOICE.search(text)
    if choice and isinstance(kind := getattr(choices, choice[1], None), type):
        return f"be one of {', '.join(kind.__members__)}"  # type: ignore[attr-defined] # an Enum
    converted = _CONVERTED.search(text) or _NOT_A.search(text)
    if converted:
        word = converted.group(1)
        return _KINDS.get(word, f"be of type {word}")
    if "is not a subclass" in text:
        return "be a mapping of keys"
    if "Config' to string" in text:
        return "be a text"
    if "is not a ListConfig" in text or "type hint 'typing.List" in text:
        return "be a list, as in [a,b]"
    if "not Optional" in text or "None" in text:
        return "have a value"
    return f"fit its type ({_line(error)})"


def _line(error: OmegaConfBaseException) -> str:
    return str(error.msg or error).splitlines()[0]


def _value(error: OmegaConfBaseException, override: str | None) -> str:
    if override and "=" in override:
        return repr(override.partition("=")[2])
    text = str(error.msg or "")
    if "not Optional" in text:
        return "null"
    kind = re.search(r"(\w+) is not a|'(\w+Config)' to string", text)
    if kind:
        word = kind.group(1) or kind.group(2)
        return {"AnyNode": "one value", "ListConfig": "a list", "DictConfig": "a mapping"}.get(
            word, f"a {word}"
        )
    quoted = re.search(r"'([^']*)'", text)
    return repr(quoted.group(1)) if quoted else "another"
