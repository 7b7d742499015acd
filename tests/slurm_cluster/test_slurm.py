"""The cluster that the tests start is real, and stopping it leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm_cluster.config import NODES
from tests.slurm_cluster.daemons import free_ports, missing_requirement
from tests.slurm_cluster.processes import Process, wait_gone
from tests.slurm_cluster.slurm import ClusterError, SlurmCluster

ROOT = Path(__file__).parents[2]


@pytest.mark.slurm
def test_every_node_is_idle_and_every_partition_is_up(slurm_cluster: SlurmCluster) -> None:
    rows = slurm_cluster.run("sinfo", "-h", "-N", "-o", "%N %T %P").splitlines()
    assert {row.split()[0] for row in rows} == set(NODES)
    assert {row.split()[2].rstrip("*") for row in rows} == {"batch", "gpu", "short", "low", "high"}


@pytest.mark.slurm
def test_a_job_can_be_tested_without_being_submitted(slurm_cluster: SlurmCluster) -> None:
    done = subprocess.run(
        ["sbatch", "--test-only", "--gres=gpu:gb300:2", "--wrap", "true"],
        env=slurm_cluster.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "to start at" in done.stderr
    assert not slurm_cluster.run("squeue", "-h", "-n", "wrap")


@pytest.mark.slurm
def test_an_array_gets_its_gpus_and_leaves_accounting_rows(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    job_id = slurm_cluster.run(
        "sbatch",
        "--parsable",
        "--array=0-2",
        "--gres=gpu:gb300:2",
        f"--output={tmp_path}/%a.log",
        "--wrap",
        "echo $CUDA_VISIBLE_DEVICES on $SLURMD_NODENAME as $SLURM_ARRAY_JOB_ID",
    )
    slurm_cluster.wait_jobs(job_id)
    for index in range(3):
        gpus, _, node, _, array = (tmp_path / f"{index}.log").read_text().split()
        assert len(gpus.split(",")) == 2
        assert node in {"n1", "n2"}
        assert array == job_id

    def rows() -> list[str]:
        sacct = ("sacct", "-n", "-X", "-P", "-j", job_id, "-o", "JobID,State,AllocTRES")
        return slurm_cluster.run(*sacct).splitlines()

    slurm_cluster.wait(
        lambda: sum("COMPLETED" in row for row in rows()) == 3, "sacct's three rows"
    )
    assert all("gres/gpu=2" in row for row in rows())


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--partition=nowhere", "Invalid partition name specified"),
        ("--account=nobody", "Invalid account"),
        ("--gres=gpu:h100:1", "Requested node configuration is not available"),
        ("--array=1001", "Invalid job array specification"),
    ],
)
def test_slurm_rejects_what_cannot_run(
    slurm_cluster: SlurmCluster, option: str, reason: str
) -> None:
    with pytest.raises(ClusterError, match=reason):
        slurm_cluster.run("sbatch", option, "--wrap", "true")


@pytest.mark.slurm
def test_memory_is_enforced_or_there_is_a_reason(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    if slurm_cluster.cgroup == "none":
        assert slurm_cluster.cgroup_reason
        return
    eat = f"srun {sys.executable} -c 'bytearray(300 << 20)'"
    job_id = slurm_cluster.run(
        "sbatch", "--parsable", "--mem=50", f"--output={tmp_path}/log", "--wrap", eat
    )
    slurm_cluster.wait_jobs(job_id)
    sacct = ("sacct", "-n", "-P", "-j", job_id, "-o", "JobID,State")
    slurm_cluster.wait(
        lambda: f"{job_id}.0|OUT_OF_MEMORY" in slurm_cluster.run(*sacct), "sacct's row of the step"
    )


@pytest.mark.slurm
def test_stop_leaves_no_process_no_folder_and_harms_no_other_cluster(
    slurm_cluster: SlurmCluster,
) -> None:
    cluster = SlurmCluster(accounting="none")
    cluster.start()
    daemons = [Process.of(child.pid) for child in cluster._children.values()]
    assert len(daemons) == 5
    cluster.run("sbatch", "--output=/dev/null", "--wrap", "trap '' TERM; sleep 600 & wait")
    cluster.wait(lambda: len(cluster.job_processes()) >= 3, "the job's processes")
    jobs = cluster.job_processes()
    cluster.stop()
    everything = [process for process in (*daemons, *jobs) if process is not None]
    assert wait_gone(everything, 5) == []
    assert not cluster.layout.folder.exists()
    assert slurm_cluster.run("sinfo", "-h", "-o", "%R")


@pytest.mark.slurm
def test_a_failed_start_names_the_setting_and_leaves_no_process() -> None:
    if reason := missing_requirement("none"):
        pytest.skip(reason)
    cluster = SlurmCluster(accounting="none", max_array_size=-7)
    with pytest.raises(ClusterError, match="MaxArraySize"):
        cluster.start()
    assert not cluster.layout.folder.exists()
    mark = str(cluster.layout.folder).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert mark not in path.read_bytes()


@pytest.mark.slurm
def test_daemons_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    if reason := missing_requirement("none"):
        pytest.skip(reason)
    source = (
        "import os, sys, pathlib\n"
        "from tests.slurm_cluster.slurm import SlurmCluster\n"
        f"cluster = SlurmCluster(pathlib.Path({str(tmp_path)!r}), accounting='none')\n"
        "cluster.start()\n"
        "print(*(child.pid for child in cluster._children.values()), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        pids = [int(pid) for pid in child.stdout.readline().split()]
        daemons = [process for pid in pids if (process := Process.of(pid))]
        assert len(daemons) == 5
        child.kill()
    assert wait_gone(daemons, 10) == []


@pytest.mark.slurm
def test_a_manual_cluster_prints_its_export_line_and_stops(tmp_path: Path) -> None:
    if reason := missing_requirement("none"):
        pytest.skip(reason)
    folder = tmp_path / "by-hand"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.slurm_cluster", *words, "--folder", str(folder)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    up = run("up", "--accounting", "none")
    assert up.returncode == 0, up.stderr
    assert up.stdout.splitlines()[-1] == f"export SLURM_CONF={folder}/etc/slurm.conf"
    assert run("up").returncode == 2
    down = run("down")
    assert down.returncode == 0, down.stderr
    assert not folder.exists()
    assert run("down").returncode == 2


def test_ports_are_free_and_distinct() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(10_000 <= port < 32_000 for port in ports)


def test_a_process_differs_from_a_later_one_with_the_same_pid() -> None:
    me = Process.of(os.getpid())
    assert me is not None
    assert me.is_alive()
    assert not Process(me.pid, me.start_ticks - 1).is_alive()
    with subprocess.Popen(["true"]) as child:
        deadline = time.monotonic() + 10
        while Process.of(child.pid) is not None:
            assert time.monotonic() < deadline, "a zombie counts as ended"
