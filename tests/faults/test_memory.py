"""Host memory runs out: the kernel ends the point, or all of its job."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.runner import attempt
from jobs.sweeps.ledger import Ledger
from tests.builders.ledger import FakeSweep
from tests.builders.programs import install_scheduler
from tests.builders.records import point_config
from tests.faults.matrix import Check, Part, Place, fault
from tests.faults.reports import LocalUser, report_of
from tests.faults.test_point import point_of
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, SlurmUser, install_stand_in
from tests.slurm_cluster.slurm import SlurmCluster

row = partial(fault, Part.point, reported="ERROR", cause=Cause.out_of_memory_host)
ENFORCED = "where the cluster enforces memory"


@pytest.fixture(scope="module")
def sweep(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SlurmUser, Ledger]:
    """A job for each point: one exceeds its memory, one takes its job with it, one passes."""
    if slurm_cluster.cgroup == "none":
        pytest.skip(f"memory is not enforced here: {slurm_cluster.cgroup_reason}")
    user = SlurmUser(slurm_cluster, tmp_path_factory.mktemp("memory"))
    acts = (node.EATS_MEMORY, node.EATS_MEMORY_OF_ALL, node.PASS)
    words = (f"shape.seed={','.join(map(str, acts))}", "launch.retries=1", "wait=true")
    _, ledger = user.sweep(*words)
    assert user.outcomes(ledger)[point_of(ledger, node.PASS)] == ["PASSED"]
    return user, ledger


@pytest.mark.slurm
@row("the kernel kills the point at its job's memory limit", retried=False, note=ENFORCED)
def test_a_point_that_exceeds_its_memory(sweep: tuple[SlurmUser, Ledger], check: Check) -> None:
    user, ledger = sweep
    check(report_of(user, ledger, point_of(ledger, node.EATS_MEMORY), retries=True))


@pytest.mark.slurm
@row(
    "the kernel kills the job's whole step at its memory limit",
    names="Out Of Memory",
    retried=False,
    note=ENFORCED,
)
def test_a_job_that_ends_with_its_point(sweep: tuple[SlurmUser, Ledger], check: Check) -> None:
    user, ledger = sweep
    point_id = point_of(ledger, node.EATS_MEMORY_OF_ALL)
    assert user.outcomes(ledger)[point_id] == []
    check(report_of(user, ledger, point_id, retries=True))


@row("the kernel's count of killed processes rises while the point runs", place=Place.constructed)
def test_a_count_that_rises(
    launcher: Launcher, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter((2, 3))
    monkeypatch.setattr(attempt, "oom_kills", lambda: next(counts))
    python = f"cluster.python={install_stand_in(launcher.home)}"
    launcher("run", *FAST, f"shape.seed={node.KILLED}", python)
    check(LocalUser(launcher).report())


SACCT = """\
14|14|FAILED|1:0|7|n1|None|{name}
14.batch|14.batch|FAILED|1:0|7|n1||batch
14.0|14.0|OUT_OF_MEMORY|0:125|7|n1||python
"""


@row(
    "sacct's row of the step says OUT_OF_MEMORY",
    names="14.0|OUT_OF_MEMORY",
    place=Place.constructed,
)
def test_a_step_that_ran_out(
    launcher: Launcher, check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sweep = FakeSweep.plan(launcher.runs_dir, [point_config()])
    sweep.submit("14", list(sweep.points))
    rows = SACCT.format(name=f"{sweep.ledger.sweep_id}.0")
    install_scheduler(
        tmp_path, monkeypatch, sbatch="exit 0", squeue="exit 0", sacct=f"cat <<'END'\n{rows}END"
    )
    check(LocalUser(launcher).report())
