"""What a mistyped word may have been: a key of the verb's configuration, a verb, a flag, an id."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from typing import get_type_hints

from conf import verbs as kinds

_MOST = 3  # more keys that end alike help nobody


def kind_of(verb: str) -> type:
    """The type of a verb's configuration."""
    kind: type = getattr(kinds, {"plan": "Sweep", "doctor": "Run"}.get(verb, verb.capitalize()))
    return kind


def keys_of(kind: type) -> dict[str, object]:
    """Every key of a configuration by its whole name, with its type."""
    return dict(_keys(kind, ""))


def _keys(kind: type, prefix: str) -> Iterator[tuple[str, object]]:
    for name, field in get_type_hints(kind).items():
        yield f"{prefix}{name}", field
        if isinstance(field, type) and dataclasses.is_dataclass(field):
            yield from _keys(field, f"{prefix}{name}.")


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that is most like this one, whatever their case; else the one it begins."""
    folded = {one.casefold(): one for one in known}
    found = difflib.get_close_matches(word.casefold(), list(folded), n=1, cutoff=0.6)
    if found:
        return folded[found[0]]
    longer = [one for one in known if len(word) > 2 and one.startswith(word)]
    return longer[0] if len(longer) == 1 else None


def key_meant(word: str, kind: type) -> str | None:
    """The key, or the few, that end in a word: `cluster.partition` for `partition`."""
    found = [key for key in keys_of(kind) if key == word or key.endswith(f".{word}")]
    return " or ".join(found) if 0 < len(found) <= _MOST else None


def override_meant(name: str, value: str | None, kind: type) -> str | None:
    """An override that was typed without its `=`, or as a flag.

    Args:
        name: What may be a key.
        value: What may be its value; None: nothing followed.
        kind: The type of the verb's configuration.

    Returns:
        `recipe=mxfp8`, or `watch=true` where a yes or no is asked for; None where it is no key.
    """
    meant = key_meant(name.replace("-", "_"), kind)
    key = meant.partition(" or ")[0] if meant else None
    if key is None:
        return None
    yes = keys_of(kind)[key] is bool
    return f"{key}={value or ('true' if yes else '...')}"
