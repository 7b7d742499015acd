"""Foreign text made fit to be shown: a terminal obeys nothing of it, and a token is not told.

The standard library alone: the node uses it too.
"""

from __future__ import annotations

import re
import shlex

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[@-_])|\x9b[0-?]*[ -/]*[@-~]"
)
# Control characters, what turns a line's direction around, and surrogates, which no encoding has.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_MOST_DIGITS = 19
_KEPT = 20
_LONG_NUMBER = re.compile(r"\d{61,}")
_LONG_WORD = re.compile(r"\S{401,}")

MASK = "***"
# A variable's name that speaks of a secret, or the words for one in a file or a flag.
SECRET_NAME = re.compile(
    r"TOKEN|JWT|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|AUTH(?!OR)"
    r"|\b(?:password|passwd|secret|credentials?|api_?key|(?:access|auth)_?token)\b"
)
_NAMED = re.compile(
    rf"(?P<name>\b[A-Za-z0-9_]*(?:{SECRET_NAME.pattern})[A-Z0-9_]*[\"']?\s*[=:]\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)+\"|'(?:[^'\\]|\\.)+'|[^\s,;&'\"{}\[\]]+)"
)
_TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|nvapi-[\w-]{16,}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|ya29\.[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?<=[Bb]earer )\S+"
)


def plain_text(text: str) -> str:
    """Text without terminal escapes and with other control characters made visible.

    Args:
        text: What a log or a record holds.

    Returns:
        The text; newline and tab stay, a carriage return begins a new line, as a progress bar
        means it, and what could redraw a terminal or reverse a line's direction is shown as
        its code.
    """
    if _CONTROL.search(text) is None:
        return text
    bare = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", bare)


def mask_secrets(text: str) -> str:
    """Text in which the value of what is named a secret, or looks like a token, is not told.

    Args:
        text: A command line, a script, a plan's line, a line of a log.

    Returns:
        The same with `***` for such values; `NAME=value`, `"NAME": "value"` and
        `scheme://user:password@host` are known, and the tokens of common services.
    """
    named = _NAMED.sub(_hide_value, text)
    return _TOKENS.sub(MASK, named)


def _hide_value(match: re.Match[str]) -> str:
    quote = match["value"][0]
    around = quote if quote in "\"'" else ""
    return f"{match['name']}{around}{MASK}{around}"


def parse_int(digits: str) -> int | None:
    """The number that digits spell.

    Args:
        digits: What another program, a file's name or a variable says.

    Returns:
        None for anything but digits, and for more of them than a 64-bit number has: Python itself
        refuses to read thousands.
    """
    return int(digits) if digits.isdecimal() and len(digits) < _MOST_DIGITS else None


def shorten(text: str) -> str:
    """Text in which no number and no word is longer than a screen's few lines.

    Args:
        text: A message that quotes what was typed or read.

    Returns:
        The same, with how long each was that is cut.
    """
    text = _LONG_NUMBER.sub(lambda found: f"{found[0][:_KEPT]}... ({len(found[0])} digits)", text)
    return _LONG_WORD.sub(
        lambda found: f"{found[0][: 5 * _KEPT]}... ({len(found[0])} characters)", text
    )


def strip_full_stop(text: str) -> str:
    """A sentence without its full stop, so that it can go on; three dots stay."""
    bare = text.rstrip()
    return bare[:-1] if bare.endswith(".") and not bare.endswith("..") else bare


def join_sentences(*texts: str, by: str = "; ") -> str:
    """Sentences in one, those of a library that end with a full stop too.

    Args:
        texts: In their order; empty ones are left out.
        by: What stands between them.

    Returns:
        One line's words; the last text keeps its own end.
    """
    *firsts, last = [text for text in texts if text] or [""]
    return by.join([*map(strip_full_stop, firsts), last])


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 point`, `2 points`; `many` where the plural is no mere s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shell_quote(path: object) -> str:
    """A path as it is printed where it will be shell_quoted: as one word of a shell."""
    return shlex.quote(str(path))
