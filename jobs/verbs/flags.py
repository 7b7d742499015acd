"""The flags that a command may carry to Hydra, checked here: a wrong one is told in one line.

Hydra's own parser would answer with its whole usage, and it knows flags that would break a verb:
another primary config, or a pickled configuration to run again.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from jobs.errors import UsageError


@dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        name: Its long name.
        short: Its short name.
        takes: What its value must be, in words; None: it takes no value.
        choices: The values it takes, any if empty.
        optional: Whether the value may be left out; then it is the first choice.
        shows: Whether Hydra then only shows something, and the verb does not run.
        needs: A flag without which it means nothing.
    """

    name: str
    short: str | None = None
    takes: str | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    shows: bool = False
    needs: str | None = None


_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
_CFG = ("job", "hydra", "all")
FLAGS = (
    Flag("--help", "-h", shows=True),
    Flag("--hydra-help", shows=True),
    Flag("--version", shows=True),
    Flag("--cfg", "-c", f"one of {', '.join(_CFG)}", _CFG, shows=True),
    Flag("--resolve", needs="--cfg"),
    Flag("--package", "-p", "a key of the configuration", needs="--cfg"),
    Flag("--info", "-i", f"one of {', '.join(_INFO)}", _INFO, optional=True, shows=True),
    Flag("--multirun", "-m"),
    Flag("--shell-completion", "-sc", shows=True),
    Flag("--config-dir", "-cd", "a folder"),
)
_BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.short) if name}
_OWN_CONFIG = "every verb has its own primary config; to add files of yours: --config-dir=FOLDER"
_REFUSED = {
    "--config-name": _OWN_CONFIG,
    "-cn": _OWN_CONFIG,
    "--config-path": _OWN_CONFIG,
    "-cp": _OWN_CONFIG,
    "--experimental-rerun": "a point's record holds its whole configuration, without a pickle",
    "--run": "leave out --multirun, or name the verb run",
    "-r": "leave out --multirun, or name the verb run",
}


def is_flag(word: str) -> bool:
    """Whether a word is a flag, be it one that is refused here."""
    name = word.partition("=")[0]
    return name in _BY_NAME or name in _REFUSED


def take_flag(word: str, rest: list[str]) -> tuple[Flag, str]:
    """Reads one flag and its value.

    Args:
        word: A word that begins with `-`.
        rest: The words after it; the flag's value is taken off.

    Returns:
        The flag, and the one word as which Hydra takes it, with its value.

    Raises:
        UsageError: An unknown flag, or a value that is missing, wrong or not wanted.
    """
    name, equals, value = word.partition("=")
    if name in _REFUSED:
        raise UsageError(f"{name} cannot be used here: {_REFUSED[name]}")
    flag = _BY_NAME.get(name)
    if flag is None:
        found = difflib.get_close_matches(name, list(_BY_NAME), n=1, cutoff=0.6)
        hint = f"; did you mean {found[0]}?" if found else ""
        known = ", ".join(flag.name for flag in FLAGS)
        raise UsageError(f"{name} is no flag{hint}; flags: {known}")
    if flag.takes is None:
        if equals:
            raise UsageError(f"{name} must be given no value, got {value!r}")
        return flag, flag.name
    if not equals:
        if flag.optional and not (rest and rest[0] in flag.choices):
            return flag, f"{flag.name}={flag.choices[0]}"
        if not rest:
            raise UsageError(f"{name} must be given {flag.takes}, got nothing")
        value = rest.pop(0)
    if not value or (flag.choices and value not in flag.choices):
        raise UsageError(f"{name} must be given {flag.takes}, got {value!r}")
    return flag, f"{flag.name}={value}"


def check_together(flags: set[Flag]) -> None:
    """Refuses a flag without the one that it goes with, and two that each show something.

    Args:
        flags: All flags of one command.

    Raises:
        UsageError: One is missing, or one too many.
    """
    showing = sorted(flag.name for flag in flags if flag.shows)
    if len(showing) > 1:
        raise UsageError(f"{showing[0]} must be used alone, got {showing[1]} too")
    names = {flag.name for flag in flags}
    for flag in sorted(flags, key=lambda flag: flag.name):
        if flag.needs is not None and flag.needs not in names:
            raise UsageError(f"{flag.name} must be used with {flag.needs}, got it alone")
