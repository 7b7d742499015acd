"""Files appear whole or not at all, reads are bounded, and attempts are never shared."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from jobs.files import (
    append_line,
    is_outside,
    new_attempt,
    read_bounded,
    read_json,
    readable_like,
    release_space,
    remove_partial_files,
    reserve_space,
    write_atomic,
)


def errno_of(read: Callable[[], object]) -> int | None:
    """Return the error number of a read that fails."""
    with pytest.raises(OSError) as error:  # noqa: PT011 - its number is checked
        read()
    return error.value.errno


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_atomic(path, "first\n")
    write_atomic(path, "μ second\n")
    assert path.read_text(encoding="utf-8") == "μ second\n"
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    write_atomic(path, "first\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):  # the patched text
        write_atomic(path, "second\n")
    assert path.read_text() == "first\n"
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "nowhere" / "record.json", "text")


def _write_until_killed(path: Path) -> None:
    for number in range(10**6):
        write_atomic(path, f"{number:06d}" * 20_000)


def test_a_reader_sees_a_whole_file_while_it_is_written_and_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_atomic(path, "000000" * 20_000)
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


def test_a_cut_line_does_not_affect_others(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    append_line(path, "whole")
    path.write_text(path.read_text() + '{"cut')
    append_line(path, "next")
    append_line(path, "last")
    assert path.read_text().splitlines() == ["whole", '{"cut', "next", "last"]


def test_an_attempt_follows_the_highest(tmp_path: Path) -> None:
    first, second = new_attempt(tmp_path / "p-1"), new_attempt(tmp_path / "p-1")
    assert (first.name, second.name) == ("attempt-1", "attempt-2")


def test_a_regular_file_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"a": [1]}')
    assert read_bounded(path, 10) == path.read_bytes()
    assert read_json(path, inside=tmp_path) == {"a": [1]}
    assert errno_of(lambda: read_bounded(path, 9)) == errno.EFBIG


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with path.open("wb") as handle:
        handle.truncate(2**40)  # sparse
    assert errno_of(lambda: read_json(path)) == errno.EFBIG


def test_a_special_file_is_refused_without_waiting(tmp_path: Path) -> None:
    fifo = tmp_path / "record.json"
    os.mkfifo(fifo)
    link = tmp_path / "link.json"
    link.symlink_to(fifo)
    for path in (fifo, link, tmp_path, Path("/dev/zero")):
        assert errno_of(lambda path=path: read_json(path)) == errno.EINVAL  # type: ignore[misc]


def test_a_link_may_not_leave_the_folder_it_is_read_in(tmp_path: Path) -> None:
    folder, secret = tmp_path / "sweep", tmp_path / "secret.json"
    folder.mkdir()
    secret.write_text("1")
    for name, target in (
        ("out", secret),
        ("in", folder / "own.json"),
        ("round", folder / "round"),
    ):
        (folder / name).symlink_to(target)
    (folder / "own.json").write_text("2")
    assert errno_of(lambda: read_json(folder / "out", inside=folder)) == errno.ELOOP
    assert is_outside(folder / "out", folder)
    assert read_json(folder / "out") == 1
    assert read_json(folder / "in", inside=folder) == 2
    assert not is_outside(folder / "in", folder)
    assert errno_of(lambda: read_json(folder / "round", inside=folder)) == errno.ELOOP


@pytest.mark.parametrize(
    "content",
    [b"[" * 10**6, b'{"a":' * 10**6, b"9" * 10**5, b"", b"\xff", b"{", b"\x00"],
    ids=lambda content: repr(content[:6]),
)
def test_invalid_json_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:  # noqa: PT011 - json says it in many ways
        read_json(path)
    assert str(error.value)


@pytest.mark.parametrize(
    ("sweep", "folder", "file"), [(0o700, 0o700, 0o600), (0o750, 0o750, 0o640)]
)
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_readers_of_a_sweep_can_read_new_files_in_it(
    tmp_path: Path, sweep: int, folder: int, file: int, umask: int
) -> None:
    tmp_path.chmod(sweep)
    before = os.umask(umask)
    try:
        with readable_like(tmp_path):
            attempt = new_attempt(tmp_path / "p-1")
            write_atomic(attempt / "record.json", "text")
            append_line(attempt / "jobs.jsonl", "line")
            command = ["touch", str(attempt / "by-another-process")]
            subprocess.run(command, check=True)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {folder}
    assert [mode for path, mode in modes.items() if path.is_file()] == [file] * 3


def test_unfinished_files_are_removed_once_nobody_writes_them(tmp_path: Path) -> None:
    folder = tmp_path / "14" / "p-1"
    folder.mkdir(parents=True)
    names = (".record.json.abc.part", ".young.json.def.part", "kept.part", ".kept", "record.json")
    for name in names:
        (folder / name).write_text("{")
        if name != ".young.json.def.part":
            os.utime(folder / name, (0, 0))
    (tmp_path / ".link.part").symlink_to(folder)
    remove_partial_files(tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if not path.is_dir()}
    assert left == {".young.json.def.part", "kept.part", ".kept", "record.json"}
    assert folder.is_dir()


def test_a_full_disk_uses_the_reserved_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve_space(tmp_path)
    (spare,) = tmp_path.iterdir()
    assert spare.stat().st_size == 2**18
    honest = os.fsync

    def full(descriptor: int) -> None:
        if spare.exists():
            raise OSError(28, "No space left on device")
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    write_atomic(tmp_path / "record.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert (tmp_path / "record.json").read_text() == "{}"
    assert not release_space(tmp_path)


def test_space_that_cannot_be_reserved_is_not_needed(tmp_path: Path) -> None:
    reserve_space(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
