"""Text of unknown origin made safe to display: no terminal escapes, no secrets, no endless words.

Standard library only: the node uses it too.
"""

from __future__ import annotations

import re
import shlex

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[@-_])|\x9b[0-?]*[ -/]*[@-~]"
)
# Control characters, marks that reverse a line's direction, and surrogates (not encodable).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_MAX_DIGITS = 18  # every such number fits in 64 bits
_KEPT = 20
_LONG_NUMBER = re.compile(r"\d{61,}")
_LONG_WORD = re.compile(r"\S{401,}")

MASK = "***"
# A variable's name that indicates a secret, or the names of one in a file or a flag.
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
    """Return text without terminal escapes, other control characters shown as their codes.

    Newline and tab stay; a carriage return becomes a newline, as a progress bar needs it.
    """
    if _CONTROL.search(text) is None:
        return text
    bare = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", bare)


def mask_secrets(text: str) -> str:
    """Replace secrets by `***`: values of secret names, URL passwords, tokens of known services.

    Recognizes `NAME=value`, `"NAME": "value"` and `scheme://user:password@host`.
    """
    return _TOKENS.sub(MASK, _NAMED.sub(_hide_value, text))


def _hide_value(match: re.Match[str]) -> str:
    quote = match["value"][0]
    quote = quote if quote in "\"'" else ""
    return f"{match['name']}{quote}{MASK}{quote}"


def parse_int(digits: str) -> int | None:
    """Return the number that digits of unknown origin stand for; None if it is not a number.

    Python itself refuses to convert thousands of digits.
    """
    return int(digits) if digits.isdecimal() and len(digits) <= _MAX_DIGITS else None


def shorten(text: str) -> str:
    """Cut numbers and words that are longer than a few lines, and state their length."""
    text = _LONG_NUMBER.sub(lambda match: f"{match[0][:_KEPT]}... ({len(match[0])} digits)", text)
    return _LONG_WORD.sub(
        lambda match: f"{match[0][: 5 * _KEPT]}... ({len(match[0])} characters)", text
    )


def strip_full_stop(text: str) -> str:
    """Remove the full stop at the end of a sentence; three dots stay."""
    bare = text.rstrip()
    return bare[:-1] if bare.endswith(".") and not bare.endswith("..") else bare


def join_sentences(*texts: str, by: str = "; ") -> str:
    """Join sentences, without empty ones and without full stops except for the last."""
    *firsts, last = [text for text in texts if text] or [""]
    return by.join([*map(strip_full_stop, firsts), last])


def first_line(text: str, length: int = 100) -> str:
    """Return the first line of a text without control characters, cut to a length."""
    first = plain_text(text).partition("\n")[0].replace("\t", "  ")
    return first if len(first) <= length else first[: length - 1] + "…"


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """Return `1 point` or `2 points`; `many` is the plural if it is not formed by an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shell_quote(path: object) -> str:
    """Quote a path as one word of a shell."""
    return shlex.quote(str(path))
