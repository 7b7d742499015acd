"""What is wrong with one value of a configuration, as data; `str()` makes the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Problem:
    """A value that breaks the constraint of its key.

    Attributes:
        key: Dotted key, as typed on the command line.
        constraint: Completes "key must ...", for example "be at least 1".
        value: The value that was given.
        remedy: What to do instead, if the constraint does not say it.
    """

    key: str
    constraint: str
    value: object
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.key} must {self.constraint}, got {spelled(self.value)}{remedy}"


@dataclass(frozen=True)
class UnknownKey:
    """A key that its type does not have.

    Attributes:
        key: Dotted key.
        known: The keys beside which it stands.
    """

    key: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"unknown key {self.key}; choose from {', '.join(self.known)}"


class ProblemError(ValueError):
    """Data that is no typed configuration, because of one `problem`."""

    def __init__(self, problem: Problem | UnknownKey) -> None:
        super().__init__(str(problem))
        self.problem = problem


def spelled(value: object) -> str:
    """Return a value as YAML spells it, texts in quotes: null, true, 1.5, bf16, 'a b'."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return value.name
    return repr(value) if isinstance(value, str) else str(value)
