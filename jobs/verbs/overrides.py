"""One override of the command line: `key=value`, `+key=value` or `~key`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from jobs.errors import InvalidValue, InvalidWord, NotSettable

_HYDRA_KEYS = ("hydra.searchpath", "hydra.verbose")
_FOLDERS = re.compile(r"\[([^\[\]{}'\"$]+)\]")
# Hydra asserts this type instead of checking it.
_VERBOSE = re.compile(r"(?!null)[A-Za-z_][\w.]*|\[[A-Za-z_][\w.]*(?:,[A-Za-z_][\w.]*)*\]")


@dataclass(frozen=True)
class Override:
    """An override whose form is valid; its key and value are checked by Hydra later.

    Attributes:
        word: The override as typed.
        key: The key without the sign in front of it.
        value: The text after the first `=`.
    """

    word: str
    key: str
    value: str

    @classmethod
    def parse(cls, word: str) -> Override:
        """Read a word that begins with `~` or contains `=`."""
        key, _, value = word.partition("=")
        override = cls(word, key.lstrip("+~"), value)
        override._check_form()
        override._check_hydra()
        return override

    def _check_form(self) -> None:
        key, value = self.key, self.value
        if "." not in key and value.startswith("["):
            remedy = f"to run several: python launch.py sweep {key}=a,b"
            raise InvalidWord(self.word, f"{key} takes one value", remedy)
        if not key.partition("@")[0].strip():
            raise InvalidWord(self.word, "no key before =")
        if value.startswith("="):
            remedy = f"did you mean {key}={value.lstrip('=')}?"
            raise InvalidWord(self.word, "more than one =", remedy)

    def _check_hydra(self) -> None:
        if not re.match(r"hydra(?:[./]|$)", self.key):
            return
        if self.key == "hydra.searchpath":
            self._check_folders()
        elif self.key == "hydra.verbose":
            if not _VERBOSE.fullmatch(self.value):
                raise InvalidValue(self.key, "be true, false or names of loggers", self.value)
        else:
            keys = " and ".join(_HYDRA_KEYS)
            raise NotSettable(self.key, f"of Hydra's own keys, only {keys} can be set")

    def _check_folders(self) -> None:
        """Refuse values that Hydra asserts, imports, or skips with a warning."""
        listed = _FOLDERS.fullmatch(self.value)
        for folder in listed[1].split(",") if listed else [""]:
            path = folder.strip().removeprefix("file://")
            if not os.path.isdir(path):
                value = path if listed else self.value
                raise InvalidValue(self.key, "list existing folders, as in [/a,/b]", value)
