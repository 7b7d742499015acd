"""A profile is an extra pass in its own process; without one, the record holds the reason."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conf.choices import Backend, Profiler
from jobs.node.point_file import read_point_file
from jobs.node.profiling import command_line, profile
from jobs.node.record_draft import RecordDraft
from jobs.record import Identity
from tests.jobs.node.points import FEW, H200, point, point_file


def check_of(
    tmp_path: Path, *, on_gpu: bool = True, profiler: Profiler = Profiler.nsys
) -> tuple[bool | None, str]:
    """Profile a point, and return the answer and the reason of its check."""
    given = point(benchmark=replace(FEW, profile=profiler))
    if on_gpu:
        given = replace(given, gpu=H200, backend=Backend.te)
    draft = RecordDraft(Identity(point_id="p-1"), point_file(tmp_path, given))
    profile(draft, tmp_path)
    (check,) = draft.checks
    assert check.name == f"profile {profiler.name}"
    return check.ok, check.reason


@pytest.fixture
def fake_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Install a shell script as the profiler."""

    def install(script: str) -> None:
        path = tmp_path / "nsys"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


@pytest.mark.parametrize("profiler", [Profiler.nsys, Profiler.ncu])
def test_the_profiler_starts_a_process_of_its_own(profiler: Profiler) -> None:
    words = command_line(profiler, Path("point.json"), Path("out/profile"))
    assert words[0] == profiler.name
    target = words.index(sys.executable)
    assert words[target:] == [sys.executable, "-m", "jobs.node.profiling", "point.json"]
    assert words[words.index("-o") + 1] == "out/profile"


def test_only_the_annotated_pass_is_profiled() -> None:
    assert "--capture-range=cudaProfilerApi" in command_line(Profiler.nsys, Path("p"), Path("o"))
    words = command_line(Profiler.ncu, Path("p"), Path("o"))
    assert words[words.index("--profile-from-start") + 1] == "off"


def test_the_profile_is_kept_beside_the_record(
    tmp_path: Path, fake_nsys: Callable[[str], None]
) -> None:
    fake_nsys(f"touch {tmp_path}/profile.nsys-rep")
    assert check_of(tmp_path) == (True, "profile.nsys-rep")
    read = read_point_file(tmp_path / "profile_point.json")
    assert read.point == read_point_file(tmp_path / "point.json").point


@pytest.mark.parametrize("code", [0, 3])
def test_a_profiler_that_leaves_no_file_is_a_failed_check(
    tmp_path: Path, fake_nsys: Callable[[str], None], code: int
) -> None:
    fake_nsys(f"exit {code}")
    ok, reason = check_of(tmp_path)
    assert ok is False
    assert f"exit code {code}" in reason


def test_a_profiler_that_is_not_installed_is_a_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_of(tmp_path, profiler=Profiler.ncu) == (False, "ncu is not on the PATH")


def test_a_cpu_has_nothing_to_profile(tmp_path: Path) -> None:
    assert check_of(tmp_path, on_gpu=False) == (False, "there is no GPU to profile")
