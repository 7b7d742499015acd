"""Memory of the host that runs out: the kernel ends the point, or all of its job."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.runner import attempt
from jobs.sweeps.ledger import JobLine, Ledger, PlannedPoint, SweepInfo, now
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, Place, fault
from tests.faults.telling import Here, told_of
from tests.faults.test_in_the_point import point_of
from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, SlurmUser, install_stand_in
from tests.slurm_cluster.slurm import SlurmCluster

ENFORCED = "where the cluster enforces memory"


@pytest.fixture(scope="module")
def sweep(
    slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SlurmUser, Ledger]:
    """A job for each point: one that eats its memory, one that takes its job with it."""
    if slurm_cluster.cgroup == "none":
        pytest.skip(f"memory is not enforced here: {slurm_cluster.cgroup_reason}")
    user = SlurmUser(slurm_cluster, tmp_path_factory.mktemp("memory"))
    acts = (node.EATS_MEMORY, node.EATS_MEMORY_OF_ALL, node.PASS)
    words = (f"shape.seed={','.join(map(str, acts))}", "launch.retries=1", "wait=true")
    _, ledger = user.sweep(*words)
    assert user.outcomes(ledger)[point_of(ledger, node.PASS)] == ["PASSED"]
    return user, ledger


@pytest.mark.slurm
@fault(
    Part.point,
    "the kernel kills the point at its job's memory limit",
    told="ERROR",
    cause=Cause.out_of_memory_host,
    quotes="the kernel killed it at the job's memory limit",
    retried=False,
    code=1,
    note=ENFORCED,
)
def test_a_point_that_eats_its_memory(sweep: tuple[SlurmUser, Ledger], tell: Tell) -> None:
    user, ledger = sweep
    tell(told_of(user, ledger, point_of(ledger, node.EATS_MEMORY), retries=True))


@pytest.mark.slurm
@fault(
    Part.point,
    "the kernel kills all of the job's step at its memory limit",
    told="ERROR",
    cause=Cause.out_of_memory_host,
    quotes="its step ran out of memory; no record was left",
    retried=False,
    code=1,
    note=ENFORCED,
)
def test_a_job_that_goes_with_its_point(sweep: tuple[SlurmUser, Ledger], tell: Tell) -> None:
    user, ledger = sweep
    point_id = point_of(ledger, node.EATS_MEMORY_OF_ALL)
    assert user.outcomes(ledger)[point_id] == []
    tell(told_of(user, ledger, point_id, retries=True))


@fault(
    Part.point,
    "the kernel's count of killed processes rises while the point runs",
    told="ERROR",
    cause=Cause.out_of_memory_host,
    quotes="the kernel killed it at the job's memory limit",
    code=1,
    place=Place.constructed,
)
def test_a_count_that_rises(
    launcher: Launcher, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter((2, 3))
    monkeypatch.setattr(attempt, "oom_kills", lambda: next(counts))
    python = f"cluster.python={install_stand_in(launcher.home)}"
    launcher("run", *FAST, f"shape.seed={node.KILLED}", python)
    ledger = launcher.ledger()
    (point,) = ledger.plan()
    tell(told_of(Here(launcher), ledger, point.point_id))


SACCT = """\
14|14|FAILED|1:0|7|n1|None|{name}
14.batch|14.batch|FAILED|1:0|7|n1||batch
14.0|14.0|OUT_OF_MEMORY|0:125|7|n1||python
"""


@fault(
    Part.point,
    "sacct's row of the step says OUT_OF_MEMORY",
    told="ERROR",
    cause=Cause.out_of_memory_host,
    quotes="14.0|14.0|OUT_OF_MEMORY",
    code=1,
    place=Place.constructed,
)
def test_a_step_that_ran_out(
    launcher: Launcher, tell: Tell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger = Ledger.create(launcher.runs_dir)
    info = SweepInfo(
        sweep_id=ledger.sweep_id, verb="sweep", command="c", cluster="lab", scheduler="slurm",
        host="h", user="u", created_at=now(), points=1,
    )  # fmt: skip
    ledger.write_plan(info, [PlannedPoint(point_id="p-1", index=0, config={})])
    name = f"{ledger.sweep_id}.0"
    tasks = {"0": ["p-1"]}
    ledger.add_job(
        JobLine(job_id="14", tasks=tasks, scheduler="slurm", submitted_at=now(), name=name)
    )
    (tmp_path / "bin").mkdir()
    for command, answer in (("sbatch", ""), ("squeue", ""), ("sacct", SACCT.format(name=name))):
        program = tmp_path / "bin" / command
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}END\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    tell(told_of(Here(launcher), ledger, "p-1"))
