"""Tab completion: what the shell says is being typed, without what Hydra does not know.

Hydra completes keys and choices. The verb, the ids after it and the path of the program are taken
out of the line first; verbs and flags are suggested here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from conf import choices
from jobs.errors import UsageError
from jobs.sweeps.ids import looks_like_target
from jobs.text import parse_int
from jobs.verbs.command_line import DEFAULT_VERB, key_of
from jobs.verbs.flags import FLAGS, take_flag

FLAG_NAMES = ("-sc", "--shell-completion")
SHELLS = ("bash", "fish", "zsh")
_ACTIONS = ("install", "uninstall", "query")
_ENUM_VALUE = re.compile(r"(?P<key>\S+)=(?P<kind>[A-Z]\w+)\.\w+")
_PROGRAM = re.compile(r"\s*(?:\S*python[\d.]*\s+)?\S+")


@dataclass(frozen=True)
class Completion:
    """What is asked of completion.

    Attributes:
        verb: Whose configuration completes the line.
        words: What goes to Hydra, none where the suggestions are all.
        variables: The shell's variables as Hydra should see them.
        suggestions: Verbs or flags that the word may become.
    """

    verb: str
    words: tuple[str, ...]
    variables: dict[str, str]
    suggestions: tuple[str, ...]


def completion(
    words: Sequence[str], environment: Mapping[str, str], verbs: Mapping[str, bool]
) -> Completion:
    """Reads a call of the shell's completion, or of its installation.

    Args:
        words: `sys.argv` without the program.
        environment: The variables, COMP_LINE and COMP_POINT among them.
        verbs: Every verb, and whether it takes ids.

    Returns:
        The question, as Hydra can answer it.

    Raises:
        UsageError: No action and shell, or an unknown one.
    """
    actions = [word for word in words if word not in FLAG_NAMES and word not in verbs]
    known = {f"{action}={shell}" for action in _ACTIONS for shell in SHELLS}
    if len(actions) != 1 or actions[0] not in known:
        got = " ".join(actions) or "nothing"
        raise UsageError(
            f"-sc must be given install, uninstall or query=SHELL with one of "
            f"{', '.join(SHELLS)}, got {got}"
        )
    line = environment.get("COMP_LINE", "")
    point = environment.get("COMP_POINT", "")
    before = line[: parse_int(point)]
    rest = before[program.end() :] if (program := _PROGRAM.match(before)) else ""
    typed = rest.split()
    partial = typed.pop() if typed and not rest[-1].isspace() else ""
    named = bool(typed) and typed[0] in verbs
    verb = typed.pop(0) if named else DEFAULT_VERB
    first = not named and not typed
    flags, overrides = _apart(typed)
    suggestions: tuple[str, ...] = ()
    if partial.startswith("-"):
        suggestions = tuple(flag.name for flag in FLAGS if flag.name.startswith(partial))
    elif first and "=" not in partial and actions[0].startswith("query"):
        suggestions = tuple(name for name in verbs if name.startswith(partial))
    elif named and verbs[verb] and "latest".startswith(partial):
        suggestions = ("latest",)
    seen = " ".join(("python launch.py", *overrides, partial))
    return Completion(
        verb=verb,
        words=() if partial.startswith("-") else (*flags, "--shell-completion", actions[0]),
        variables={"COMP_LINE": seen, "COMP_POINT": str(len(seen))},
        suggestions=suggestions,
    )


def _apart(typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """What was typed so far: flags that change what is offered, and overrides; no ids."""
    flags: list[str] = []
    overrides: list[str] = []
    rest = list(typed)
    while rest:
        word = rest.pop(0)
        if word.startswith("-"):
            with contextlib.suppress(UsageError):  # a wrong flag is told when the line is run
                taken = take_flag(word, rest)[1]
                flags += [taken] if taken.startswith("--config-dir=") else []
        elif not looks_like_target(word):
            with contextlib.suppress(UsageError):  # Hydra asserts that there is a key
                key_of(word)
                overrides.append(word)
    return flags, overrides


def spell_choices(offered: str) -> str:
    """Offers every name of an enum where Hydra offers its present value, as Python prints it.

    Args:
        offered: Hydra's suggestions, `backend=Backend.emulated` among them.

    Returns:
        The same with `backend=te` and `backend=emulated` in its place.
    """
    return _ENUM_VALUE.sub(_each_name, offered)


def _each_name(match: re.Match[str]) -> str:
    kind = getattr(choices, match.group("kind"), None)
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        return match.group()
    return "\n".join(f"{match.group('key')}={name}" for name in kind.__members__)


def without_groups(offered: str, groups: Sequence[str]) -> str:
    """Suggestions without those that choose of a group which the verb does not take.

    Args:
        offered: Hydra's suggestions: it knows every group of the configuration's folder.
        groups: Names like `gpu`.
    """
    if not groups:
        return offered
    named = "|".join(re.escape(group) for group in groups)
    return re.sub(rf"(?<!\S)(?:{named})=\S*[ \t]*", "", offered)
