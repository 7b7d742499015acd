"""A command line's words: the verb, the ids after it, Hydra's overrides and flags."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.errors import UsageError
from jobs.suggestions import kind_of, nearest, override_meant
from jobs.sweeps.ids import looks_like_target
from jobs.text import mask_secrets
from jobs.verbs.flags import Flag, check_together, is_flag, take_flag

DEFAULT_VERB = "run"
MANY_VERB = "sweep"  # what `run` is with --multirun
_HYDRA_KEYS = ("hydra.searchpath", "hydra.verbose")
_FOLDERS = re.compile(r"\[([^\[\]{}'\"$]+)\]")
# Hydra asserts its type.
_VERBOSE = re.compile(r"(?!null)[A-Za-z_][\w.]*|\[[A-Za-z_][\w.]*(?:,[A-Za-z_][\w.]*)*\]")


@dataclass(frozen=True)
class CommandLine:
    """One command, taken apart.

    Attributes:
        verb: The verb, `run` where none was given.
        ids: Job, point and sweep ids, `latest` and folders, in their order.
        hydra: What goes to Hydra: flags but for `--multirun`, then overrides.
        shows_only: A flag asks Hydra to show something; the verb itself will not run.
        multirun: `--multirun` was given.
    """

    verb: str
    ids: tuple[str, ...]
    hydra: tuple[str, ...]
    shows_only: bool
    multirun: bool


@dataclass(frozen=True)
class Call:
    """What a verb is told beside its configuration.

    Attributes:
        verb: Its name.
        ids: The ids after it.
        command: The whole command, as a shell would take it again.
        overrides: The words that went to Hydra.
    """

    verb: str
    ids: tuple[str, ...]
    command: str
    overrides: tuple[str, ...]

    @property
    def places(self) -> str:
        """What the next command must repeat, to look where this one wrote: ` runs_dir=...`."""
        keys = ("runs_dir=", "results_dir=")
        return "".join(f" {shlex.quote(word)}" for word in self.overrides if word.startswith(keys))


def parse(words: Sequence[str], verbs: Mapping[str, bool]) -> CommandLine:
    """Takes a command line apart.

    Args:
        words: `sys.argv` without the program.
        verbs: Every verb, and whether it takes ids.

    Returns:
        The parts.

    Raises:
        UsageError: An unknown verb, an id where none belongs, or a key that is given twice.
    """
    rest = list(words)
    verb = rest.pop(0) if rest and rest[0] in verbs else DEFAULT_VERB
    ids: list[str] = []
    overrides: list[str] = []
    flags: dict[Flag, str] = {}
    seen: set[str] = set()
    while rest:
        word = rest.pop(0)
        if word.startswith("-"):
            _refuse_own_flag(word, rest, verb, verbs)
            flag, taken = take_flag(word, rest)
            if flag in flags:
                raise UsageError(f"{flag.name} must be given once, got it twice")
            flags[flag] = taken
        elif looks_like_target(word):
            ids.append(word)
        elif word.startswith("~") or "=" in word:
            _refuse_spaces(word, rest)
            key = key_of(word)
            if key in seen:
                raise UsageError(f"{key} must be given once, got it twice; last: {word}")
            seen.add(key)
            overrides.append(word)
        else:
            raise UsageError(_unknown(word, rest, verb, verbs))
    check_together(set(flags))
    multirun = "--multirun" in flags.values()
    if multirun and verb == DEFAULT_VERB:
        verb = MANY_VERB
    if ids and not verbs[verb]:
        takers = ", ".join(name for name, takes in verbs.items() if takes)
        raise UsageError(f"{verb} must be given no id, got {ids[0]}; these take ids: {takers}")
    return CommandLine(
        verb=verb,
        ids=tuple(ids),
        hydra=(*(word for word in flags.values() if word != "--multirun"), *overrides),
        shows_only=any(flag.shows for flag in flags),
        multirun=multirun,
    )


def key_of(word: str) -> str:
    """The key of an override.

    Args:
        word: The override.

    Returns:
        The key, without the sign before it.

    Raises:
        UsageError: It is empty, Hydra's own, or its value is none that Hydra takes.
    """
    key, _, value = word.partition("=")
    key = key.lstrip("+~")
    if "." not in key and value.startswith("["):
        raise UsageError(
            f"{key} must have one value, got {value}; to run several: "
            f"python launch.py sweep {key}=a,b"
        )
    if not key.partition("@")[0].strip():
        raise UsageError(f"{word} must read key=value, got no key")
    if value.startswith("="):
        meant = f"{key}={value.lstrip('=')}"
        raise UsageError(f"{word} must read key=value, got more than one =; did you mean {meant}?")
    if key.partition(".")[0].partition("/")[0] == "hydra" and key not in _HYDRA_KEYS:
        raise UsageError(
            f"{key} must be left as it is: Hydra only composes here, it runs and writes nothing; "
            f"of its keys these may be set: {', '.join(_HYDRA_KEYS)}"
        )
    if key == "hydra.verbose" and not _VERBOSE.fullmatch(value):
        raise UsageError(f"{key} must be true, false or names of loggers, got {value}")
    if key == "hydra.searchpath":
        _refuse_no_folders(key, value)
    return key


def _refuse_no_folders(key: str, value: str) -> None:
    """Refuses what Hydra asserts, imports, or passes over with a warning of its own."""
    listed = _FOLDERS.fullmatch(value)
    for folder in listed[1].split(",") if listed else [""]:
        path = folder.strip().removeprefix("file://")
        if not os.path.isdir(path):
            got = path if listed else value
            raise UsageError(f"{key} must list folders that exist, as [/a,/b], got {got!r}")


def as_typed(program: str, words: Sequence[str]) -> str:
    """The command as a shell would take it again; secrets in it are not told, for it is shared."""
    return mask_secrets(shlex.join(["python", program, *words]))


def _refuse_spaces(word: str, rest: Sequence[str]) -> None:
    """Refuses a list of values that a space has cut in two."""
    following = rest[0] if rest else ""
    cut = word.endswith(",") or following.startswith(",")
    if cut and following and "=" not in following and not following.startswith("-"):
        raise UsageError(f"{word} must list its values without a space: {word}{following}")


def _refuse_own_flag(word: str, rest: Sequence[str], verb: str, verbs: Mapping[str, bool]) -> None:
    """Refuses a verb or a key that was typed as a flag, with what to type."""
    name, equals, value = word.lstrip("-").partition("=")
    if is_flag(word):
        return
    following = value if equals else _value(rest)
    meant = name if name in verbs else override_meant(name, following, kind_of(verb))
    if meant:
        raise UsageError(f"{word} is no flag; did you mean {meant}?")


def _value(rest: Sequence[str]) -> str | None:
    """The word after a key that may be its value."""
    following = rest[0] if rest else ""
    taken = "=" in following or following.startswith("-") or following == "latest"
    return None if taken else following or None


def _unknown(word: str, rest: Sequence[str], verb: str, verbs: Mapping[str, bool]) -> str:
    if word in verbs:
        return f"{word} must come first, as in: python launch.py {word} ..."
    known = [*(["latest"] if verbs[verb] else []), *verbs]
    meant = f"--{word}" if is_flag(f"--{word}") else None
    meant = meant or override_meant(word, _value(rest), kind_of(verb))
    meant = meant or nearest(word, known)
    hint = f"; did you mean {meant}?" if meant else ""
    if word and verbs[verb] and os.path.exists(word):
        hint = f"; a folder or file is named with a slash: ./{word}"
    return (
        f"{word!r} must be a verb, an id or key=value, got none of them{hint}; "
        f"verbs: {', '.join(verbs)}"
    )
