"""A profile is an extra pass of its own, and where there is none the record says why."""

from __future__ import annotations

import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conf.choices import Backend, Profiler
from conf.plain import from_plain
from conf.schema import Point
from jobs.node.draft import Draft
from jobs.node.point_file import read_point_file
from jobs.node.profiling import command_line, profile
from jobs.record import Identity
from tests.jobs.node.points import FEW, H200, point, point_file


def draft(tmp_path: Path, *, gpu: bool, profiler: Profiler = Profiler.nsys) -> Draft:
    made = point(benchmark=replace(FEW, profile=profiler))
    if gpu:
        made = replace(made, gpu=H200, backend=Backend.te)
    return Draft(Identity(point_id="p-1"), point_file(tmp_path, made))


def fake_profiler(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("profiler", [Profiler.nsys, Profiler.ncu])
def test_the_profiler_starts_a_process_of_its_own(profiler: Profiler) -> None:
    words = command_line(profiler, Path("point.json"), Path("out/profile"))
    assert words[0] == profiler.name
    target = words.index(sys.executable)
    assert words[target:] == [sys.executable, "-m", "jobs.node.profiling", "point.json"]
    assert words[words.index("-o") + 1] == "out/profile"


def test_only_the_marked_part_is_profiled() -> None:
    assert "--capture-range=cudaProfilerApi" in command_line(Profiler.nsys, Path("p"), Path("o"))
    words = command_line(Profiler.ncu, Path("p"), Path("o"))
    assert words[words.index("--profile-from-start") + 1] == "off"


def test_the_profile_lies_beside_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_profiler(tmp_path, "nsys", f"touch {tmp_path}/profile.nsys-rep")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    made = draft(tmp_path, gpu=True)
    profile(made, tmp_path, lambda line: None)
    (check,) = made.checks
    assert (check.ok, check.reason) == (True, "profile.nsys-rep")
    read = read_point_file(tmp_path / "profile_point.json")
    assert read.point == from_plain(Point, made.point_file.config)


@pytest.mark.parametrize(
    ("script", "told"), [("exit 3", "exit status 3"), ("exit 0", "exit status 0")]
)
def test_a_profiler_that_leaves_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    fake_profiler(tmp_path, "nsys", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    made = draft(tmp_path, gpu=True)
    profile(made, tmp_path, lambda line: None)
    (check,) = made.checks
    assert check.ok is False
    assert told in check.reason


def test_a_profiler_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    made = draft(tmp_path, gpu=True, profiler=Profiler.ncu)
    profile(made, tmp_path, lambda line: None)
    assert made.checks[0].reason == "ncu is not on the PATH"


def test_a_cpu_has_nothing_to_profile(tmp_path: Path) -> None:
    made = draft(tmp_path, gpu=False)
    profile(made, tmp_path, lambda line: None)
    assert made.checks[0].reason == "there is no GPU to profile"
