"""One line for the problem that pydantic found in a file."""

from __future__ import annotations

from pydantic import ValidationError


def first_problem(error: ValidationError | Exception) -> str:
    """Return "field.name: message" of the first problem; of any other error its text."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    return f"{key}: {first['msg']}" if key else str(first["msg"])
