"""The test cluster enforces memory where it can, and starts where it cannot."""

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


def test_a_v1_without_memory_is_not(tmp_path: Path) -> None:
    (v1(tmp_path) / "memory" / "tasks").unlink()
    mode, reason = detect_cgroup(tmp_path)
    assert mode == "none"
    assert "memory" in reason


def test_a_v2_is_used_if_its_children_get_memory(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    given = tmp_path / "cgroup.subtree_control"
    given.write_text("cpu pids")
    assert detect_cgroup(tmp_path)[0] == "none"
    given.write_text("cpu memory pids")
    assert detect_cgroup(tmp_path)[0] == "v2"


def test_a_file_system_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path) -> None:
        raise PermissionError(30, "Read-only file system")

    v1(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refused)
    mode, reason = detect_cgroup(tmp_path)
    assert (mode, reason) == (
        "none",
        f"{tmp_path}/memory cannot be written: Read-only file system",
    )


def test_only_this_clusters_empty_groups_are_removed(tmp_path: Path) -> None:
    for job in ("job_100", "job_100/step_0", "job_999"):
        (tmp_path / "memory" / "slurm_n1" / "uid_0" / job).mkdir(parents=True, exist_ok=True)
    remove_job_groups(range(100, 200), tmp_path)
    left = [path.name for path in (tmp_path / "memory" / "slurm_n1" / "uid_0").iterdir()]
    assert left == ["job_999"]


@pytest.mark.slurm
@pytest.mark.parametrize("found", ["none", "v2"])
def test_the_cluster_starts_without_a_cgroup_that_slurm_can_use(
    found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := missing_requirement("none"):
        pytest.skip(reason)
    if found == "v2" and (Path("/sys/fs/cgroup") / "cgroup.controllers").exists():
        pytest.skip("cgroup v2 can be used here")
    monkeypatch.setattr(slurm, "detect_cgroup", lambda: (found, "says the test"))
    with SlurmCluster(accounting="none") as cluster:
        assert cluster.cgroup == "none"
        assert found == "none" or "v2 was refused" in cluster.cgroup_reason
        job_id = cluster.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "srun true")
        cluster.wait_jobs(job_id)
        state = cluster.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T")
        assert state == "COMPLETED"
