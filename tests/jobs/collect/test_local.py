"""What others see of a run on this machine: while it runs, once it was killed, and elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs.collect.gather import read_points
from jobs.process import current_process
from jobs.record import Cause, Process, State
from jobs.schedulers.slurm.query import JobStates
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from jobs.sweeps.ledger import JobLine
from tests.builders.ledger import FakeSweep
from tests.builders.records import asked, record

HERE = current_process()
MOMENT = "2025-11-03T07:59:30.000+00:00"
KILLED = HERE.model_copy(update={"start_ticks": 1})
ELSEWHERE = HERE.model_copy(update={"host": "elsewhere", "pid": 77})


def states(
    folder: Path, runner: Process | None, *, with_started: bool
) -> list[tuple[State, Cause | None, str]]:
    """State, cause and reason of three points: one that has ended, one that has begun, one not."""
    configs = [asked(shape__seq_len=length) for length in (128, 256, 384)]
    sweep = FakeSweep.plan(folder, configs)
    ids = list(sweep.points)
    line = JobLine(
        job_id="local-1", tasks={"0": ids}, scheduler="local", submitted_at=MOMENT, runner=runner
    )
    sweep.ledger.add_job(line)
    sweep.attempt("local-1", ids[0], record(ids[0], configs[0], job_id="local-1"))
    begun = sweep.attempt("local-1", ids[1], pid=runner.pid if runner else 1, host="elsewhere")
    if not with_started:
        (begun / "started.json").unlink()
    collection = read_points([sweep.ledger.sweep_id], folder)
    assert sum(collection.totals.values()) == 2 * len(ids)
    return [(point.state, point.cause, point.reason) for point in collection.points]


@pytest.mark.parametrize("with_started", [False, True])
def test_a_run_that_goes_on_is_shown_so(tmp_path: Path, with_started: bool) -> None:
    ended, begun, waiting = states(tmp_path, HERE, with_started=with_started)
    assert ended[0] == "PASSED"
    assert begun == ("RUNNING", None, "")
    assert waiting == ("PENDING", None, "")


def test_a_point_whose_run_was_killed_before_it_wrote_anything_is_lost(tmp_path: Path) -> None:
    ended, begun, waiting = states(tmp_path, KILLED, with_started=False)
    assert ended[0] == "PASSED"
    assert begun[:2] == (State.ERROR, Cause.lost)
    assert waiting[:2] == (State.PLANNED, None)
    assert "python launch.py resume s-" in waiting[2]


@pytest.mark.parametrize("with_started", [False, True])
def test_a_run_on_another_host_is_shown_with_its_start_host_and_process(
    tmp_path: Path, with_started: bool
) -> None:
    _, begun, waiting = states(tmp_path, ELSEWHERE, with_started=with_started)
    assert (begun[0], waiting[0]) == (State.RUNNING, State.PENDING)
    start = "2025-11-03T08:00:00.000+00:00" if with_started else MOMENT
    for word in (start, "elsewhere", "77"):
        assert word in begun[2]
    assert MOMENT in waiting[2]


def test_a_schedulers_point_whose_process_has_just_ended_is_not_lost_yet(tmp_path: Path) -> None:
    sweep = FakeSweep.plan(tmp_path, [asked(shape__seq_len=128)])
    (point_id,) = sweep.points
    line = JobLine(job_id="14", tasks={"0": [point_id]}, scheduler="slurm", submitted_at=MOMENT)
    sweep.ledger.add_job(line)
    # SLURM does not know the job yet, or does not answer; the record follows within a second.
    ended = subprocess.Popen(["true"])
    ended.wait()
    sweep.attempt("14", point_id, pid=ended.pid, host=HERE.host)
    (shown,) = read_points([sweep.ledger.sweep_id], tmp_path).points
    assert (shown.state, shown.cause) == (State.RUNNING, None)


def test_a_job_that_ends_while_the_scheduler_is_asked_has_left_its_record(tmp_path: Path) -> None:
    config = asked(shape__seq_len=128)
    sweep = FakeSweep.plan(tmp_path, [config])
    (point_id,) = sweep.points
    line = JobLine(job_id="14", tasks={"0": [point_id]}, scheduler="slurm", submitted_at=MOMENT)
    sweep.ledger.add_job(line)

    def answer(names: Sequence[str]) -> JobStates:
        assert list(names) == ["14"]
        sweep.attempt("14", point_id, record(point_id, config, job_id="14"))
        return JobStates({})  # squeue lists it no more, and sacct does not know it yet

    (shown,) = read_points([sweep.ledger.sweep_id], tmp_path, [SlurmScheduler(answer)]).points
    assert shown.state == "PASSED"
