"""What SLURM refuses, or would leave pending forever, is refused before anything is written."""

from __future__ import annotations

import os

import pytest

from jobs.errors import (
    InvalidConfig,
    InvalidValue,
    JobError,
    SchedulerUnavailable,
    SubmissionRefused,
)
from tests.launcher import Launcher
from tests.slurm_cluster.launching import FAST, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm


def refused(launcher: Launcher, cluster: SlurmCluster, *words: str) -> JobError:
    """The error of a refused submission; nothing of it stays, here or on the cluster."""
    before = jobs(cluster)
    given = {word.partition("=")[0] for word in words}
    fast = [word for word in FAST if word.partition("=")[0] not in given]
    error = launcher("run", "cluster=slurm", *fast, *words).refused()
    assert not launcher.runs_dir.exists() or os.listdir(launcher.runs_dir) == []
    assert jobs(cluster) <= before
    return error


def keys(error: JobError) -> list[str]:
    """The keys or, of what sbatch refused, the settings that an error names."""
    if isinstance(error, SubmissionRefused):
        assert error.detail
        return list(error.settings)
    assert isinstance(error, InvalidConfig | InvalidValue)
    problems = error.problems if isinstance(error, InvalidConfig) else [error]
    return [str(getattr(one, "key", None) or getattr(one, "name", "")) for one in problems]


def jobs(cluster: SlurmCluster) -> set[str]:
    """Jobs that were taken; SLURM lists some that it has refused, as failed from the start."""
    rows = cluster.run("squeue", "-h", "-t", "all", "-o", "%i %r").splitlines()
    return {row.split()[0] for row in rows if not row.endswith("BadConstraints")}


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["cluster.partition=gpux"], "cluster.partition"),
        (["cluster.account=nobody"], "cluster.account"),
        (["cluster.qos=golden"], "cluster.qos"),
        (["cluster.partition=short", "launch.time_min=30"], "launch.time_min"),
        (["cluster.partition=gpu", "launch.cpus_per_task=64"], "launch.cpus_per_task"),
        (["launch.memory_gib=500"], "launch.memory_gib"),
        (["cluster.gres=gpu:gb300:8"], "cluster.gres"),
        (["cluster.gres=gpu:h100:1"], "cluster.gres"),
        (["cluster.gpus_per_node='gb300:8'"], "cluster.gpus_per_node"),
        (["cluster.dependency='afterany:1?afterany:2,afterany:3'"], "cluster.dependency"),
        (["cluster.dependency='afterok:3'"], "cluster.dependency"),
        (["cluster.nice=99999999999"], "cluster.nice"),
        (["+cluster.sbatch.clusters=x"], "cluster.sbatch.clusters"),
        (["+cluster.sbatch.mem-per-cpu=1G"], "launch.memory_gib"),
        (["+cluster.sbatch.array=0-9"], "cluster.sbatch.array"),
        (["+cluster.sbatch.partition=x"], "cluster.sbatch.partition"),
        (["cluster.partition='gpu; rm'"], "cluster.partition"),
        # What only sbatch knows: its own message, and the settings that may have caused it.
        (["cluster.constraint=golden"], "cluster.constraint=golden"),
        (["cluster.nodelist='n[1-2]'"], "cluster.nodelist=n[1-2]"),
        (["cluster.exclude='n[1-3]'"], "cluster.exclude=n[1-3]"),
        (["+cluster.sbatch.licenses=x:1"], "cluster.sbatch.licenses=x:1"),
        (["+cluster.sbatch.tmp=1T"], "cluster.sbatch.tmp=1T"),
        (["cluster.reservation=mine"], "cluster.reservation=mine"),
        (["cluster.nodelist=n9"], "cluster.nodelist=n9"),
        (["cluster.dependency=nonsense"], "cluster.dependency=nonsense"),
        (["+cluster.sbatch.no-such=1"], "cluster.sbatch.no-such=1"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_refusal_names_its_key(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster, words: list[str], key: str
) -> None:
    assert keys(refused(slurm_launcher, slurm_cluster, *words))[0] == key


@pytest.mark.parametrize(
    ("limit", "words", "key"),
    [
        ("MaxMemPerNode=100", [], "launch.memory_gib"),
        ("AllowAccounts=test", [], "cluster.account"),
        ("DenyAccounts=test", ["cluster.account=test"], "cluster.account"),
        ("DenyQos=normal", [], "cluster.qos"),
    ],
)
def test_a_partition_s_own_limit_is_a_refusal(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster, limit: str, words: list[str], key: str
) -> None:
    name = limit.partition("=")[0]
    off = {"MaxMemPerNode": "0", "AllowAccounts": "ALL"}.get(name, "")
    update = ("scontrol", "update", "partitionname=high")
    slurm_cluster.run(*update, limit)
    try:
        error = refused(slurm_launcher, slurm_cluster, "cluster.partition=high", *words)
    finally:
        slurm_cluster.run(*update, f"{name}={off}")
    assert keys(error) == [key]


def test_a_dependency_on_a_job_that_failed_is_refused(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster, slurm_user: SlurmUser
) -> None:
    job_id = slurm_cluster.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "exit 3")
    slurm_cluster.wait_jobs(job_id)
    error = refused(slurm_launcher, slurm_cluster, f"cluster.dependency='afterok:{job_id}'")
    assert keys(error) == ["cluster.dependency"]
    words = ("cluster=slurm", f"cluster.python={slurm_user.node}", *FAST, "wait=true")
    done = slurm_launcher("run", *words, f"cluster.dependency='afterany:{job_id}'")
    assert done.code == 0, done


def test_a_path_that_slurm_would_change_is_refused(
    slurm_launcher: Launcher, slurm_cluster: SlurmCluster
) -> None:
    slurm_launcher.runs_dir = slurm_launcher.home / "100%j"
    assert keys(refused(slurm_launcher, slurm_cluster)) == ["runs_dir"]


def test_without_a_cluster(slurm_launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(slurm_launcher.home))
    error = slurm_launcher("run", "cluster=slurm", *FAST).refused()
    assert isinstance(error, SchedulerUnavailable)
    assert error.detail == "scontrol is not installed here"
    planned = slurm_launcher("plan", "cluster=slurm", *FAST)
    assert planned.code == 0, planned
    assert "the limits are unknown" in planned.out
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


def test_a_user_s_limit_is_refused(slurm_launcher: Launcher, slurm_cluster: SlurmCluster) -> None:
    modify = ("sacctmgr", "-i", "modify", "user", "root", "where", "account=test", "set")
    slurm_cluster.run(*modify, "MaxSubmitJobs=3")
    try:
        words = ("cluster=slurm", "cluster.account=test", *FAST, "shape.seed=0,100,200,300")
        error = slurm_launcher("sweep", *words).refused()
        packed = slurm_launcher("plan", *words, "launch.points_per_job=2")
    finally:
        slurm_cluster.run(*modify, "MaxSubmitJobs=-1")
    assert keys(error) == ["launch.points_per_job"]
    assert packed.code == 0, packed


def test_unsupported_is_not_sent(slurm_launcher: Launcher, slurm_cluster: SlurmCluster) -> None:
    before = jobs(slurm_cluster)
    done = slurm_launcher("run", "cluster=slurm", *FAST, "recipe=fp8_current")
    assert done.code == 3, done
    assert "1 UNSUPPORTED" in done.out
    assert jobs(slurm_cluster) <= before
