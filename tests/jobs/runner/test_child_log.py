"""A log holds the whole output, or its head, its tail and the size of the gap between them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobs.runner.child_log import ChildLog
from jobs.runner.postmortem import TAIL_BYTES
from jobs.verbs.logs import read_added

BOUND = 2**16
LEFT_OUT = re.compile(
    r"\[\.\.\. +([\d,]+) bytes left out here: launch\.max_log_mib=[\d.]+ \.\.\.\]"
)


@contextmanager
def logging(path: Path, max_bytes: int | None = BOUND) -> Iterator[int]:
    """Yield the end of a pipe whose other end is written to a log."""
    log = ChildLog(path, max_bytes)
    end = os.dup(log.write_end)
    log.start()
    try:
        yield end
    finally:
        os.close(end)
        log.close()


def write(end: int, data: bytes) -> None:
    while data:
        data = data[os.write(end, data) :]


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"line %07d\n" % number for number in range(first, last))


def test_a_log_below_its_limit_is_the_whole_output(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with logging(path) as end:
        write(end, numbered(0, 1000) + b"cut")
    assert path.read_bytes() == numbered(0, 1000) + b"cut"


def test_without_a_limit_everything_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with logging(path, None) as end:
        write(end, numbered(0, 100_000))
    assert path.read_bytes() == numbered(0, 100_000)


@pytest.mark.parametrize("lines", [6_000, 100_000])
def test_head_and_tail_are_kept_and_the_gap_is_counted(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "output.log"
    with logging(path) as end:
        write(end, numbered(0, lines))
    text = path.read_text()
    assert len(text) <= BOUND
    (gap,) = LEFT_OUT.finditer(text)
    head, tail = text[: gap.start()], text[gap.end() + 1 :]
    assert head.startswith("line 0000000\n")
    assert tail.endswith(f"line {lines - 1:07d}\n")
    assert min(len(head), len(tail)) > BOUND // 4 - 20
    assert all(re.fullmatch(r"line \d{7}", line) for line in (head + tail).splitlines())
    assert len(head) + int(gap[1].replace(",", "")) + len(tail) == len(numbered(0, lines))


def test_an_endless_line_is_limited_too(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with logging(path) as end:
        write(end, b"x" * 10 * BOUND)
    assert path.stat().st_size <= BOUND
    assert LEFT_OUT.search(path.read_text())


def test_an_escaped_process_does_not_hold_the_log_open(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = ChildLog(path, BOUND)
    code = "while True: print('again')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=log.write_end) as process:
        log.start()
        log.close()
        assert process.wait(30) != 0
    assert path.stat().st_size <= BOUND


def test_a_log_that_cannot_be_written_stops_no_process_and_keeps_the_tail(
    tmp_path: Path,
) -> None:
    log = ChildLog(tmp_path / "missing" / "output.log", BOUND)
    end = os.dup(log.write_end)
    log.start()
    write(end, numbered(0, 100_000))
    os.close(end)
    log.close()
    assert log.error == "No such file or directory"
    assert log.tail == numbered(0, 100_000)[-TAIL_BYTES:]


def test_a_gap_from_a_full_disk_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "output.log"
    honest_pwrite = os.pwrite

    def full(file: int, data: bytes, offset: int) -> int:
        if data.endswith(b"lost\n"):
            raise OSError(28, "No space left on device")
        return honest_pwrite(file, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    log = ChildLog(path, BOUND)
    for piece in (b"before\n", b"lost\n", b"lost\n", b"after\n"):
        write(log.write_end, piece)
        log._copy()
    log.close()
    before, gap, after = filter(None, path.read_text().splitlines())
    assert (before, after) == ("before", "after")
    assert "10 bytes" in gap
    assert log.error == "No space left on device"


def test_following_a_log_continues_after_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_text("head\nmiddle\n")
    added, offset = read_added(path, 5)
    assert added == b"middle\n"
    path.write_text("head\n[...]\n")
    added, offset = read_added(path, offset)
    assert added == b"[... a part of this log was left out ...]\n"
    with path.open("a") as log:
        log.write("tail\n")
    assert read_added(path, offset)[0] == b"tail\n"
