"""An extra, untimed pass under a profiler, with an NVTX range for each arm and each stage.

    python -m jobs.node.profiling POINT.json     the profiler's target

The profiler starts a process of its own, because times under a profiler are not measurements. Its
file is kept beside the record.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from conf.choices import Profiler
from conf.plain import to_plain
from conf.schema import Bf16Recipe, Point
from jobs.files import write_atomic
from jobs.node.arm import BASELINE, RECIPE
from jobs.node.output import print_progress
from jobs.node.point_file import PointFile, read_point_file
from jobs.node.record_draft import RecordDraft
from jobs.node.stages import Stage, stages_of
from mxfp8_attention.capability.checks import Check
from mxfp8_attention.case import make_case
from mxfp8_attention.layer import AttentionPath
from mxfp8_attention.paths import build_path

_TIMEOUT_S = 600
_WARMUP = 3


def command_line(profiler: Profiler, point_path: Path, output: Path) -> list[str]:
    """Return the profiler's command; `output` is the profile without its suffix."""
    target = [sys.executable, "-m", "jobs.node.profiling", str(point_path)]
    if profiler is Profiler.nsys:
        options = ["--trace=cuda,nvtx", "--capture-range=cudaProfilerApi"]
        return ["nsys", "profile", *options, "--force-overwrite=true", "-o", str(output), *target]
    options = ["--profile-from-start", "off", "--nvtx", "--clock-control", "none"]
    return ["ncu", *options, "--force-overwrite", "-o", str(output), *target]


def profile(draft: RecordDraft, attempt_dir: Path) -> None:
    """Profile a point, and add a check with the profile's file, or the reason for having none."""
    profiler = draft.point_file.point.benchmark.profile
    ok, reason = _profile(draft.point_file, profiler, attempt_dir)
    draft.checks.append(Check(f"profile {profiler.name}", ok, reason))


def _profile(point_file: PointFile, profiler: Profiler, attempt_dir: Path) -> tuple[bool, str]:
    if point_file.point.gpu.device != "cuda":
        return False, "there is no GPU to profile"
    if shutil.which(profiler.name) is None:
        return False, f"{profiler.name} is not on the PATH"
    point_path = attempt_dir / "profile_point.json"
    plain = {"point_id": point_file.point_id, "point": to_plain(point_file.point)}
    write_atomic(point_path, json.dumps(plain, indent=2) + "\n")
    print_progress(f"profiling with {profiler.name}")
    command = command_line(profiler, point_path, attempt_dir / "profile")
    try:
        code = subprocess.run(command, timeout=_TIMEOUT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        return False, f"not finished within {_TIMEOUT_S} s"
    files = sorted(path.name for path in attempt_dir.glob("profile.*"))
    if code == 0 and files:
        return True, ", ".join(files)
    return False, f"exit code {code}: see output.log"


def annotated_pass(point: Point) -> None:
    """Run both arms once on a GPU, whole and stage by stage, inside NVTX ranges."""
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
