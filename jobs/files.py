"""Atomic writes, bounded reads, and the folders of attempts, which no two processes share.

Standard library only: a node with broken packages still leaves its record.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

MAX_BYTES = 16 * 2**20
"""Size limit of a file with one object: a record, a point, a submission."""
MAX_TABLE_BYTES = 256 * 2**20
"""Size limit of a file with many objects: a plan, a collection."""

PARTIAL_SUFFIX = ".part"
"""Suffix of an unfinished file, whose name starts with a dot."""
_STALE_AFTER_S = 3600.0
_SPARE = f".spare{PARTIAL_SUFFIX}"
_SPARE_BYTES = 2**18  # more than twice the size of the longest record of a GPU
_ATTEMPT = re.compile(r"attempt-(\d{1,6})")
_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_atomic(path: Path, text: str) -> None:
    """Write or replace a file so that readers see all of it or nothing, even after a crash.

    On a full disk it uses the space reserved in the folder.

    Raises:
        OSError: The folder is missing or full; no partial file stays.
    """
    try:
        _write_once(path, text)
    except OSError as error:
        if error.errno not in _FULL or not release_space(path.parent):
            raise
        _write_once(path, text)


def reserve_space(folder: Path) -> None:
    """Reserve disk space for `write_atomic` in a folder, if there is any."""
    spare = folder / _SPARE
    try:
        spare.write_bytes(os.urandom(_SPARE_BYTES))  # some file systems do not store zeros
    except OSError:
        release_space(folder)


def release_space(folder: Path) -> bool:
    """Release the reserved space; return False if there was none."""
    try:
        (folder / _SPARE).unlink()
    except OSError:
        return False
    return True


def _write_once(path: Path, text: str) -> None:
    name = path.parent / f".{path.name}.{secrets.token_hex(6)}{PARTIAL_SUFFIX}"
    # Not by tempfile: the umask decides who can read it, as for every other file.
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_partial_files(folder: Path) -> None:
    """Remove, at any depth, the unfinished files of killed processes.

    Their age decides, because the writer may be on another machine.
    """
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            with suppress(OSError):  # somebody else's, or removed meanwhile
                if name.startswith(".") and name.endswith(PARTIAL_SUFFIX) and is_stale(path):
                    path.unlink()


def is_stale(path: Path) -> bool:
    """True if a path was not modified for an hour; OSError if it does not exist."""
    return time.time() - path.lstat().st_mtime > _STALE_AFTER_S


def open_regular(path: Path, *, inside: Path | None = None) -> BinaryIO:
    """Open a file of unknown origin for reading, without ever waiting for a writer.

    Args:
        path: The file.
        inside: Folder that links must not leave; None allows any link.

    Raises:
        OSError: The file is missing, unreadable, not regular, or a link that leaves the folder.
    """
    if inside is not None and path.is_symlink():
        if is_outside(path, inside):
            raise OSError(errno.ELOOP, "a link that leaves the folder", str(path))
        path = Path(os.path.realpath(path))
    _refuse_special(path.stat(), path)  # opening some devices has side effects
    follow = 0 if inside is None else os.O_NOFOLLOW  # it may have become a link just now
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow)
    try:
        _refuse_special(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def is_outside(path: Path, folder: Path) -> bool:
    """True if a path, links followed, is outside a folder."""
    # Not Path.resolve, which raises RuntimeError for a loop of links.
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _refuse_special(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_bounded(path: Path, limit: int = MAX_BYTES, *, inside: Path | None = None) -> bytes:
    """Read a file of unknown origin, `inside` as for `open_regular`.

    Raises:
        OSError: As `open_regular`, or the file has more than `limit` bytes.
    """
    with open_regular(path, inside=inside) as handle:
        size = os.fstat(handle.fileno()).st_size
        data = handle.read(limit + 1) if size <= limit else b""
    if max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit // 2**20} MiB", str(path))
    return data


def read_json(path: Path, limit: int = MAX_BYTES, *, inside: Path | None = None) -> Any:  # noqa: ANN401 - any of JSON's types
    """Read a JSON file of unknown origin.

    Raises:
        OSError: As `read_bounded`.
        ValueError: The file is not JSON, or nested too deeply.
    """
    try:
        return json.loads(read_bounded(path, limit, inside=inside).decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a path for a library to write to; the file replaces `path` unless the block raises."""
    part = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def private_files() -> Iterator[None]:
    """Create new files as 0600 and new folders as 0700, also in libraries; a decorator too."""
    with _umask(0o077):
        yield


@contextmanager
def readable_like(folder: Path) -> Iterator[None]:
    """Create files that the readers of a folder can read: its owner, or its group.

    It also affects child processes and submitted jobs: SLURM passes the umask to the node.
    """
    shared = folder.stat().st_mode & stat.S_IRGRP
    with _umask(0o027 if shared else 0o077):
        yield


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def append_line(path: Path, line: str) -> None:
    """Append a line in one write, so that lines of several writers never mix.

    A line that a crash cut short stays on a line of its own.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        start = "\n" if _ends_in_a_cut_line(descriptor) else ""
        os.write(descriptor, f"{start}{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ends_in_a_cut_line(descriptor: int) -> bool:
    # A file that is being written grows by pages: its end is a cut only if it stops growing.
    size = os.fstat(descriptor).st_size
    while size > 0 and os.pread(descriptor, 1, size - 1) != b"\n":
        time.sleep(0.01)
        before, size = size, os.fstat(descriptor).st_size
        if size == before:
            return True
    return False


def attempt_number(folder: Path) -> int | None:
    """Return n of a folder named `attempt-<n>`, None for any other name."""
    match = _ATTEMPT.fullmatch(folder.name)
    return int(match[1]) if match else None


def attempt_folder(point_folder: Path, number: int) -> Path:
    """Return the folder of an attempt, whether it exists or not."""
    return point_folder / f"attempt-{number}"


def attempt_folders(point_folder: Path) -> list[Path]:
    """Return the folders of a point's attempts under one job, oldest first."""
    try:
        numbers = {path: attempt_number(path) for path in point_folder.iterdir()}
    except OSError:
        return []
    return sorted(
        (path for path, number in numbers.items() if number is not None),
        key=lambda path: numbers[path] or 0,
    )


def new_attempt(point_folder: Path) -> Path:
    """Create the next `attempt-<n>` under a point's folder; two callers never share one."""
    point_folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        attempt = attempt_folder(point_folder, number)
        with suppress(FileExistsError):
            attempt.mkdir()
            return attempt
    raise AssertionError
