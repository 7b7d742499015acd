"""Suggestions for a mistyped word: the nearest name, key or override."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from typing import get_type_hints

_MOST = 3  # more keys with the same ending are no help


def nearest(word: str, names: Sequence[str]) -> str | None:
    """Return the most similar name, ignoring case, or the only name that begins with the word."""
    folded = {name.casefold(): name for name in names}
    matches = difflib.get_close_matches(word.casefold(), list(folded), n=1, cutoff=0.6)
    if matches:
        return folded[matches[0]]
    longer = [name for name in names if len(word) > 2 and name.startswith(word)]
    return longer[0] if len(longer) == 1 else None


def key_meant(word: str, kind: type) -> str | None:
    """Return the key, or "a or b", whose last part is the word: `cluster.partition`."""
    matches = [key for key, _ in _keys(kind) if key == word or key.endswith(f".{word}")]
    return " or ".join(matches) if 0 < len(matches) <= _MOST else None


def override_meant(name: str, value: str | None, kind: type) -> str | None:
    """Return the override meant by a key without `=`, or by a key typed as a flag.

    Args:
        name: The word that may be a key.
        value: The word that may be its value, if one follows.
        kind: Type of the verb's configuration.
    """
    meant = key_meant(name.replace("-", "_"), kind)
    if meant is None:
        return None
    key = meant.partition(" or ")[0]
    default = "true" if dict(_keys(kind))[key] is bool else "..."
    return f"{key}={value or default}"


def _keys(kind: type, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield every dotted key of a configuration with its type."""
    for name, field in get_type_hints(kind).items():
        yield f"{prefix}{name}", field
        if isinstance(field, type) and dataclasses.is_dataclass(field):
            yield from _keys(field, f"{prefix}{name}.")
