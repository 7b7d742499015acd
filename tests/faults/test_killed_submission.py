"""The login process is killed: `resume` completes what it left, and nothing runs twice.

The moment is recognised by the files of the sweep's folder, and by an sbatch that is slow before
or after the controller has accepted the job. The cluster has no accounting and arrays of at most
two, so that twelve points need three submissions.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import PLANNED_JOB, Ledger, sweeps
from tests.faults.matrix import Check, Part, Report, fault
from tests.faults.reports import report_of
from tests.launcher import Launcher
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.fixtures import enter
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

row = partial(fault, Part.around, slow=True)

SLOW_SBATCH = """
echo before >> {marks}; sleep {before}
out=$($REAL "$@"); code=$?
echo after >> {marks}; sleep {after}
echo "$out"; exit $code
"""


@pytest.fixture(scope="module")
def small_cluster() -> Iterator[SlurmCluster]:
    if reason := missing_requirement("none"):
        pytest.skip(reason)
    with SlurmCluster(accounting="none", max_array_size=2) as cluster:
        yield cluster


@pytest.fixture
def user(
    small_cluster: SlurmCluster,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> SlurmUser:
    """A user of the small cluster, whose sweeps this process's `launcher` resumes."""
    enter(small_cluster, monkeypatch)
    return SlurmUser(small_cluster, tmp_path)


def holds(pattern: str, count: int = 1) -> Callable[[SlurmUser], bool]:
    """Return a condition: so many files of a sweep match a pattern."""
    return lambda user: sum(1 for _ in user.runs.glob(f"s-*/{pattern}")) >= count


def lines(name: str, count: int) -> Callable[[SlurmUser], bool]:
    """Return a condition: a file of the ledger, or the marks of sbatch, has so many lines."""

    def ready(user: SlurmUser) -> bool:
        for path in [*user.runs.glob(f"s-*/{name}"), user.folder / name]:
            with contextlib.suppress(OSError):
                if path.read_bytes().count(b"\n") >= count:
                    return True
        return False

    return ready


MOMENTS: dict[str, tuple[Callable[[SlurmUser], bool], float, float]] = {
    "the sweep's folder is created": (holds("."), 0.0, 0.0),
    "half of the points are written": (holds("points/*.json", 6), 0.0, 0.0),
    "the plan is written": (holds("sweep.json"), 0.3, 0.0),
    "the first submission is prepared": (holds("submissions/0/submission.json"), 0.3, 0.0),
    "the first sbatch has not reached the controller": (lines("marks", 1), 6.0, 0.0),
    "the first sbatch has reached the controller, but not returned": (lines("marks", 2), 0.0, 1.0),
    "the first job id is recorded": (lines("jobs.jsonl", 1), 0.3, 0.0),
    "the second sbatch has not reached the controller": (lines("marks", 3), 0.5, 0.0),
    "the last sbatch has reached the controller, but not returned": (lines("marks", 6), 0.0, 0.5),
    "everything is recorded": (lines("jobs.jsonl", 3), 0.0, 0.0),
}


after_resume = partial(row, reported="PASSED", note="after `resume`")


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, marks=after_resume(f"sweep is killed when {moment}"))
        for moment in MOMENTS
    ],
)
def test_killed_when(moment: str, user: SlurmUser, launcher: Launcher, check: Check) -> None:
    ready, before, after = MOMENTS[moment]
    marks = user.folder / "marks"
    user.wrap("sbatch", SLOW_SBATCH.format(marks=marks, before=before, after=after))
    words: tuple[str, ...] = (*user.site, "launch.points_per_job=2")
    seeds = "shape.seed=" + ",".join(str(100 * i) for i in range(12))
    if after:
        # Its jobs stay pending: they have no log yet and are known by their names alone.
        words = (*words, "+cluster.sbatch.begin=now+8")
    with user.running("sweep", *words, seeds) as process:
        deadline = time.monotonic() + 30
        while not ready(user):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, moment
            time.sleep(0.0005)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    if not sweeps(user.runs):
        # No whole plan: nothing was submitted, and the user types the sweep again.
        assert not marks.exists()
        assert user.run("sweep", *words, seeds).returncode == 0
    ledger = user.ledger()
    _resume(launcher)
    user.cluster.wait(lambda: _has_ended(marks), "the sbatch that outlived its caller")
    user.wait(ledger)
    _assert_no_job_twice(user.cluster, ledger, 12)
    check(_report(user, ledger, launcher))


def _report(user: SlurmUser, ledger: Ledger, launcher: Launcher) -> Report:
    """Report the outcome of every point, after one more `resume`, which has nothing to do."""
    outcomes = user.outcomes(ledger)
    once = [name for name, outcome in outcomes.items() if outcome == ["PASSED"]]
    jobs = len(ledger.jobs())
    again = launcher("resume", ledger.sweep_id)
    assert len(ledger.jobs()) == jobs
    state = "PASSED" if len(once) == len(outcomes) else str(outcomes)
    return Report(state, again.out + again.err, code=again.code, lost=len(outcomes) - len(once))


def _has_ended(marks: Path) -> bool:
    """Return True if every sbatch that started has ended."""
    words = marks.read_text().split() if marks.exists() else []
    return words.count("before") == words.count("after")


def _resume(launcher: Launcher) -> None:
    """Resume; retry while an sbatch that outlived its caller still locks the sweep."""
    deadline = time.monotonic() + 20
    while (done := launcher("resume")).code == 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert done.code == 0, done


def _assert_no_job_twice(cluster: SlurmCluster, ledger: Ledger, points: int) -> None:
    listed = cluster.run("squeue", "-h", "-t", "all", "-r", "-o", "%F %j").splitlines()
    rows = [line.split() for line in listed]
    own = {number for number, name in rows if name.startswith(ledger.sweep_id)}
    assert own == {line.job_id for line in ledger.jobs()}
    recorded = [ids for line in ledger.jobs() for task in line.tasks.values() for ids in task]
    # A point may be submitted again after its first job has ended, but never twice at once.
    assert len(recorded) == points
    assert max(recorded.count(name) for name in recorded) == points // len(ledger.plan())
    left = [name for name in os.listdir(ledger.root) if name.startswith(".")]
    assert set(left) <= {".submitting", ".last_seen.json"}


def test_resume_writes_the_records_of_unsupported_points_that_a_killed_process_did_not(
    slurm_user: SlurmUser,
) -> None:
    _, ledger = slurm_user.sweep("shape.seed=100", "recipe=mxfp8,fp8_current")
    shutil.rmtree(ledger.root / PLANNED_JOB)
    done = slurm_user.run("resume", ledger.sweep_id)
    assert done.returncode == 0, done.stdout + done.stderr
    slurm_user.wait(ledger)
    assert sorted(map(str, slurm_user.outcomes(ledger).values())) == [
        "['PASSED']",
        "['UNSUPPORTED']",
    ]


# ---- resume ----


def _cancelled_sweep(user: SlurmUser) -> Ledger:
    """Submit four points and cancel them before they run; resumed, they are held again."""
    seeds = "shape.seed=" + ",".join(str(100 * i) for i in range(4))
    _, ledger = user.sweep(seeds, "launch.points_per_job=2", "+cluster.sbatch.hold=''")
    user.cluster.run("scancel", *(line.job_id for line in ledger.jobs()))
    user.wait(ledger)
    return ledger


def _release(user: SlurmUser, ledger: Ledger, known: set[str]) -> None:
    """Release the jobs that were submitted since and wait for them."""
    new = [line.job_id for line in ledger.jobs() if line.job_id not in known]
    for job_id in new:
        user.cluster.run("scontrol", "release", job_id)
    user.cluster.wait_jobs(*new)


@after_resume("resume is killed before sbatch has answered")
def test_resume_is_killed(user: SlurmUser, launcher: Launcher, check: Check) -> None:
    ledger = _cancelled_sweep(user)
    known = {line.job_id for line in ledger.jobs()}
    marks = user.folder / "marks"
    user.wrap("sbatch", SLOW_SBATCH.format(marks=marks, before=0.0, after=1.0))
    with user.running("resume") as process:
        user.cluster.wait(lambda: lines("marks", 2)(user), "an sbatch that has not answered")
        process.kill()
    assert {line.job_id for line in ledger.jobs()} == known
    _resume(launcher)
    user.cluster.wait(lambda: _has_ended(marks), "the sbatch that outlived its caller")
    _release(user, ledger, known)
    _assert_no_job_twice(user.cluster, ledger, 4 + 4)
    check(_report(user, ledger, launcher))


@after_resume("two resumes at once")
def test_two_resumes(user: SlurmUser, launcher: Launcher, check: Check) -> None:
    ledger = _cancelled_sweep(user)
    known = {line.job_id for line in ledger.jobs()}
    with user.running("resume") as one, user.running("resume") as other:
        output = [process.communicate(timeout=40)[0] for process in (one, other)]
        codes = sorted((one.returncode, other.returncode))
    # The second one was refused, or came so late that nothing was left to do.
    assert codes in ([0, 0], [0, 2]), output
    _release(user, ledger, known)
    _assert_no_job_twice(user.cluster, ledger, 4 + 4)
    check(_report(user, ledger, launcher))


# ---- a cluster without accounting ----


@row(
    "sacct is disabled: the cluster keeps no accounting",
    "ERROR",
    Cause.cancelled,
    names="accounting",
)
def test_no_accounting(user: SlurmUser, check: Check) -> None:
    ledger = _cancelled_sweep(user)
    check(report_of(user, ledger, ledger.plan()[0].point_id))
