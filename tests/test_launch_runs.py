"""Points run on this machine, one after another; each leaves a record, none hides another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.record import Cause, Outcome, State
from jobs.sweeps.ledger import sweeps
from tests.launcher import Launcher
from tests.processes import gone

ROOT = Path(__file__).parents[1]
LAUNCH = ROOT / "launch.py"


def states(text: str) -> list[str]:
    """The states in the rows of a table of points, in their order."""
    rows = (line.split() for line in text.splitlines() if line.lstrip().startswith("p-"))
    return [next(word for word in row if word in State.__members__) for row in rows]


def test_a_run_shows_its_record_and_where_it_lies(launcher: Launcher) -> None:
    text = launcher.output(launcher.python())
    record = launcher.record()
    assert record.outcome is Outcome.PASSED
    assert record.command is not None
    assert record.command.startswith("python launch.py cluster.python=")
    ledger = launcher.ledger()
    assert "gpu=cpu shape=tiny recipe=mxfp8" in text.splitlines()[0]
    assert record.reason in text
    assert str(ledger.root) in text
    assert f"python launch.py collect {ledger.sweep_id}" in text
    assert list(launcher.cwd.iterdir()) == []


@pytest.mark.parametrize(
    ("ends", "words", "code"),
    [
        ({}, [], 0),
        ({256: "FAILED"}, [], 1),
        ({256: "kill"}, [], 1),
        ({256: "UNSUPPORTED"}, [], 3),
        ({256: "UNSUPPORTED"}, ["allow_unsupported=true"], 0),
        ({128: "UNSUPPORTED", 256: "FAILED"}, ["allow_unsupported=true"], 1),
    ],
    ids=str,
)
def test_the_exit_code_tells_the_outcomes(
    launcher: Launcher, ends: dict[int, str], words: list[str], code: int
) -> None:
    python = launcher.python(ends)
    assert launcher("sweep", "shape.seq_len=128,256", python, *words).code == code


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("recipe=fp8_current", "fp8_current"),
        ("backend=te", "backend=te"),
        ("shape.seq_len=100", "shape.seq_len"),
    ],
)
def test_an_unsupported_point_is_not_started(launcher: Launcher, words: str, key: str) -> None:
    result = launcher(words, "cluster.python=/nope")
    assert (result.code, result.err) == (3, "")
    record = launcher.record()
    assert record.outcome is Outcome.UNSUPPORTED
    assert key in record.reason
    assert record.reason in result.out
    assert launcher.ledger().jobs() == []


def test_an_unsupported_point_can_be_allowed(launcher: Launcher) -> None:
    assert launcher("recipe=fp8_current", "allow_unsupported=true").code == 0


def test_no_failure_hides_another_point(launcher: Launcher) -> None:
    ends = {
        128: "kill",
        256: "exit",
        384: "damaged",
        512: "ModuleNotFoundError: No module named 'torch'",
        640: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB",
        768: "PASSED",
    }
    axis = ",".join(map(str, [*ends, 100]))
    result = launcher("sweep", f"shape.seq_len={axis}", launcher.python(ends))
    assert (result.code, result.err) == (1, "")
    folder = launcher.ledger().root
    found = {
        record["config"]["shape"]["seq_len"]: (record["outcome"], record.get("cause"))
        for path in folder.glob("*/*/attempt-1/record.json")
        if '"outcome"' in path.read_text()
        for record in [json.loads(path.read_text())]
    }
    assert found == {
        128: ("ERROR", "crashed"),
        256: ("ERROR", "exception"),
        512: ("ERROR", "import_error"),
        640: ("ERROR", "out_of_memory_gpu"),
        768: ("PASSED", None),
        100: ("UNSUPPORTED", None),
    }
    for number, length in enumerate([*ends, 100], 1):
        assert f"[{number}/7] shape.seq_len={length}\n" in result.out
    assert states(result.out) == ["ERROR"] * 5 + ["PASSED", "UNSUPPORTED"]


def test_a_killed_process_is_an_error_with_its_signal_and_last_output(launcher: Launcher) -> None:
    assert launcher(launcher.python({128: "kill"})).code == 1
    record = launcher.record()
    assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.crashed)
    assert "SIGKILL" in record.reason
    assert record.evidence[0].file == "output.log"
    assert record.evidence[0].lines == [f"this is the node of {record.identity.point_id}"]
    assert record.config["shape"]["name"] == "tiny"


def test_a_point_ends_at_its_time_limit(launcher: Launcher) -> None:
    assert launcher(launcher.python({128: "hang"}), "launch.point_time_limit_s=1").code == 1
    assert launcher.record().cause is Cause.timeout


def test_a_missing_interpreter_is_a_failed_launch(launcher: Launcher) -> None:
    assert launcher("cluster.python=/nope/python").code == 1
    record = launcher.record()
    assert record.cause is Cause.launch_failed
    assert "/nope/python" in record.reason


def test_a_process_left_by_a_point_ends_with_it(launcher: Launcher) -> None:
    assert launcher(launcher.python({128: "orphan"})).code == 0
    (file,) = launcher.runs_dir.glob("*/*/*/attempt-1/orphan")
    assert gone(int(file.read_text()))


def test_places_are_keys(launcher: Launcher) -> None:
    launcher.output(launcher.python(), "runs_dir=here/runs")
    assert len(sweeps(launcher.cwd / "here" / "runs")) == 1
    assert not launcher.runs_dir.exists()
    launcher.output("collect", "latest", "runs_dir=here/runs", "results_dir=there")
    assert list((launcher.cwd / "there").iterdir())
    assert not launcher.results_dir.exists()


def test_the_next_command_can_be_used(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(launcher.home))  # no sbatch
    last = launcher.output(launcher.python()).splitlines()[-1]
    words = last[last.index("python launch.py") :].split()[2:]
    assert words[:2] == ["collect", launcher.ledger().sweep_id]
    assert f"runs_dir={launcher.runs_dir}" in words
    launcher.output(*words)


def test_with_sbatch_in_the_path_the_last_line_is_the_command_that_uses_it(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.touch(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent))
    python = launcher.python()
    assert launcher(python).out.splitlines()[-1].endswith(" cluster=slurm")
    assert "cluster=slurm" not in launcher(python, "cluster=local").out


def start(launcher: Launcher, *words: str | Path) -> subprocess.Popen[str]:
    """Start Python with these words as a terminal of its own does."""
    return subprocess.Popen(
        [sys.executable, *words, f"runs_dir={launcher.runs_dir}"],
        cwd=launcher.cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(launcher.home), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A worker of pytest-xdist ignores SIGINT and passes that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def start_hanging_sweep(launcher: Launcher) -> subprocess.Popen[str]:
    """Start a sweep of two points, and wait until the first one hangs."""
    python = launcher.python({128: "hang"})
    process = start(launcher, LAUNCH, "sweep", "shape.seq_len=128,256", python)
    deadline = time.monotonic() + 50
    while not list(launcher.runs_dir.rglob("hanging")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def interrupt(process: subprocess.Popen[str]) -> None:
    """Send Ctrl-C as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


@pytest.mark.parametrize("end", [interrupt, subprocess.Popen.terminate])
def test_ctrl_c_or_sigterm_ends_with_130_and_a_cancelled_record(
    launcher: Launcher, end: Callable[[subprocess.Popen[str]], None]
) -> None:
    process = start_hanging_sweep(launcher)
    end(process)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")
    record, ledger = launcher.record(), launcher.ledger()
    assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.cancelled)
    assert f"Records: {ledger.root}" in out
    assert f"python launch.py resume {ledger.sweep_id} runs_dir={launcher.runs_dir}" in out


# Comes between the fork and the exec of a point's process, or twice.
AT_FORK = """
import os, runpy, sys
os.register_at_fork(before=lambda: [os.kill(os.getpid(), number) for number in {numbers}])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("numbers", [[2], [2, 2], [15], [1], [15, 2, 1]], ids=str)
def test_a_signal_at_any_moment_leaves_a_record(launcher: Launcher, numbers: list[int]) -> None:
    python = launcher.python({128: "hang"})
    process = start(launcher, "-c", AT_FORK.format(numbers=numbers), LAUNCH, "run", python)
    _, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (130, "")
    record = launcher.record()
    assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.cancelled)
    name = signal.Signals(numbers[0]).name
    assert ("keyboard" if name == "SIGINT" else name) in record.reason


def test_a_closed_pipe_ends_no_sweep(launcher: Launcher) -> None:
    words = ("sweep", launcher.python(), "grid=none", "shape.seq_len=128,256")
    with start(launcher, LAUNCH, *words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(50) == 0
    assert len(launcher.records()) == 2


def test_a_killed_run_is_reported_as_dead_and_can_be_resumed(launcher: Launcher) -> None:
    process = start_hanging_sweep(launcher)
    assert sorted(states(launcher("status").out)) == ["PENDING", "RUNNING"]
    process.kill()
    process.communicate()
    assert launcher("status", "watch=true").code == 0  # ends: nothing is under way any more
    shown = launcher("status").out
    assert sorted(states(shown)) == ["ERROR", "PLANNED"]
    assert f"python launch.py resume {launcher.ledger().sweep_id}" in shown
    assert launcher("cancel", "latest").code == 0, "nothing is left to cancel"
    launcher.python()  # the same program, which now lets every point pass
    assert launcher("resume").code == 0
    assert states(launcher("status").out) == ["PASSED", "PASSED"]
