"""Tab completion.

Hydra completes keys and choices. The program, the verb and the ids are removed from the line
first, because Hydra does not know them; verbs and flags are suggested here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from conf import choices
from jobs.errors import InvalidValue, UsageError
from jobs.sweeps.ids import looks_like_target
from jobs.text import parse_int
from jobs.verbs.flags import FLAGS, take_flag
from jobs.verbs.overrides import Override
from jobs.verbs.table import DEFAULT_VERB, VERBS

FLAG_NAMES = ("-sc", "--shell-completion")
SHELLS = ("bash", "fish", "zsh")
_ACTIONS = ("install", "uninstall", "query")
_ENUM_VALUE = re.compile(r"(?P<key>\S+)=(?P<kind>[A-Z]\w+)\.\w+")
_PROGRAM = re.compile(r"\s*(?:\S*python[\d.]*\s+)?\S+")


@dataclass(frozen=True)
class Completion:
    """A shell's request for completion.

    Attributes:
        verb: Verb whose configuration completes the line.
        words: Words for Hydra; none if the suggestions are the whole answer.
        variables: The shell's variables as Hydra should see them.
        suggestions: Verbs or flags that the current word may become.
    """

    verb: str
    words: tuple[str, ...]
    variables: dict[str, str]
    suggestions: tuple[str, ...]

    @classmethod
    def parse(cls, words: Sequence[str], environment: Mapping[str, str]) -> Completion:
        """Read the request: `words` as for a command, COMP_LINE and COMP_POINT of the shell."""
        action = _action(words)
        line = environment.get("COMP_LINE", "")
        before = line[: parse_int(environment.get("COMP_POINT", ""))]
        rest = before[program.end() :] if (program := _PROGRAM.match(before)) else ""
        typed = rest.split()
        partial = typed.pop() if typed and not rest[-1].isspace() else ""
        named = bool(typed) and typed[0] in VERBS
        verb = typed.pop(0) if named else DEFAULT_VERB
        suggestions: tuple[str, ...] = ()
        if partial.startswith("-"):
            suggestions = tuple(flag.name for flag in FLAGS if flag.name.startswith(partial))
        elif not named and not typed and "=" not in partial and action.startswith("query"):
            suggestions = tuple(name for name in VERBS if name.startswith(partial))
        elif named and VERBS[verb].takes_ids and "latest".startswith(partial):
            suggestions = ("latest",)
        flags, overrides = _flags_and_overrides(typed)
        hydra_line = " ".join(("python launch.py", *overrides, partial))
        return cls(
            verb=verb,
            words=() if partial.startswith("-") else (*flags, "--shell-completion", action),
            variables={"COMP_LINE": hydra_line, "COMP_POINT": str(len(hydra_line))},
            suggestions=suggestions,
        )


def _action(words: Sequence[str]) -> str:
    actions = [word for word in words if word not in FLAG_NAMES and word not in VERBS]
    known = [f"{action}={shell}" for action in _ACTIONS for shell in SHELLS]
    if len(actions) != 1 or actions[0] not in known:
        raise InvalidValue("-sc", f"be one of {', '.join(known)}", " ".join(actions))
    return actions[0]


def _flags_and_overrides(typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the flags that change what is offered and the overrides, without the ids."""
    flags: list[str] = []
    overrides: list[str] = []
    rest = list(typed)
    while rest:
        word = rest.pop(0)
        with contextlib.suppress(UsageError):  # reported when the line is run
            if word.startswith("-"):
                taken = take_flag(word, rest)[1]
                flags += [taken] if taken.startswith("--config-dir=") else []
            elif not looks_like_target(word):
                overrides.append(Override.parse(word).word)
    return flags, overrides


def spell_choices(offered: str) -> str:
    """Replace `backend=Backend.te`, Hydra's only suggestion for an enum, by one line a choice."""
    return _ENUM_VALUE.sub(_each_name, offered)


def _each_name(match: re.Match[str]) -> str:
    kind = getattr(choices, match.group("kind"), None)
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        return match.group()
    return "\n".join(f"{match.group('key')}={name}" for name in kind.__members__)


def without_groups(offered: str, groups: Sequence[str]) -> str:
    """Remove suggestions of groups: Hydra offers every group, the verb may not take it."""
    if not groups:
        return offered
    names = "|".join(re.escape(group) for group in groups)
    return re.sub(rf"(?<!\S)(?:{names})=\S*[ \t]*", "", offered)
