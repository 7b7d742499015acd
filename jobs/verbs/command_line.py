"""The command line: the verb, the ids after it, and the overrides and flags for Hydra."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.errors import InvalidWord, UnknownName
from jobs.suggestions import nearest, override_meant
from jobs.sweeps.ids import looks_like_target
from jobs.text import mask_secrets
from jobs.verbs.flags import Flag, check_together, is_flag, take_flag, unknown_flag
from jobs.verbs.overrides import Override
from jobs.verbs.table import DEFAULT_VERB, MULTIRUN_VERB, VERBS, verbs_that


@dataclass(frozen=True)
class Call:
    """What a verb receives besides its configuration.

    Attributes:
        verb: Name of the verb.
        ids: Ids after the verb.
        command: Whole command, quoted for a shell.
        overrides: Flags and overrides that Hydra received.
    """

    verb: str
    ids: tuple[str, ...]
    command: str
    overrides: tuple[str, ...]

    @property
    def places(self) -> str:
        """Overrides that the next command needs to find the same folders: ` runs_dir=...`."""
        keys = ("runs_dir=", "results_dir=")
        return "".join(f" {shlex.quote(word)}" for word in self.overrides if word.startswith(keys))


@dataclass(frozen=True)
class CommandLine:
    """One command, split into its parts.

    Attributes:
        verb: The verb; `run` if none was given.
        ids: Job, point and sweep ids, `latest` and folders, in their order.
        hydra: Words for Hydra: flags except `--multirun`, then overrides.
        shows_only: True if a flag asks Hydra to print something; the verb will not run.
        multirun: True if `--multirun` was given.
    """

    verb: str
    ids: tuple[str, ...] = ()
    hydra: tuple[str, ...] = ()
    shows_only: bool = False
    multirun: bool = False

    @classmethod
    def parse(cls, words: Sequence[str]) -> CommandLine:
        """Split the words after `launch.py`; UsageError for a word that cannot be used."""
        rest = list(words)
        verb = rest.pop(0) if rest and rest[0] in VERBS else DEFAULT_VERB
        ids: list[str] = []
        overrides: dict[str, str] = {}
        flags: dict[Flag, str] = {}
        while rest:
            word = rest.pop(0)
            if word.startswith("-"):
                _check_flag(word, rest, verb)
                flag, taken = take_flag(word, rest)
                if flag in flags:
                    raise InvalidWord(word, f"{flag.name} is given twice")
                flags[flag] = taken
            elif looks_like_target(word):
                ids.append(word)
            elif word.startswith("~") or "=" in word:
                _check_commas(word, rest)
                key = Override.parse(word).key
                if key in overrides:
                    raise InvalidWord(word, f"{key} is given twice")
                overrides[key] = word
            else:
                raise _unknown(word, rest, verb)
        check_together(set(flags))
        multirun = "--multirun" in flags.values()
        line = cls(
            MULTIRUN_VERB if multirun and verb == DEFAULT_VERB else verb,
            tuple(ids),
            (*(word for word in flags.values() if word != "--multirun"), *overrides.values()),
            shows_only=any(flag.shows for flag in flags),
            multirun=multirun,
        )
        line._check_verb()
        return line

    def _check_verb(self) -> None:
        about = VERBS[self.verb]
        if self.ids and not about.takes_ids:
            remedy = f"verbs that do: {verbs_that('takes_ids')}"
            raise InvalidWord(self.ids[0], f"{self.verb} takes no ids", remedy)
        if self.multirun and not about.many:
            problem = f"{self.verb} does not take several points"
            raise InvalidWord("--multirun", problem, f"verbs that do: {verbs_that('many')}")


def as_typed(program: str, words: Sequence[str]) -> str:
    """Return the command quoted for a shell, without secrets: it is stored and shared."""
    return mask_secrets(shlex.join(["python", program, *words]))


def _check_commas(word: str, rest: Sequence[str]) -> None:
    """Refuse a list of values that a space has split into two words."""
    following = rest[0] if rest else ""
    cut = word.endswith(",") or following.startswith(",")
    if cut and following and "=" not in following and not following.startswith("-"):
        raise InvalidWord(word, "a list of values takes no spaces", f"use {word}{following}")


def _check_flag(word: str, rest: Sequence[str], verb: str) -> None:
    """Refuse a verb or a key that was typed as a flag."""
    if is_flag(word):
        return
    name, equals, value = word.lstrip("-").partition("=")
    following = value if equals else _value(rest)
    meant = name if name in VERBS else override_meant(name, following, VERBS[verb].config)
    if meant:
        raise unknown_flag(word, meant)


def _value(rest: Sequence[str]) -> str | None:
    """Return the word after a key if it may be the key's value."""
    following = rest[0] if rest else ""
    taken = "=" in following or following.startswith("-") or following == "latest"
    return None if taken else following or None


def _unknown(word: str, rest: Sequence[str], verb: str) -> InvalidWord | UnknownName:
    if word in VERBS:
        return InvalidWord(word, "the verb must be the first word", f"python launch.py {word} ...")
    takes_ids = VERBS[verb].takes_ids
    if word and takes_ids and os.path.exists(word):
        meant: str | None = f"./{word}"
    elif is_flag(f"--{word}"):
        meant = f"--{word}"
    else:
        meant = override_meant(word, _value(rest), VERBS[verb].config)
        meant = meant or nearest(word, [*(["latest"] if takes_ids else []), *VERBS])
    return UnknownName("command", word, meant, list(VERBS))
