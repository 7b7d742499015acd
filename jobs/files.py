"""Files that appear whole or not at all, and folders that no two writers share.

The standard library alone: a node whose packages are broken still leaves its record.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader sees all of it or none, also after a crash.

    Args:
        path: The file; its folder must exist. An existing file is replaced.
        text: What it will hold, as UTF-8.

    Raises:
        OSError: The folder is missing or full; no partial file stays.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def private_files() -> Iterator[None]:
    """While it lasts, new files are 0600 and new folders 0700, whoever writes them.

    A context and a decorator. It sets the process's umask, for libraries that write files by
    themselves know no other way.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def append_line(path: Path, line: str) -> None:
    """Appends one line in one write, so that lines of several writers never mix.

    Args:
        path: The file, made if it is missing; a line that a crash cut short stays by itself.
        line: Text without a newline.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (("\n" if cut else "") + line + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_attempt(point_folder: Path) -> Path:
    """Makes the next `attempt-<n>` under a point's folder; two callers never share one.

    Args:
        point_folder: Made if it is missing.

    Returns:
        The new, empty folder.
    """
    point_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = 1
    while True:
        attempt = point_folder / f"attempt-{number}"
        try:
            attempt.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return attempt
