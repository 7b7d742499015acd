"""Files that appear whole or not at all, are read within bounds, and lie where no two write.

The standard library alone: a node whose packages are broken still leaves its record.
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
"""What one object may be: a record, a point, a submission."""
MAX_TABLE_BYTES = 256 * 2**20
"""What a file of many may be: a plan, a collection."""


PARTIAL_SUFFIX = ".part"
"""How the name of a file ends that is not whole yet; it begins with a dot."""
_DEAD_AFTER_S = 3600.0
_SPARE = f".spare{PARTIAL_SUFFIX}"
_SPARE_BYTES = 2**18  # more than twice what the longest record of a GPU needed
_ATTEMPT = re.compile(r"attempt-(\d{1,6})")
_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_atomic(path: Path, text: str) -> None:
    """Writes a file so that a reader sees all of it or none, also after a crash.

    On a full disk the folder's spare is given up for it.

    Args:
        path: The file; its folder must exist. An existing file is replaced.
        text: What it will hold, as UTF-8.

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
    """Takes some space on the disk, so that what a folder is for can be written when it is full.

    Where it cannot be had nothing happens: there will be none to give up.
    """
    spare = folder / _SPARE
    try:
        spare.write_bytes(os.urandom(_SPARE_BYTES))  # some disks keep no zeros
    except OSError:
        release_space(folder)


def release_space(folder: Path) -> bool:
    """Gives the space back; whether there was any."""
    try:
        (folder / _SPARE).unlink()
    except OSError:
        return False
    return True


def _write_once(path: Path, text: str) -> None:
    name = path.parent / f".{path.name}.{secrets.token_hex(6)}{PARTIAL_SUFFIX}"
    # Not by tempfile: the umask says who may read it, as for every other file.
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
    """Removes, at any depth, unfinished files that nobody is writing any more: an hour old.

    A killed process leaves one. By age alone, for the writer may be on another machine.
    """
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            with suppress(OSError):  # somebody else's, or removed meanwhile
                if name.startswith(".") and name.endswith(PARTIAL_SUFFIX) and is_stale(path):
                    path.unlink()


def is_stale(path: Path) -> bool:
    """Whether nobody has written there for an hour; OSError where it is not."""
    return time.time() - path.lstat().st_mtime > _DEAD_AFTER_S


def open_regular(path: Path, *, inside: Path | None = None) -> BinaryIO:
    """Opens a file to be read that somebody else may have put there; never waits for a writer.

    Args:
        path: The file.
        inside: A link must not leave this folder; None: it may lead anywhere.

    Returns:
        The open file.

    Raises:
        OSError: It is missing, unreadable, no regular file, or a link that leaves the folder.
    """
    if inside is not None and path.is_symlink():
        if is_outside(path, inside):
            raise OSError(errno.ELOOP, "a link that leaves the folder", str(path))
        path = Path(os.path.realpath(path))
    _refuse_special(path.stat(), path)  # already to open some devices does something
    follow = 0 if inside is None else os.O_NOFOLLOW  # it is no link, or has become one just now
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow)
    try:
        _refuse_special(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def is_outside(path: Path, folder: Path) -> bool:
    """Whether a path, links followed, lies outside a folder."""
    # Not Path.resolve, which raises RuntimeError where links go round.
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _refuse_special(about: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "no regular file", str(path))


def read_bounded(path: Path, limit: int = MAX_BYTES, *, inside: Path | None = None) -> bytes:
    """Reads a file that somebody else may have put there, unless it is too large.

    Args:
        path: The file.
        limit: The most bytes that it may hold.
        inside: As for `open_regular`.

    Returns:
        All of it.

    Raises:
        OSError: As `open_regular`, or it holds more.
    """
    with open_regular(path, inside=inside) as handle:
        size = os.fstat(handle.fileno()).st_size
        data = handle.read(limit + 1) if size <= limit else b""
    if max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit // 2**20} MiB", str(path))
    return data


def read_json(path: Path, limit: int = MAX_BYTES, *, inside: Path | None = None) -> Any:  # noqa: ANN401 - any of JSON's types
    """Reads a JSON file that somebody else may have put there.

    Args:
        path: The file.
        limit: The most bytes that it may hold.
        inside: As for `open_regular`.

    Returns:
        What it holds.

    Raises:
        OSError: As `read_bounded`.
        ValueError: It is no JSON, or nested so deeply that nothing could work with it.
    """
    try:
        return json.loads(read_bounded(path, limit, inside=inside).decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """A place beside a file, for a library to write; what it wrote becomes the file, whole.

    Args:
        path: The file; its folder must exist.

    Yields:
        Where to write. If the block raises, nothing stays of it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def private_files() -> Iterator[None]:
    """While it lasts, new files are 0600 and new folders 0700, whoever writes them.

    A context and a decorator. It sets the process's umask, for libraries that write files by
    themselves know no other way.
    """
    with _umask(0o077):
        yield


@contextmanager
def readable_like(folder: Path) -> Iterator[None]:
    """While it lasts, whoever may read a folder may read what is made: its owner, or its group.

    Processes that are started meanwhile do the same, and so does a job that is submitted: SLURM
    hands the umask on to the node.
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
    """Appends one line in one write, so that lines of several writers never mix.

    Args:
        path: The file, made if it is missing; a line that a crash cut short stays by itself.
        line: Text without a newline.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        start = "\n" if _is_cut(descriptor) else ""
        os.write(descriptor, f"{start}{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_cut(descriptor: int) -> bool:
    """Whether the last line has no end, and nobody writes it: files grow by pages."""
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
