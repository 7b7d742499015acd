"""Which cgroup version this machine lets us use to enforce a job's memory, and why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

CgroupMode = Literal["v1", "v2", "none"]

_ROOT = Path("/sys/fs/cgroup")
_V1_CONTROLLERS = ("memory", "freezer", "cpuset", "devices")


def detect_cgroup(root: Path = _ROOT) -> tuple[CgroupMode, str]:
    """Find the cgroup version that is mounted and writable here.

    Args:
        root: Where the cgroup file systems are mounted.

    Returns:
        The mode, and the reason for it in one phrase.
    """
    if (root / "cgroup.controllers").is_file():
        return _detect_v2(root)
    missing = [name for name in _V1_CONTROLLERS if not (root / name / "tasks").is_file()]
    if missing:
        return "none", f"no cgroup controller is mounted for {', '.join(missing)} in {root}"
    for name in _V1_CONTROLLERS:
        if error := _cannot_make_group(root / name):
            return "none", error
    return "v1", f"cgroup v1 is writable in {root}"


def _detect_v2(root: Path) -> tuple[CgroupMode, str]:
    if "memory" not in (root / "cgroup.subtree_control").read_text().split():
        return "none", f"{root} is cgroup v2, but gives no memory controller to its children"
    if error := _cannot_make_group(root):
        return "none", error
    return "v2", f"cgroup v2 is writable in {root}"


def _cannot_make_group(parent: Path) -> str | None:
    probe = parent / f"slurm-test-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError as error:
        return f"{parent} cannot be written: {error.strerror}"
    probe.rmdir()
    return None


def remove_job_groups(job_ids: range, root: Path = _ROOT) -> None:
    """Remove the empty groups that killed jobs left, of these job ids only.

    Several test clusters share `slurm_n1` and its siblings, so a parent is removed only when
    nobody uses it, which the kernel itself checks.
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
