"""The cgroup version that can enforce the memory of a job on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

CgroupMode = Literal["v1", "v2", "none"]

_ROOT = Path("/sys/fs/cgroup")
_V1_CONTROLLERS = ("memory", "freezer", "cpuset", "devices")


def detect_cgroup(root: Path = _ROOT) -> tuple[CgroupMode, str]:
    """Return the cgroup version that is mounted and writable below `root`, with the reason."""
    if (root / "cgroup.controllers").is_file():
        return _detect_v2(root)
    missing = [name for name in _V1_CONTROLLERS if not (root / name / "tasks").is_file()]
    if missing:
        return "none", f"no cgroup controller is mounted for {', '.join(missing)} in {root}"
    for name in _V1_CONTROLLERS:
        if error := _refusal(root / name):
            return "none", error
    return "v1", f"cgroup v1 is writable in {root}"


def _detect_v2(root: Path) -> tuple[CgroupMode, str]:
    if "memory" not in (root / "cgroup.subtree_control").read_text().split():
        return "none", f"{root} is cgroup v2, without a memory controller for its children"
    if error := _refusal(root):
        return "none", error
    return "v2", f"cgroup v2 is writable in {root}"


def _refusal(parent: Path) -> str | None:
    probe = parent / f"slurm-test-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError as error:
        return f"cannot write to {parent}: {error.strerror}"
    probe.rmdir()
    return None


def remove_job_groups(job_ids: range, root: Path = _ROOT) -> None:
    """Remove the empty groups that killed jobs with these ids left behind.

    Test clusters share `slurm_n1` and its siblings; the kernel refuses to remove one in use.
    """
    for node in [*root.glob("*/slurm_n[0-9]*"), *root.glob("system.slice/n[0-9]*_slurmstepd*")]:
        for job in node.glob("**/job_*"):
            number = job.name.removeprefix("job_")
            if number.isdigit() and int(number) in job_ids:
                _remove_empty(job)
        for group in (*node.glob("*"), node):
            _remove_if_unused(group)


def _remove_empty(group: Path) -> None:
    for child in sorted(group.rglob("*"), reverse=True):
        _remove_if_unused(child)
    _remove_if_unused(group)


def _remove_if_unused(group: Path) -> None:
    if group.is_dir():
        try:
            group.rmdir()
        except OSError:
            return
