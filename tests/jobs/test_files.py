"""Files appear whole or not at all, lines never mix, and two attempts never share a folder."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from jobs.files import append_line, new_attempt, write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_whole(path, "first\n")
    write_whole(path, "μ second\n")
    assert path.read_text(encoding="utf-8") == "μ second\n"
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    write_whole(path, "first\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "second\n")
    assert path.read_text() == "first\n"
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "record.json", "text")


def _write_until_killed(path: Path) -> None:
    for number in range(10**6):
        write_whole(path, f"{number:06d}" * 20_000)


def test_a_reader_sees_a_whole_file_while_it_is_written_and_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_whole(path, "000000" * 20_000)
    writer = multiprocessing.get_context("spawn").Process(target=_write_until_killed, args=(path,))
    writer.start()
    seen: set[str] = set()
    try:
        while len(seen) < 5:
            text = path.read_text()
            assert text == text[:6] * 20_000
            seen.add(text[:6])
    finally:
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
    text = path.read_text()
    assert text == text[:6] * 20_000


def _append(path: Path, writer: int) -> None:
    for number in range(50):
        append_line(path, f"{writer}:{number}:" + "x" * 500)


def _attempts(folder: Path, _: int) -> list[str]:
    return [new_attempt(folder).name for _ in range(20)]


def test_several_writers_share_a_file_by_lines_and_a_folder_by_attempts(tmp_path: Path) -> None:
    lines, folder = tmp_path / "jobs.jsonl", tmp_path / "p-1"
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_append, [lines] * 3, range(3)))
        made = [name for names in pool.map(_attempts, [folder] * 3, range(3)) for name in names]
    written = lines.read_text().splitlines()
    assert len(written) == 150
    assert all(line.endswith(":" + "x" * 500) for line in written)
    assert sorted(made, key=lambda name: int(name[8:])) == [f"attempt-{n}" for n in range(1, 61)]


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    append_line(path, "whole")
    path.write_text(path.read_text() + '{"cut')
    append_line(path, "next")
    append_line(path, "last")
    assert path.read_text().splitlines() == ["whole", '{"cut', "next", "last"]


def test_an_attempt_follows_the_highest_and_is_its_owner_s(tmp_path: Path) -> None:
    first, second = new_attempt(tmp_path / "p-1"), new_attempt(tmp_path / "p-1")
    assert (first.name, second.name) == ("attempt-1", "attempt-2")
    assert second.stat().st_mode & 0o777 == 0o700
