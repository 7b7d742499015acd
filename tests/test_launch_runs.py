"""Points run on this machine, one after another; each leaves a record, none hides another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jobs.errors import FileError
from jobs.record import Cause, Outcome, Record, State, to_json
from jobs.sweeps.ledger import sweeps
from tests.fake_node import install
from tests.launcher import Launcher
from tests.processes import gone

ROOT = Path(__file__).parents[1]
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "record.schema.json").read_text())


def check_schema(record: Record) -> None:
    """Validate a record against docs/record.schema.json."""
    jsonschema.validate(json.loads(to_json(record)), SCHEMA)


def states(text: str) -> list[str]:
    """The states in the rows of a table of points, in their order."""
    rows = (line.split() for line in text.splitlines() if line.lstrip().startswith("p-"))
    return [next(word for word in row if word in State.__members__) for row in rows]


def interruptible() -> None:
    """Restore the default of SIGINT, which a worker of pytest-xdist ignores and passes on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_run_shows_its_record_and_where_it_lies(launcher: Launcher, tmp_path: Path) -> None:
    result = launcher(f"cluster.python={install(tmp_path)}")
    assert (result.code, result.err) == (0, "")
    (record,) = launcher.records()
    check_schema(record)
    assert record.outcome is Outcome.PASSED
    assert record.command is not None
    assert record.command.startswith("python launch.py cluster.python=")
    ledger = launcher.ledger()
    assert "gpu=cpu shape=tiny recipe=mxfp8" in result.out.splitlines()[0]
    assert record.reason in result.out
    assert str(ledger.root) in result.out
    assert f"python launch.py collect {ledger.sweep_id}" in result.out
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
    launcher: Launcher, tmp_path: Path, ends: dict[int, str], words: list[str], code: int
) -> None:
    python = f"cluster.python={install(tmp_path, ends)}"
    assert launcher("sweep", "shape.seq_len=128,256", python, *words).code == code


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("recipe=fp8_current", "fp8_current"),
        ("backend=te", "backend=te"),
        ("shape.seq_len=100", "shape.seq_len"),
    ],
)
def test_an_unsupported_point_has_a_reason_and_is_not_started(
    launcher: Launcher, words: str, key: str
) -> None:
    result = launcher(words, "cluster.python=/nope")
    assert (result.code, result.err) == (3, "")
    (record,) = launcher.records()
    check_schema(record)
    assert record.outcome is Outcome.UNSUPPORTED
    assert key in record.reason
    assert record.reason in result.out
    assert launcher.ledger().jobs() == []


def test_an_unsupported_point_can_be_allowed(launcher: Launcher) -> None:
    assert launcher("recipe=fp8_current", "allow_unsupported=true").code == 0


def test_no_failure_hides_another_point(launcher: Launcher, tmp_path: Path) -> None:
    ends = {
        128: "kill",
        256: "exit",
        384: "damaged",
        512: "ModuleNotFoundError: No module named 'torch'",
        640: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB",
        768: "PASSED",
    }
    axis = ",".join(map(str, [*ends, 100]))
    result = launcher(
        "sweep", f"shape.seq_len={axis}", f"cluster.python={install(tmp_path, ends)}"
    )
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


def test_a_killed_process_is_an_error_with_its_signal_and_last_output(
    launcher: Launcher, tmp_path: Path
) -> None:
    assert launcher(f"cluster.python={install(tmp_path, {128: 'kill'})}").code == 1
    (record,) = launcher.records()
    check_schema(record)
    assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.crashed)
    assert "SIGKILL" in record.reason
    assert record.evidence[0].file == "output.log"
    assert record.evidence[0].lines == [f"this is the node of {record.identity.point_id}"]
    assert record.config["shape"]["name"] == "tiny"


def test_a_point_ends_at_its_time_limit(launcher: Launcher, tmp_path: Path) -> None:
    python = f"cluster.python={install(tmp_path, {128: 'hang'})}"
    assert launcher(python, "launch.point_time_limit_s=1").code == 1
    (record,) = launcher.records()
    check_schema(record)
    assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.timeout)


def test_a_missing_interpreter_is_a_failed_launch(launcher: Launcher) -> None:
    assert launcher("cluster.python=/nope/python").code == 1
    (record,) = launcher.records()
    check_schema(record)
    assert record.cause is Cause.launch_failed
    assert "/nope/python" in record.reason


def test_a_process_left_by_a_point_ends_with_it(launcher: Launcher, tmp_path: Path) -> None:
    assert launcher(f"cluster.python={install(tmp_path, {128: 'orphan'})}").code == 0
    (file,) = launcher.runs_dir.glob("*/*/*/attempt-1/orphan")
    assert gone(int(file.read_text()))


def test_ctrl_c_ends_with_130_and_a_cancelled_record(tmp_path: Path) -> None:
    runs_dir = tmp_path / "runs"
    python = install(tmp_path, {128: "hang"})
    words = ["sweep", "shape.seq_len=128,256", f"cluster.python={python}", f"runs_dir={runs_dir}"]
    process = subprocess.Popen(
        [sys.executable, ROOT / "launch.py", *words],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=interruptible,
    )
    for _ in range(1000):
        if list(runs_dir.glob("*/*/*/attempt-1/hanging")):
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "")
    (ledger,) = sweeps(runs_dir)
    (path,) = ledger.root.glob("*/*/attempt-1/record.json")
    record = Record.model_validate_json(path.read_text())
    check_schema(record)
    assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.cancelled)
    assert f"Records: {ledger.root}" in out
    assert f"python launch.py resume {ledger.sweep_id} runs_dir={runs_dir}" in out


# Comes between the fork and the exec of a point's process, or twice.
AT_FORK = """
import os, runpy, sys
os.register_at_fork(before=lambda: [os.kill(os.getpid(), number) for number in {numbers}])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("numbers", [[2], [2, 2], [15], [1], [15, 2, 1]], ids=str)
def test_a_signal_at_any_moment_leaves_a_record_and_no_process(
    tmp_path: Path, numbers: list[int]
) -> None:
    runs_dir = tmp_path / "runs"
    words = ["run", f"cluster.python={install(tmp_path, {128: 'hang'})}", f"runs_dir={runs_dir}"]
    done = subprocess.run(
        [sys.executable, "-c", AT_FORK.format(numbers=numbers), ROOT / "launch.py", *words],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=interruptible,
    )
    assert (done.returncode, done.stderr) == (130, "")
    (path,) = runs_dir.glob("*/*/*/attempt-1/record.json")
    record = Record.model_validate_json(path.read_text())
    check_schema(record)
    assert (record.outcome, record.cause) == (Outcome.ERROR, Cause.cancelled)
    name = signal.Signals(numbers[0]).name
    assert ("keyboard" if name == "SIGINT" else name) in record.reason


def test_places_are_keys(launcher: Launcher, tmp_path: Path) -> None:
    python = f"cluster.python={install(tmp_path)}"
    assert launcher(python, "runs_dir=here/runs").code == 0
    assert len(sweeps(launcher.cwd / "here" / "runs")) == 1
    assert not launcher.runs_dir.exists()
    result = launcher("collect", "latest", "runs_dir=here/runs", "results_dir=there")
    assert result.code == 0, result.err
    assert len(list((launcher.cwd / "there").iterdir())) >= 1
    assert not launcher.results_dir.exists()


def test_a_collection_of_nothing_is_no_pass(launcher: Launcher) -> None:
    assert isinstance(launcher.error("collect", "./"), FileError)


def test_the_next_command_finds_what_this_one_left(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(launcher.home))  # no sbatch
    result = launcher(f"cluster.python={install(tmp_path)}")
    last = result.out.splitlines()[-1]
    words = last[last.index("python launch.py") :].split()[2:]
    assert words[:2] == ["collect", launcher.ledger().sweep_id]
    assert f"runs_dir={launcher.runs_dir}" in words
    assert launcher(*words).code == 0


def test_with_sbatch_in_the_path_the_last_line_is_the_command_that_uses_it(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.touch(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent))
    python = f"cluster.python={install(tmp_path)}"
    assert launcher(python).out.splitlines()[-1].endswith(" cluster=slurm")
    assert "cluster=slurm" not in launcher(python, "cluster=local").out


@pytest.mark.parametrize(("words", "mode"), [([], 0o700), (["launch.share=group"], 0o750)])
def test_the_ledger_is_its_owner_s_unless_shared(
    launcher: Launcher, tmp_path: Path, words: list[str], mode: int
) -> None:
    assert launcher(f"cluster.python={install(tmp_path)}", *words).code == 0
    assert launcher.ledger().root.stat().st_mode & 0o777 == mode


def test_a_closed_pipe_ends_no_sweep(launcher: Launcher, tmp_path: Path) -> None:
    words = ["sweep", f"cluster.python={install(tmp_path)}", "grid=none", "shape.seq_len=128,256"]
    command = [sys.executable, str(ROOT / "launch.py"), *words, f"runs_dir={launcher.runs_dir}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
    assert len(launcher.records()) == 2


def test_a_term_signal_is_recorded_as_cancelled(launcher: Launcher, tmp_path: Path) -> None:
    node = install(tmp_path, {128: "hang"})
    words = ["run", f"cluster.python={node}", f"runs_dir={launcher.runs_dir}"]
    command = [sys.executable, str(ROOT / "launch.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 30
        while not list(launcher.runs_dir.rglob("hanging")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 130
    (record,) = launcher.records()
    assert record.cause is Cause.cancelled


def test_a_killed_run_is_reported_as_dead_and_can_be_resumed(
    launcher: Launcher, tmp_path: Path
) -> None:
    python = f"cluster.python={install(tmp_path, {128: 'hang'})}"
    words = ["sweep", "shape.seq_len=128,256", python, f"runs_dir={launcher.runs_dir}"]
    process = subprocess.Popen([sys.executable, ROOT / "launch.py", *words], cwd=tmp_path)
    for _ in range(1000):
        if list(launcher.runs_dir.glob("*/*/*/attempt-1/hanging")):
            break
        time.sleep(0.05)
    assert sorted(states(launcher("status").out)) == ["PENDING", "RUNNING"]
    process.kill()
    process.wait()
    assert launcher("status", "watch=true").code == 0  # ends: nothing is under way any more
    shown = launcher("status").out
    assert sorted(states(shown)) == ["ERROR", "PLANNED"]
    assert f"python launch.py resume {launcher.ledger().sweep_id}" in shown
    assert launcher("cancel", "latest").code == 0, "nothing is left to cancel"
    install(tmp_path)  # the same program, which now lets every point pass
    assert launcher("resume").code == 0
    assert states(launcher("status").out) == ["PASSED", "PASSED"]
