"""status, logs, cancel, resume and repro on a real SLURM."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from jobs.errors import NotInteractive
from jobs.schedulers.slurm.memory import LAST_SEEN
from jobs.schedulers.slurm.submission import next_number
from jobs.sweeps.ledger import Ledger
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm


def attempts_of(ledger: Ledger, count: int) -> bool:
    """Whether so many attempts have started."""
    return len(list(ledger.root.glob("*/p-*/attempt-*/started.json"))) >= count


@pytest.fixture(scope="module")
def no_accounting() -> Iterator[SlurmCluster]:
    if reason := missing_requirement("none"):
        pytest.skip(reason)
    with SlurmCluster(accounting="none", message_timeout_s=3) as cluster:
        yield cluster


def test_a_sweep_by_every_form_of_its_id(slurm_launcher: Launcher, slurm_user: SlurmUser) -> None:
    seeds = f"shape.seed={node.PASS},{node.FAIL},{node.UNSUPPORTED},{100 + node.RAISES}"
    _, ledger = slurm_user.sweep(seeds)
    slurm_user.wait(ledger)
    (line,) = ledger.jobs()
    array = line.job_id
    raw = {
        record["identity"]["job_id"]: record["identity"]["raw_job_id"]
        for record in slurm_user.records(ledger)
    }
    whole = slurm_launcher("status", "latest")
    assert whole.code == 0, whole.err
    assert "4 points: 1 ERROR, 1 FAILED, 1 PASSED, 1 UNSUPPORTED" in whole.out
    forms = {
        array: 4, ledger.sweep_id: 4, f"{ledger.root}/": 4, f"{array}_[0-3%2]": 4,
        f"{array}.batch": 4, f"{array}_2": 1, f"{array}_[1-2]": 2, f"{array}_3.0": 1,
        raw[f"{array}_1"]: 1, ledger.plan()[0].point_id: 1,
    }  # fmt: skip
    for form, count in forms.items():
        shown = slurm_launcher("status", form)
        assert shown.code == 0, (form, shown.err)
        assert f"{count} point" in shown.out, form
    logs = slurm_launcher("logs", f"{array}_3")
    assert logs.code == 0
    assert "ValueError: the point raised" in logs.out
    assert f"{array}_0" not in logs.out


def test_cancel_of_jobs_in_every_state(slurm_launcher: Launcher, slurm_user: SlurmUser) -> None:
    seeds = ",".join(str(100 * i + node.HANGS) for i in range(5))
    _, ledger = slurm_user.sweep(f"shape.seed={seeds}", "launch.max_parallel=2")
    cluster = slurm_user.cluster
    cluster.wait(lambda: attempts_of(ledger, 2), "two running points")
    shown = slurm_launcher("status")
    assert "5 points: 3 PENDING, 2 RUNNING" in shown.out
    assert "JobArrayTaskLimit" in shown.out
    (line,) = ledger.jobs()
    asked = slurm_launcher("cancel", "latest")
    assert isinstance(asked.refused(), NotInteractive)
    one = slurm_launcher("cancel", f"{line.job_id}_0", "yes=true")
    assert one.code == 0
    assert "Cancelled 1 job;" in one.out
    cluster.wait(lambda: f"{line.job_id}_0" not in queue(cluster, line.job_id), "its end")
    assert f"{line.job_id}_1" in queue(cluster, line.job_id)
    everything = slurm_launcher("cancel", "latest", "yes=true")
    assert "Cancelled 4 jobs" in everything.out
    slurm_user.wait(ledger)
    ended = slurm_launcher("status")
    assert "5 points: 5 ERROR" in ended.out
    assert ended.out.count("cancelled by") == 5
    assert "lost" not in ended.out
    assert "Nothing to cancel" in slurm_launcher("cancel", "latest").out


def test_an_unrecorded_job_is_cancelled(slurm_launcher: Launcher, slurm_user: SlurmUser) -> None:
    _, ledger = slurm_user.sweep(f"shape.seed={node.HANGS},{100 + node.HANGS}")
    (line,) = ledger.jobs()
    ledger.jobs_jsonl.unlink()  # as if the process had died right after its sbatch
    next_number(ledger)  # and a submission that was never sent
    slurm_user.cluster.wait(lambda: attempts_of(ledger, 1), "a running point")
    done = slurm_launcher("cancel", "latest", "yes=true")
    assert "Cancelled 2 jobs;" in done.out
    slurm_user.cluster.wait_jobs(line.job_id)
    assert "Nothing to cancel" in slurm_launcher("cancel", "latest", "yes=true").out


def queue(cluster: SlurmCluster, job_id: str) -> str:
    return cluster.run("squeue", "-h", "-r", "-j", job_id, "-o", "%i %T")


def test_ctrl_c_hurts_no_job(slurm_user: SlurmUser) -> None:
    _, ledger = slurm_user.sweep(f"shape.seed={node.HANGS},{100 + node.HANGS}")
    (line,) = ledger.jobs()
    slurm_user.cluster.wait(lambda: attempts_of(ledger, 1), "a running point")
    seen = ledger.root / LAST_SEEN
    with slurm_user.running("status", "watch=true", "interval_s=60") as watching:
        slurm_user.cluster.wait(seen.exists, "the first look")
        watching.send_signal(signal.SIGINT)
        out, _ = watching.communicate(timeout=20)
    assert watching.returncode == 130, out
    assert f"python launch.py cancel {ledger.sweep_id}" in out
    assert "RUNNING" in queue(slurm_user.cluster, line.job_id)
    slurm_user.cluster.run("scancel", line.job_id)


def test_logs_are_followed_to_the_end(slurm_user: SlurmUser) -> None:
    _, ledger = slurm_user.sweep(f"shape.seed={node.SLOW_PASS},{100 + node.SLOW_PASS}")
    slurm_user.cluster.wait(lambda: attempts_of(ledger, 1), "a running point")
    done = slurm_user.run("logs", "follow=true", "lines=5")
    assert done.returncode == 0, done.stderr
    assert f"acts {node.SLOW_PASS}" in done.stdout
    assert slurm_user.outcomes(ledger).popitem()[1] == ["PASSED"]


def test_doctor_queries_the_cluster(slurm_launcher: Launcher, slurm_cluster: SlurmCluster) -> None:
    done = slurm_launcher("doctor", "cluster=slurm", "launch.memory_gib=1")
    assert done.code == 0, done
    for words in ("1001 (MaxArraySize)", "account test", "batch*", "gpu:gb300:4", "2 min"):
        assert words in done.out
    assert "SLURM_JOB_GPUS=" in done.out
    assert "MXFP8 available" in done.out


def test_resume_and_repro_run_again(slurm_launcher: Launcher, slurm_user: SlurmUser) -> None:
    acts = (node.PASS, node.FAIL, node.UNSUPPORTED, 100 + node.EXITS_3)
    _, ledger = slurm_user.sweep(f"shape.seed={','.join(map(str, acts))}")
    slurm_user.wait(ledger)
    before = slurm_user.outcomes(ledger)
    resumed = slurm_launcher("resume", "wait=true")
    assert resumed.code == 1, resumed
    after = slurm_user.outcomes(ledger)
    grown = {point: outcomes for point, outcomes in after.items() if outcomes != before[point]}
    assert list(grown.values()) == [["ERROR", "ERROR"]]
    passed = next(point for point, outcomes in after.items() if outcomes == ["PASSED"])
    again = slurm_launcher("repro", passed, "wait=true")
    assert again.code == 0, again
    assert slurm_user.outcomes(slurm_user.ledger()) == {passed: ["PASSED"]}
    assert slurm_user.ledger() != ledger


def test_no_accounting_no_controller(no_accounting: SlurmCluster, slurm_user: SlurmUser) -> None:
    user = SlurmUser(no_accounting, slurm_user.folder)
    _, ledger = user.sweep(f"shape.seed={node.PASS},{node.HANGS}", "launch.time_min=5")
    no_accounting.wait(lambda: attempts_of(ledger, 2) and bool(user.records(ledger)), "both")
    shown = user.run("status")
    assert "2 points: 1 PASSED, 1 RUNNING" in shown.stdout
    assert "Note: this cluster keeps no accounting" in shown.stdout
    no_accounting.kill_daemon("slurmctld")
    try:
        blind = user.run("status")
        assert blind.returncode == 0, blind.stderr
        assert "2 points: 1 PASSED, 1 RUNNING" in blind.stdout
        assert "squeue does not answer" in blind.stdout
        assert "showing states from " in blind.stdout
        refused = user.run("resume")
        assert refused.returncode == 2
        assert "launch.py: cannot query the cluster's limits" in refused.stderr
    finally:
        no_accounting.start_daemon("slurmctld")
        no_accounting.wait(lambda: no_accounting.run("sinfo", "-h") != "", "the controller")
    (line,) = ledger.jobs()
    no_accounting.run("scancel", line.job_id)
    user.wait(ledger)
    assert "1 ERROR, 1 PASSED" in user.run("status").stdout
