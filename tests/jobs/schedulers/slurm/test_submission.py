"""What is sent is written down, whatever sbatch answers and whoever presses Ctrl-C meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conf.site import Cluster, Launch
from jobs.errors import (
    LedgerError,
    PartlySubmitted,
    SchedulerUnavailable,
    SweepLocked,
    WrongCluster,
)
from jobs.files import write_atomic
from jobs.schedulers.lock import submitting
from jobs.schedulers.scheduler import Accepted, Refused, Reply, Unknown
from jobs.schedulers.slurm import recovery
from jobs.schedulers.slurm import submission as submit
from jobs.schedulers.slurm.batches import Batch
from jobs.schedulers.slurm.recovery import recover
from jobs.schedulers.slurm.request import interruption_notice
from jobs.schedulers.slurm.resources import Resources
from jobs.schedulers.slurm.script import Submission
from jobs.schedulers.slurm.submission import next_number, send_all, unrecorded_folders
from jobs.sweeps.ledger import Ledger
from tests.builders.ledger import sweep_info
from tests.builders.programs import write_program

BATCH = Batch(Resources(), Cluster(name="lab"), Launch(name="d"), (("p-1",), ("p-2",)), 10, 1.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "runs")


@dataclass(frozen=True)
class Sbatch:
    """A program of ours on the PATH, which may write to `$NOTES`."""

    folder: Path

    def does(self, script: str) -> None:
        write_program(self.folder / "sbatch", f"NOTES={self.folder}/notes; {script}", "/bin/bash")

    def notes(self) -> str:
        return (self.folder / "notes").read_text()


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sbatch:
    """An sbatch that prints the id of a job."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SBATCH_PARTITION", "leaked")
    sbatch = Sbatch(folder)
    sbatch.does("echo 41")
    return sbatch


def send(ledger: Ledger, count: int = 1, *, waits: bool = False) -> Iterator[Reply]:
    numbers = [next_number(ledger) for _ in range(count)]
    submissions = [
        Submission(ledger.root, number, Resources(), 10, BATCH.slots, waits=waits and number > 0)
        for number in numbers
    ]
    with submitting(ledger) as lock:
        yield from send_all(ledger, [(one, BATCH) for one in submissions], lock, "lab")


def test_an_accepted_submission_is_in_the_ledger(ledger: Ledger, sbatch: Sbatch) -> None:
    sbatch.does('env > $NOTES; echo "41;cluster"')
    (done,) = send(ledger)
    assert done == Accepted(2, "41", "array 41_[0-1]")
    (line,) = ledger.jobs()
    assert (line.job_id, line.submission, line.name) == ("41", 0, f"{ledger.sweep_id}.0")
    assert line.tasks == {"0": ["p-1"], "1": ["p-2"]}
    script = ledger.root / "submissions" / "0" / "submission.sh"
    assert (ledger.job_folder("41") / "41_submission.sh").read_text() == script.read_text()
    assert unrecorded_folders(ledger) == []
    assert "SBATCH_PARTITION" not in sbatch.notes()


def test_everything_lies_there_before_sbatch_is_called(ledger: Ledger, sbatch: Sbatch) -> None:
    sbatch.does('ls "$(dirname "${@: -1}")" > $NOTES; echo 41')
    list(send(ledger))
    seen = set(sbatch.notes().split())
    assert seen == {"entry.pkl", "entry.zip", "submission.json", "submission.sh"}
    asked = json.loads((ledger.root / "submissions" / "0" / "submission.json").read_text())
    assert asked["slurm_cluster"] == "lab"


def test_a_refused_submission_leaves_nothing(ledger: Ledger, sbatch: Sbatch) -> None:
    sbatch.does('echo "sbatch: error: Invalid qos" >&2; exit 1')
    (done,) = send(ledger)
    assert isinstance(done, Refused)
    assert (done.error.detail, done.error.settings) == ("Invalid qos", ("cluster.qos",))
    assert os.listdir(ledger.root / "submissions") == []
    assert ledger.jobs() == []


@pytest.mark.parametrize(
    "does",
    [
        "exec sleep 60",
        "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1",
        "kill -9 $$",
        "echo Submitted something",
    ],
)
def test_a_submission_in_doubt_is_kept_for_resume(
    ledger: Ledger, sbatch: Sbatch, does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "SBATCH_LIMIT_S", 0.5)
    sbatch.does(does)
    (done,) = send(ledger)
    assert isinstance(done, Unknown)
    assert [path.name for path in unrecorded_folders(ledger)] == ["0"]


def test_ctrl_c_waits_until_sbatch_s_answer_is_written(ledger: Ledger, sbatch: Sbatch) -> None:
    sbatch.does("kill -INT $PPID; sleep 0.2; echo 41")
    with pytest.raises(KeyboardInterrupt):
        list(send(ledger, 2))
    assert [line.job_id for line in ledger.jobs()] == ["41"]


def test_ctrl_c_between_two_submissions_names_what_goes_on(
    ledger: Ledger, sbatch: Sbatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sbatch.does("kill -INT $PPID; sleep 0.2; echo 41")
    ids = f"{ledger.sweep_id} runs_dir=r"
    with pytest.raises(KeyboardInterrupt), interruption_notice(ledger, ids, new=True):
        list(send(ledger, 2))
    printed = capsys.readouterr().out
    assert all(f"python launch.py {verb} {ids}" in printed for verb in ("resume", "cancel"))
    assert ledger.root.is_dir()


def test_early_ctrl_c_leaves_nothing(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    next_number(ledger)  # taken, and nothing prepared in it
    with pytest.raises(KeyboardInterrupt), interruption_notice(ledger, ledger.sweep_id, new=True):
        raise KeyboardInterrupt
    assert "nothing was submitted" in capsys.readouterr().out
    assert not ledger.root.exists()


def test_resume_survives_ctrl_c(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interruption_notice(ledger, ledger.sweep_id, new=False):
        raise KeyboardInterrupt
    assert "nothing submitted" in capsys.readouterr().out
    assert ledger.root.is_dir()


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left", "f"), LedgerError(Path("f"), "x"), ZeroDivisionError()],
    ids=str,
)
def test_an_error_before_a_submission_leaves_nothing_new(ledger: Ledger, error: Exception) -> None:
    with pytest.raises(type(error)), interruption_notice(ledger, ledger.sweep_id, new=False):
        raise error
    assert ledger.root.is_dir()
    with pytest.raises(type(error)), interruption_notice(ledger, ledger.sweep_id, new=True):
        raise error
    assert not ledger.root.exists()


def test_an_error_after_a_submission_leaves_what_resume_understands(
    ledger: Ledger, sbatch: Sbatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        if path == ledger.root / "submissions" / "1" / "submission.json":
            raise OSError(28, "No space left", str(path))
        write_atomic(path, text)

    monkeypatch.setattr(submit, "write_atomic", full)
    ids = f"{ledger.sweep_id} runs_dir=r"
    with pytest.raises(PartlySubmitted) as caught, interruption_notice(ledger, ids, new=True):
        list(send(ledger, 2))
    assert "submissions/1/submission.json: No space left" in caught.value.error
    assert (caught.value.resume, caught.value.exit_code) == (f"python launch.py resume {ids}", 1)
    assert [line.job_id for line in ledger.jobs()] == ["41"]
    ledger.sweep_json.write_text(sweep_info(ledger, 2).model_dump_json())
    assert recover(ledger, "lab") == []
    assert [path.name for path in (ledger.root / "submissions").iterdir()] == ["0"]


def test_ctrl_c_keeps_a_submission_in_doubt(
    ledger: Ledger, sbatch: Sbatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sbatch.does("kill -INT $PPID; sleep 0.2; kill -9 $$")
    with pytest.raises(KeyboardInterrupt), interruption_notice(ledger, ledger.sweep_id, new=True):
        list(send(ledger))
    assert f"launch.py resume {ledger.sweep_id}" in capsys.readouterr().out
    assert [path.name for path in unrecorded_folders(ledger)] == ["0"]


def test_a_throttled_array_waits_for_the_one_before_it(ledger: Ledger, sbatch: Sbatch) -> None:
    sbatch.does('echo "$*" >> $NOTES; wc -l < $NOTES')
    list(send(ledger, 3, waits=True))
    words = sbatch.notes().splitlines()
    waits = [[word for word in line.split() if "dependency" in word] for line in words]
    assert waits == [[], ["--dependency=afterany:1"], ["--dependency=afterany:2"]]


def test_one_process_at_a_time_submits(ledger: Ledger) -> None:
    with submitting(ledger), pytest.raises(SweepLocked), submitting(ledger):
        raise AssertionError


def test_numbers_are_never_shared(ledger: Ledger) -> None:
    assert [next_number(ledger) for _ in range(3)] == [0, 1, 2]
    os.rmdir(ledger.root / "submissions" / "1")
    assert next_number(ledger) == 3


def test_a_sweep_is_not_resumed_on_another_cluster(ledger: Ledger, sbatch: Sbatch) -> None:
    list(send(ledger))
    with pytest.raises(WrongCluster) as caught:
        recover(ledger, "other")
    assert (caught.value.submitted_to, caught.value.here) == ("lab", "other")
    assert recover(ledger, "lab") == []


def test_a_job_is_found_by_its_log_and_an_empty_submission_goes(
    ledger: Ledger, sbatch: Sbatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "SBATCH_LIMIT_S", 0.5)
    sbatch.does("exec sleep 60")
    list(send(ledger))
    (ledger.root / "submissions" / "0" / "77_1_batch.out").touch()
    next_number(ledger)
    assert recover(ledger, "lab") == ["77"]
    assert [line.job_id for line in ledger.jobs()] == ["77"]
    assert os.listdir(ledger.root / "submissions") == ["0"]


def test_nothing_is_decided_while_the_cluster_does_not_answer(
    ledger: Ledger, sbatch: Sbatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch.does("kill -9 $$")
    list(send(ledger))
    ledger.sweep_json.write_text(sweep_info(ledger, 2).model_dump_json())
    monkeypatch.setattr(recovery, "query_queue", lambda *_: ([], "squeue: no controller"))
    with pytest.raises(SchedulerUnavailable):
        recover(ledger, "lab")
    assert [path.name for path in unrecorded_folders(ledger)] == ["0"]
