"""An untimed extra pass under a profiler, with an NVTX range for each arm and each stage.

    python -m jobs.node.profiling POINT.json     what the profiler runs

The profiler starts its own process: a measurement under a profiler is none. Its file lies
beside the record.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from conf.choices import Profiler
from conf.plain import to_plain
from conf.schema import Bf16Recipe, Point
from jobs.files import write_atomic
from jobs.node.benchmark import BASELINE, RECIPE
from jobs.node.draft import Draft
from jobs.node.point_file import read_point_file
from jobs.node.stages import Stage, stages_of
from mxfp8_attention.capability.checks import Check
from mxfp8_attention.case import make_case
from mxfp8_attention.layer import AttentionPath
from mxfp8_attention.paths import build_path

_TIMEOUT_S = 600
_WARMUP = 3


def command_line(profiler: Profiler, point_path: Path, output: Path) -> list[str]:
    """The profiler's command.

    Args:
        profiler: nsys or ncu.
        point_path: The point file.
        output: The profile, without its ending.

    Returns:
        Words of the command.
    """
    target = [sys.executable, "-m", "jobs.node.profiling", str(point_path)]
    if profiler is Profiler.nsys:
        options = ["--trace=cuda,nvtx", "--capture-range=cudaProfilerApi"]
        return ["nsys", "profile", *options, "--force-overwrite=true", "-o", str(output), *target]
    options = [
        "--profile-from-start",
        "off",
        "--nvtx",
        "--clock-control",
        "none",
        "--force-overwrite",
    ]
    return ["ncu", *options, "-o", str(output), *target]


def profile(draft: Draft, attempt_dir: Path, say: Callable[[str], None]) -> None:
    """Profiles a point and notes in the record where the file lies, or why there is none.

    Args:
        draft: The record so far; a check is added.
        attempt_dir: Where the file goes.
        say: Tells progress.
    """
    point_file = draft.point_file
    profiler = point_file.point.benchmark.profile
    name = f"profile {profiler.name}"
    if point_file.point.gpu.device != "cuda":
        draft.checks.append(Check(name, False, "there is no GPU to profile"))
        return
    if shutil.which(profiler.name) is None:
        draft.checks.append(Check(name, False, f"{profiler.name} is not on the PATH"))
        return
    point_path = attempt_dir / "profile_point.json"
    plain = {"point_id": point_file.point_id, "point": to_plain(point_file.point)}
    write_atomic(point_path, json.dumps(plain, indent=2) + "\n")
    output = attempt_dir / "profile"
    say(f"profiling with {profiler.name}")
    try:
        done = subprocess.run(
            command_line(profiler, point_path, output), timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        draft.checks.append(Check(name, False, f"not finished within {_TIMEOUT_S} s"))
        return
    files = sorted(path.name for path in attempt_dir.glob("profile.*"))
    ok = done.returncode == 0 and bool(files)
    shown = ", ".join(files) if ok else f"exit status {done.returncode}: see output.log"
    draft.checks.append(Check(name, ok, shown))


def annotated_pass(point: Point) -> None:
    """Runs both arms once, whole and stage by stage, inside NVTX ranges.

    Args:
        point: The point; on a CUDA device.
    """
    import torch
    from torch.cuda import nvtx

    case = make_case(point.shape, point.gpu.device)
    recipes = ((RECIPE, point.recipe), (BASELINE, Bf16Recipe()))
    paths = {arm: build_path(point.backend.name, recipe, case) for arm, recipe in recipes}
    for path in paths.values():
        for _ in range(_WARMUP):
            path.step()
    stages = {arm: stages_of(path) for arm, path in paths.items()}
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]  # torch's own
    for arm, path in paths.items():
        with nvtx.range(arm):
            _annotated_step(path, stages[arm])
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]  # torch's own


def _annotated_step(path: AttentionPath, stages: dict[str, Stage]) -> None:
    from torch.cuda import nvtx

    path.zero_grad()
    with nvtx.range("fprop"):
        out = path.fprop()
    with nvtx.range("bprop"):
        path.bprop(out)
    for name, stage in stages.items():
        stage.zero_grad()
        with nvtx.range(f"{name} fprop"):
            outputs = stage.fprop()
        with nvtx.range(f"{name} bprop"):
            stage.bprop(outputs)
    path.zero_grad()


if __name__ == "__main__":
    annotated_pass(read_point_file(Path(sys.argv[1])).point)
