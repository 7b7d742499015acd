"""The login process is killed: `resume` completes what it left, and nothing runs twice.

The moments are told from what lies in the sweep's folder, and from an sbatch that is slow before
or after the controller has taken the job. The cluster has no accounting and arrays of at most
five, so that twelve points take three submissions.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.record import Cause
from jobs.sweeps.ledger import PLANNED_JOB, Ledger, sweeps
from tests.faults.fixtures import Tell
from tests.faults.matrix import Part, Told, fault
from tests.faults.telling import told_of
from tests.launcher import Launcher, Result
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.fixtures import enter
from tests.slurm_cluster.launching import FAST, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

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


def holds(pattern: str, count: int = 1) -> Callable[[SlurmUser], bool]:
    """There are so many files of a sweep that match."""
    return lambda user: sum(1 for _ in user.runs.glob(f"s-*/{pattern}")) >= count


def lines(name: str, count: int) -> Callable[[SlurmUser], bool]:
    """A file has so many lines: of the ledger, or of the marks that sbatch makes."""

    def ready(user: SlurmUser) -> bool:
        for path in [*user.runs.glob(f"s-*/{name}"), user.folder / name]:
            with contextlib.suppress(OSError):
                if path.read_bytes().count(b"\n") >= count:
                    return True
        return False

    return ready


MOMENTS: dict[str, tuple[Callable[[SlurmUser], bool], float, float]] = {
    "the sweep's folder is made": (holds("."), 0.0, 0.0),
    "half of the points are written": (holds("points/*.json", 6), 0.0, 0.0),
    "the plan is written": (holds("sweep.json"), 0.3, 0.0),
    "the first submission is prepared": (holds("submissions/0/submission.json"), 0.3, 0.0),
    "the first sbatch has not reached the controller": (lines("marks", 1), 6.0, 0.0),
    "the first sbatch has, and its answer has not come": (lines("marks", 2), 0.0, 1.0),
    "the first id is written down": (lines("jobs.jsonl", 1), 0.3, 0.0),
    "the second sbatch has not reached the controller": (lines("marks", 3), 0.5, 0.0),
    "the last sbatch has, and its answer has not come": (lines("marks", 6), 0.0, 0.5),
    "everything is written down": (lines("jobs.jsonl", 3), 0.0, 0.0),
}


def _row(what: str) -> pytest.MarkDecorator:
    return fault(
        Part.around, what, told="PASSED", quotes="Nothing to submit", code=0, slow=True,
        note="after `resume`",
    )  # fmt: skip


@pytest.mark.parametrize(
    "moment",
    [pytest.param(moment, marks=_row(f"sweep is killed when {moment}")) for moment in MOMENTS],
)
def test_killed_when(
    moment: str,
    small_cluster: SlurmCluster,
    launcher: Launcher,
    tell: Tell,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ready, before, after = MOMENTS[moment]
    user = SlurmUser(small_cluster, tmp_path)
    marks = tmp_path / "marks"
    user.wrap("sbatch", SLOW_SBATCH.format(marks=marks, before=before, after=after))
    words: tuple[str, ...] = (
        "cluster=slurm",
        f"cluster.python={user.node}",
        *FAST,
        "launch.points_per_job=2",
    )
    seeds = "shape.seed=" + ",".join(str(100 * i) for i in range(12))
    if after:
        # Its jobs wait: they have left no log yet, and only their names tell of them.
        words = (*words, "+cluster.sbatch.begin=now+8")
    with user.running("sweep", *words, seeds) as process:
        deadline = time.monotonic() + 30
        while not ready(user):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, moment
            time.sleep(0.0005)
        process.kill()
        assert "Submitted" not in process.communicate()[0]
    if not sweeps(user.runs):
        # No whole plan: nothing was submitted, and the user types the sweep again.
        assert not marks.exists()
        assert user.run("sweep", *words, seeds).returncode == 0
    ledger = user.ledger()
    enter(small_cluster, monkeypatch)
    done = _resume(launcher)
    assert done.code == 0, done
    small_cluster.wait(lambda: _has_ended(marks), "the sbatch that outlived its caller")
    user.wait(ledger)
    _assert_no_job_twice(small_cluster, ledger, 12)
    tell(_told(user, ledger, launcher))


def _told(user: SlurmUser, ledger: Ledger, launcher: Launcher) -> Told:
    """What became of every point, and what one more `resume` says."""
    outcomes = user.outcomes(ledger)
    once = [name for name, found in outcomes.items() if found == ["PASSED"]]
    again = launcher("resume", ledger.sweep_id)
    told = "PASSED" if len(once) == len(outcomes) else str(outcomes)
    return Told(told, again.out + again.err, code=again.code, lost=len(outcomes) - len(once))


def _has_ended(marks: Path) -> bool:
    """Whether every sbatch that began has ended."""
    words = marks.read_text().split() if marks.exists() else []
    return words.count("before") == words.count("after")


def _resume(launcher: Launcher) -> Result:
    """Waits, as a user would, for an sbatch that outlived the process that called it."""
    deadline = time.monotonic() + 20
    while True:
        done = launcher("resume")
        if "another process is submitting" not in done.err or time.monotonic() > deadline:
            return done
        time.sleep(0.1)


def _assert_no_job_twice(cluster: SlurmCluster, ledger: Ledger, points: int) -> None:
    listed = cluster.run("squeue", "-h", "-t", "all", "-r", "-o", "%F %j").splitlines()
    mine = {row.split()[0] for row in listed if row.split()[1].startswith(ledger.sweep_id)}
    assert mine == {line.job_id for line in ledger.jobs()}
    noted = [ids for line in ledger.jobs() for task in line.tasks.values() for ids in task]
    # A point may be submitted again after its first job has ended, but never twice at once.
    assert len(noted) == points
    assert max(noted.count(name) for name in noted) == points // len(ledger.plan())
    left = [name for name in os.listdir(ledger.root) if name.startswith(".")]
    assert set(left) <= {".submitting", ".last_seen.json"}


def test_points_known_to_be_unsupported_get_the_record_that_a_killed_process_owes(
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
    """A sweep of four points that were cancelled before they ran; resumed, they are held again."""
    seeds = "shape.seed=" + ",".join(str(100 * i) for i in range(4))
    _, ledger = user.sweep(seeds, "launch.points_per_job=2", "+cluster.sbatch.hold=''")
    user.cluster.run("scancel", *(line.job_id for line in ledger.jobs()))
    user.wait(ledger)
    return ledger


def _release(user: SlurmUser, ledger: Ledger, known: set[str]) -> None:
    """Lets what was submitted since run to its end."""
    fresh = [line.job_id for line in ledger.jobs() if line.job_id not in known]
    for job_id in fresh:
        user.cluster.run("scontrol", "release", job_id)
    user.cluster.wait_jobs(*fresh)


@_row("resume is killed before sbatch has answered")
def test_resume_is_killed(
    small_cluster: SlurmCluster,
    launcher: Launcher,
    tell: Tell,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    user = SlurmUser(small_cluster, tmp_path)
    ledger = _cancelled_sweep(user)
    known = {line.job_id for line in ledger.jobs()}
    marks = tmp_path / "marks"
    user.wrap("sbatch", SLOW_SBATCH.format(marks=marks, before=0.0, after=1.0))
    with user.running("resume") as process:
        small_cluster.wait(lambda: lines("marks", 2)(user), "an sbatch that has not answered")
        process.kill()
    assert {line.job_id for line in ledger.jobs()} == known
    enter(small_cluster, monkeypatch)
    assert _resume(launcher).code == 0
    small_cluster.wait(lambda: _has_ended(marks), "the sbatch that outlived its caller")
    _release(user, ledger, known)
    _assert_no_job_twice(small_cluster, ledger, 4 + 4)
    tell(_told(user, ledger, launcher))


@_row("two resumes at once")
def test_two_resumes(
    small_cluster: SlurmCluster,
    launcher: Launcher,
    tell: Tell,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    user = SlurmUser(small_cluster, tmp_path)
    ledger = _cancelled_sweep(user)
    known = {line.job_id for line in ledger.jobs()}
    with user.running("resume") as one, user.running("resume") as other:
        said = [process.communicate(timeout=40)[0] for process in (one, other)]
        codes = sorted((one.returncode, other.returncode))
    # Whoever came second was refused, or came so late that nothing was left to do.
    assert codes in ([0, 0], [0, 2]), said
    assert codes == [0, 0] or any("another process is submitting" in text for text in said), said
    enter(small_cluster, monkeypatch)
    _release(user, ledger, known)
    _assert_no_job_twice(small_cluster, ledger, 4 + 4)
    tell(_told(user, ledger, launcher))


# ---- a cluster without accounting ----


@fault(
    Part.around,
    "sacct is disabled: the cluster keeps no accounting",
    told="ERROR",
    cause=Cause.cancelled,
    quotes="this cluster keeps no accounting",
    code=1,
    slow=True,
)
def test_no_accounting(small_cluster: SlurmCluster, tell: Tell, tmp_path: Path) -> None:
    user = SlurmUser(small_cluster, tmp_path)
    ledger = _cancelled_sweep(user)
    tell(told_of(user, ledger, ledger.plan()[0].point_id))
