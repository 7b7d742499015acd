"""A command line's words: the verb, the ids after it, Hydra's overrides and flags."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.cluster.ids import looks_like_target
from jobs.errors import UsageError

DEFAULT_VERB = "run"
_WITH_VALUE = {
    "--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn",
    "--config-dir", "-cd", "--experimental-rerun",
}  # fmt: skip
_MAY_HAVE_VALUE = {
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
}
_SHOW_ONLY = {
    "--help", "-h", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i",
    "--shell-completion", "-sc",
}  # fmt: skip


@dataclass(frozen=True)
class CommandLine:
    """One command, taken apart.

    Attributes:
        verb: The verb, `run` where none was given.
        ids: Job, point and sweep ids, `latest` and folders, in their order.
        hydra: What goes to Hydra: overrides and flags.
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
    hydra: list[str] = []
    seen: set[str] = set()
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and word != "-":
            hydra.append(word)
            following = _MAY_HAVE_VALUE.get(word, ())
            if rest and (word in _WITH_VALUE or rest[0] in following):
                hydra.append(rest.pop(0))
        elif word.startswith("~") or "=" in word:
            key = word.partition("=")[0].lstrip("+~")
            if key in seen:
                raise UsageError(f"{key} must be given once, got it twice; last: {word}")
            seen.add(key)
            hydra.append(word)
        elif looks_like_target(word):
            ids.append(word)
        else:
            raise UsageError(_unknown(word, verbs))
    if ids and not verbs[verb]:
        takers = ", ".join(name for name, takes in verbs.items() if takes)
        raise UsageError(f"{verb} must be given no id, got {ids[0]}; these take ids: {takers}")
    flags = {word.partition("=")[0] for word in hydra if word.startswith("-")}
    return CommandLine(
        verb=verb,
        ids=tuple(ids),
        hydra=tuple(hydra),
        shows_only=bool(flags & _SHOW_ONLY),
        multirun=bool(flags & {"--multirun", "-m"}),
    )


def as_typed(program: str, words: Sequence[str]) -> str:
    """The command as a shell would take it again."""
    return shlex.join(["python", program, *words])


def completion_environment(
    environment: Mapping[str, str], verbs: Mapping[str, bool]
) -> tuple[str, dict[str, str]]:
    """Takes the verb and ids out of what the shell says is being completed.

    Args:
        environment: The variables, COMP_LINE and COMP_POINT among them.
        verbs: Every verb.

    Returns:
        The verb, and the two variables as Hydra should see them.
    """
    line = environment.get("COMP_LINE", "")
    point = int(environment.get("COMP_POINT", str(len(line))))
    for match in re.finditer(r"\S+", line):
        word, following = match.group(), line[match.end() : match.end() + 1]
        if word in verbs and following == " ":
            kept = line[: match.start()] + line[match.end() + 1 :]
            shorter = max(match.start(), point - len(word) - 1)
            return word, {"COMP_LINE": kept, "COMP_POINT": str(shorter)}
        if "=" in word:
            break
    return DEFAULT_VERB, {"COMP_LINE": line, "COMP_POINT": str(point)}


def _unknown(word: str, verbs: Mapping[str, bool]) -> str:
    found = difflib.get_close_matches(word, list(verbs), n=1, cutoff=0.5)
    hint = f"; did you mean {found[0]}?" if found else ""
    return (
        f"{word!r} must be a verb, an id or key=value, got none of them{hint}; "
        f"verbs: {', '.join(verbs)}"
    )
