"""The flags of the command line.

They are checked here because Hydra would answer a wrong one with its whole usage text, and accepts
flags that would break a verb: another primary config, or a pickled configuration to run again.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobs.errors import InvalidValue, InvalidWord, MissingValue, NotSettable, UnknownName
from jobs.suggestions import nearest


@dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
        name: Long name.
        short: Short name.
        takes: Constraint on its value; None if it takes no value.
        choices: Valid values; any value if empty.
        optional: True if the value may be omitted, which means the first choice.
        shows: True if Hydra only prints something and the verb does not run.
        needs: Flag without which this one has no effect.
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
    Flag("--cfg", "-c", f"be one of {', '.join(_CFG)}", _CFG, shows=True),
    Flag("--resolve", needs="--cfg"),
    Flag("--package", "-p", "name a key of the configuration", needs="--cfg"),
    Flag("--info", "-i", f"be one of {', '.join(_INFO)}", _INFO, optional=True, shows=True),
    Flag("--multirun", "-m"),
    Flag("--shell-completion", "-sc", shows=True),
    Flag("--config-dir", "-cd", "name a folder"),
)
_BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.short) if name}
_OWN_CONFIG = "each verb has its own primary config; use --config-dir=FOLDER to add files"
_NO_RUN = "omit --multirun to run one point"
_REFUSED = {
    "--config-name": _OWN_CONFIG,
    "-cn": _OWN_CONFIG,
    "--config-path": _OWN_CONFIG,
    "-cp": _OWN_CONFIG,
    "--experimental-rerun": "to run a recorded point again, use repro",
    "--run": _NO_RUN,
    "-r": _NO_RUN,
}


def is_flag(word: str) -> bool:
    """Return True for a flag of Hydra, including those that are refused here."""
    name = word.partition("=")[0]
    return name in _BY_NAME or name in _REFUSED


def unknown_flag(word: str, suggestion: str | None = None) -> UnknownName:
    """Return the error for an unknown flag."""
    return UnknownName("flag", word, suggestion, [flag.name for flag in FLAGS])


def take_flag(word: str, rest: list[str]) -> tuple[Flag, str]:
    """Return a flag and the single word, with its value, that Hydra gets.

    Args:
        word: A word that begins with `-`.
        rest: The words after it, from which the flag's value is removed.
    """
    name, equals, value = word.partition("=")
    if name in _REFUSED:
        raise NotSettable(name, _REFUSED[name])
    flag = _BY_NAME.get(name)
    if flag is None:
        raise unknown_flag(name, nearest(name, list(_BY_NAME)))
    if flag.takes is None:
        if equals:
            raise InvalidWord(word, f"{name} takes no value")
        return flag, flag.name
    if not equals:
        if flag.optional and not (rest and rest[0] in flag.choices):
            return flag, f"{flag.name}={flag.choices[0]}"
        value = rest.pop(0) if rest else ""
    if not value:
        raise MissingValue(flag.name)
    if flag.choices and value not in flag.choices:
        raise InvalidValue(flag.name, flag.takes, value)
    return flag, f"{flag.name}={value}"


def check_together(flags: set[Flag]) -> None:
    """Refuse two flags that both show something, and a flag without the one that it needs."""
    shown = sorted(flag.name for flag in flags if flag.shows)
    if len(shown) > 1:
        raise InvalidWord(shown[1], f"cannot be combined with {shown[0]}")
    names = {flag.name for flag in flags}
    for flag in sorted(flags, key=lambda flag: flag.name):
        if flag.needs is not None and flag.needs not in names:
            raise InvalidWord(flag.name, f"has no effect without {flag.needs}")
