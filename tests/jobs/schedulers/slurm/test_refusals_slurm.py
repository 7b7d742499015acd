"""What SLURM refuses, or would leave pending for ever, is told before anything stays behind."""

from __future__ import annotations

import os

import pytest

from tests.launcher import Launcher
from tests.slurm_cluster.launching import FAST, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm


def refused(launcher: Launcher, cluster: SlurmCluster, *words: str) -> str:
    """The one line of a refused submission; nothing of it stays, here or on the cluster."""
    before = jobs(cluster)
    given = {word.partition("=")[0] for word in words}
    fast = [word for word in FAST if word.partition("=")[0] not in given]
    line = launcher("run", "cluster=slurm", *fast, *words).refusal()
    assert not launcher.runs_dir.exists() or os.listdir(launcher.runs_dir) == []
    assert jobs(cluster) <= before
    return line


def jobs(cluster: SlurmCluster) -> set[str]:
    """Jobs that were taken; SLURM lists some that it has refused, as failed from the start."""
    rows = cluster.run("squeue", "-h", "-t", "all", "-o", "%i %r").splitlines()
    return {row.split()[0] for row in rows if not row.endswith("BadConstraints")}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["cluster.partition=gpux"],
            "cluster.partition must be one of batch, gpu, short, low, high, got 'gpux'",
        ),
        (["cluster.account=nobody"], "cluster.account must be one of"),
        (["cluster.qos=golden"], "cluster.qos must be one of normal, got 'golden'"),
        (
            ["cluster.partition=short", "launch.time_min=30"],
            "launch.time_min must be at most 2 in partition short, got 30",
        ),
        (
            ["cluster.partition=gpu", "launch.cpus_per_task=64"],
            "launch.cpus_per_task must be at most 8 in partition gpu, got 64",
        ),
        (["launch.memory_gib=500"], "launch.memory_gib must be at most 3.91 in partition batch"),
        (
            ["cluster.gres=gpu:gb300:8"],
            "cluster.gres must be what a node has in partition batch (gpu:gb300:4)",
        ),
        (["cluster.gres=gpu:h100:1"], "got 'gpu:h100:1'"),
        (
            ["cluster.gpus_per_node='gb300:8'"],
            "cluster.gpus_per_node must be what a node has in partition batch (gpu:gb300:4)",
        ),
        (
            ["cluster.dependency='afterany:1?afterany:2,afterany:3'"],
            "cluster.dependency must join with , (all) or with ? (any), not with both",
        ),
        (
            ["cluster.dependency='afterok:3'"],
            "cluster.dependency must name jobs that the cluster knows, got afterok:3",
        ),
        # What only sbatch knows: its own words, and the key that caused them.
        (["cluster.constraint=golden"], "cluster.constraint=golden was refused: "),
        (["cluster.nodelist='n[1-2]'"], "cluster.nodelist=n[1-2] was refused: invalid number of"),
        (
            ["cluster.exclude='n[1-3]'"],
            "cluster.exclude=n[1-3], launch.memory_gib=0.2 was refused",
        ),
        (["+cluster.sbatch.licenses=x:1"], "cluster.sbatch.licenses=x:1 was refused: "),
        (["+cluster.sbatch.tmp=1T"], "cluster.sbatch.tmp=1T was refused: "),
        (["cluster.nice=99999999999"], "cluster.nice must be at most 2147483645"),
        (["+cluster.sbatch.clusters=x"], "cluster.sbatch must not name clusters"),
        (["+cluster.sbatch.mem-per-cpu=1G"], "launch.memory_gib must be null with"),
        (["cluster.reservation=mine"], "cluster.reservation=mine was refused: "),
        (["cluster.nodelist=n9"], "cluster.nodelist=n9 was refused: "),
        (["cluster.dependency=nonsense"], "cluster.dependency=nonsense was refused: "),
        (["+cluster.sbatch.no-such=1"], "cluster.sbatch.no-such=1 was refused: "),
        (["+cluster.sbatch.array=0-9"], "cluster.sbatch must not name array"),
        (["+cluster.sbatch.partition=x"], "use cluster.partition"),
        (["cluster.partition='gpu; rm'"], "cluster.partition must be words without spaces"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_it_is_told_with_its_key(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster, words: list[str], told: str
) -> None:
    assert told in refused(slurm_launcher, slurm_cluster, *words)


@pytest.mark.parametrize(
    ("limit", "words", "told"),
    [
        (
            "MaxMemPerNode=100",
            [],
            "launch.memory_gib must be at most 0.10 in partition high, got 0.20",
        ),
        (
            "AllowAccounts=test",
            [],
            "cluster.account must be one of test in partition high, got none, and the default is "
            "'root'",
        ),
        (
            "DenyAccounts=test",
            ["cluster.account=test"],
            "cluster.account must be none of test in partition high, got 'test'",
        ),
        (
            "DenyQos=normal",
            [],
            "cluster.qos must be none of normal in partition high, got none, and the default is "
            "'normal'",
        ),
    ],
)
def test_a_partition_s_own_limit_is_told(
    slurm_launcher: Launcher,
    slurm_cluster: SlurmCluster,
    limit: str,
    words: list[str],
    told: str,
) -> None:
    key = limit.partition("=")[0]
    off = {"MaxMemPerNode": "0", "AllowAccounts": "ALL"}.get(key, "")
    update = ("scontrol", "update", "partitionname=high")
    slurm_cluster.run(*update, limit)
    try:
        line = refused(slurm_launcher, slurm_cluster, "cluster.partition=high", *words)
    finally:
        slurm_cluster.run(*update, f"{key}={off}")
    assert line == told or line.startswith(f"{told};")


def test_a_dependency_on_a_job_that_failed_is_refused(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster, slurm_user: SlurmUser
) -> None:
    job_id = slurm_cluster.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "exit 3")
    slurm_cluster.wait_jobs(job_id)
    told = refused(slurm_launcher, slurm_cluster, f"cluster.dependency='afterok:{job_id}'")
    assert f"got afterok:{job_id}, which ended as FAILED" in told
    words = ("cluster=slurm", f"cluster.python={slurm_user.node}", *FAST, "wait=true")
    done = slurm_launcher("run", *words, f"cluster.dependency='afterany:{job_id}'")
    assert done.code == 0, done


def test_a_path_that_slurm_would_change_is_refused(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster
) -> None:
    slurm_launcher.runs_dir = slurm_launcher.home / "100%j"
    assert "runs_dir must have a path without %," in refused(slurm_launcher, slurm_cluster)


def test_without_a_cluster_it_is_told(
    slurm_launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(slurm_launcher.home))
    told = slurm_launcher("run", "cluster=slurm", *FAST).refusal()
    assert "asked for its limits: scontrol is not installed here" in told
    planned = slurm_launcher("plan", "cluster=slurm", *FAST)
    assert planned.code == 0, planned
    assert "limits are not known" in planned.out
    assert "#SBATCH --job-name" in planned.out


def test_plan_names_the_key_that_sbatch_would_refuse(slurm_launcher: Launcher) -> None:
    planned = slurm_launcher("plan", "cluster=slurm", *FAST, "cluster.constraint=golden")
    assert planned.code == 0, planned
    assert "Note: submission 0: cluster.constraint=golden was refused: " in planned.out


def test_a_part_that_is_refused_is_recorded_as_that(slurm_user: SlurmUser) -> None:
    # The first submission goes through; the second is refused by an sbatch of ours.
    refuse = 'case "$*" in *submissions/1/*) echo "sbatch: error: QOSMaxSubmit" >&2; exit 1;; esac'
    slurm_user.wrap("sbatch", f'{refuse}\nexec $REAL "$@"')
    words = ("cluster=slurm", f"cluster.python={slurm_user.node}", *FAST, "gpu.any=true")
    done = slurm_user.run("sweep", *words, "gpu=cpu,gb300", "wait=true")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the submission was refused: QOSMaxSubmit" in done.stdout
    ledger = slurm_user.ledger()
    outcomes = slurm_user.outcomes(ledger)
    assert sorted(outcomes.values()) == [["ERROR"], ["PASSED"]]
    causes = {record.get("cause") for record in slurm_user.records(ledger)}
    assert causes == {None, "submit_rejected"}
    assert os.listdir(ledger.root / "submissions") == ["0"]
    slurm_user.env.pop("PATH")
    resumed = slurm_user.run("resume", "wait=true")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    good = [record for record in slurm_user.records(ledger) if record["outcome"] == "PASSED"]
    assert len(good) == 2


def test_the_users_own_limit_is_asked_for(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster
) -> None:
    modify = ("sacctmgr", "-i", "modify", "user", "root", "where", "account=test", "set")
    slurm_cluster.run(*modify, "MaxSubmitJobs=3")
    try:
        words = ("cluster=slurm", "cluster.account=test", *FAST, "shape.seed=0,100,200,300")
        told = slurm_launcher("sweep", *words).refusal()
        packed = slurm_launcher("plan", *words, "launch.points_per_job=2")
    finally:
        slurm_cluster.run(*modify, "MaxSubmitJobs=-1")
    assert told.startswith("the sweep must make at most 3 jobs (MaxSubmitJobs), got 4")
    assert "launch.points_per_job" in told
    assert packed.code == 0, packed


def test_what_no_node_takes_is_not_submitted(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster
) -> None:
    before = jobs(slurm_cluster)
    done = slurm_launcher("run", "cluster=slurm", *FAST, "recipe=fp8_current")
    assert done.code == 3, done
    assert "1 UNSUPPORTED" in done.out
    assert jobs(slurm_cluster) <= before
