"""The test cluster enforces memory if it can, and starts if it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm_cluster import slurm
from tests.slurm_cluster.cgroup import detect_cgroup, remove_job_groups
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.slurm import SlurmCluster


def v1(root: Path) -> Path:
    for name in ("memory", "freezer", "cpuset", "devices"):
        (root / name).mkdir()
        (root / name / "tasks").touch()
    return root


def test_a_writable_v1_is_used(tmp_path: Path) -> None:
    assert detect_cgroup(v1(tmp_path))[0] == "v1"
    assert sorted(path.name for path in (tmp_path / "memory").iterdir()) == ["tasks"]


def test_a_v1_without_memory_is_not_used(tmp_path: Path) -> None:
    (v1(tmp_path) / "memory" / "tasks").unlink()
    mode, reason = detect_cgroup(tmp_path)
    assert mode == "none"
    assert "memory" in reason


def test_a_v2_with_memory_for_its_children_is_used(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    controllers = tmp_path / "cgroup.subtree_control"
    controllers.write_text("cpu pids")
    assert detect_cgroup(tmp_path)[0] == "none"
    controllers.write_text("cpu memory pids")
    assert detect_cgroup(tmp_path)[0] == "v2"


def test_a_read_only_file_system_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path) -> None:
        raise PermissionError(30, "Read-only file system")

    v1(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refused)
    mode, reason = detect_cgroup(tmp_path)
    assert mode == "none"
    assert f"{tmp_path}/memory" in reason
    assert "Read-only file system" in reason


def test_only_empty_groups_of_this_cluster_are_removed(tmp_path: Path) -> None:
    for job in ("job_100", "job_100/step_0", "job_999"):
        (tmp_path / "memory" / "slurm_n1" / "uid_0" / job).mkdir(parents=True, exist_ok=True)
    remove_job_groups(range(100, 200), tmp_path)
    left = [path.name for path in (tmp_path / "memory" / "slurm_n1" / "uid_0").iterdir()]
    assert left == ["job_999"]


@pytest.mark.slurm
@pytest.mark.parametrize("detected", ["none", "v2"])
def test_the_cluster_starts_without_a_cgroup_that_slurm_can_use(
    detected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := missing_requirement("none"):
        pytest.skip(reason)
    if detected == "v2" and (Path("/sys/fs/cgroup") / "cgroup.controllers").exists():
        pytest.skip("cgroup v2 can be used here")
    monkeypatch.setattr(slurm, "detect_cgroup", lambda: (detected, "for the test"))
    with SlurmCluster(accounting="none") as cluster:
        assert cluster.cgroup == "none"
        assert "v2" in cluster.cgroup_reason or detected == "none"
        job_id = cluster.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "srun true")
        cluster.wait_jobs(job_id)
        state = cluster.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T")
        assert state == "COMPLETED"
