"""A point's process is started cleanly, watched, ended whole, and never leaves a point untold."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.record import Cause, Record, read_record
from jobs.runner import attempt as attempt_module
from jobs.runner.attempt import PointRunner, PollStop, StopRequest, read_outcome
from tests.processes import gone

ROOT = Path(__file__).resolve().parents[3]
POINT: dict[str, Any] = {
    "point_id": "p-1",
    "sweep_id": "s-1",
    "point": {"shape": {"name": "tiny"}},
    "command": "python launch.py",
}


class Node:
    """Runs shell text in place of `python -m jobs.node`; `$4` is the attempt's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.point_file = folder / "p-1.json"
        self.point_file.write_text(json.dumps(POINT))

    def __call__(
        self,
        text: str,
        poll_stop: PollStop | None = None,
        **child: Any,  # noqa: ANN401 - Child's fields
    ) -> dict[str, Any]:
        program = self.folder / "python"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        runner = PointRunner(
            **{"python": str(program), "root": "/root", "job_id": "14_2", **child}
        )
        return runner.run(self.point_file, self.folder / "p-1", poll_stop)

    def record(self, attempt: int = 1) -> Record:
        """What an attempt left."""
        return read_record(self.folder / "p-1" / f"attempt-{attempt}" / "record.json")

    def wait_for(self, name: str) -> str:
        """Waits until the process has written a file, and reads it."""
        path = self.folder / "p-1" / "attempt-1" / name
        for _ in range(600):
            if path.is_file() and path.read_text():
                return path.read_text()
            time.sleep(0.05)
        raise AssertionError(f"{name} did not appear")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose process is shell text."""
    return Node(tmp_path)


def test_the_process_gets_the_point_an_attempt_and_a_clean_start(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    script = 'echo "$1 $2 $3 $4"; echo "$PYTHONPATH $MXFP8_JOB_ID $MINE"; pwd; cat; exit 1'
    node(script, env={"MINE": "x"})
    attempt = node.folder / "p-1" / "attempt-1"
    assert (attempt / "output.log").read_text().splitlines() == [
        f"-m jobs.node {node.point_file} {attempt}",
        "/root:/mine 14_2 x",
        str(attempt),
    ]


def test_a_record_that_the_process_left_stands(node: Node) -> None:
    record = {"identity": {"point_id": "p-1"}, "config": {}, "outcome": "FAILED", "reason": "dx"}
    node.folder.joinpath("given.json").write_text(json.dumps(record))
    ended = node(f'cp {node.folder}/given.json "$4/record.json"; kill -KILL $$')
    assert ended == {
        "attempt": str(node.folder / "p-1" / "attempt-1"),
        "outcome": "FAILED",
        "cause": None,
        "reason": "dx",
    }


@pytest.mark.parametrize("left", ["[" * 10**6, "{", "[]", "fifo"])
def test_a_record_that_cannot_be_read_is_an_outcome_too(tmp_path: Path, left: str) -> None:
    path = tmp_path / "record.json"
    if left == "fifo":
        os.mkfifo(path)
    else:
        path.write_text(left)
    known = read_outcome(tmp_path)
    assert (known["outcome"], known["cause"]) == ("ERROR", "lost")
    assert known["reason"].startswith("its record: ")


def test_each_execution_is_an_attempt_of_its_own(node: Node) -> None:
    node("exit 1")
    node("exit 2")
    assert [node.record(number).identity.attempt for number in (1, 2)] == [1, 2]
    assert "exit code 1" in node.record(1).reason
    assert "exit code 2" in node.record(2).reason


@pytest.mark.parametrize(
    ("script", "cause", "reason"),
    [
        ("exit 3", Cause.exception, "the process ended with exit code 3 and left no record"),
        ("exit 0", Cause.exception, "the process ended with exit code 0 and left no record"),
        ("kill -SEGV $$", Cause.crashed, "the process was ended by SIGSEGV"),
        ("echo \"ModuleNotFoundError: No module named 'torch'\"; exit 1", Cause.import_error,
         "ModuleNotFoundError: No module named 'torch'"),
        ("echo 'x.so: cannot open shared object file'; exit 1", Cause.import_error, "x.so: "),
        ("echo 'OSError: [Errno 28] No space left on device'; exit 1", Cause.storage, "OSError"),
        ("echo 'torch.OutOfMemoryError: CUDA out of memory.'; exit 1", Cause.out_of_memory_gpu,
         "torch.OutOfMemoryError: CUDA out of memory."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_death_has_its_cause(node: Node, script: str, cause: Cause, reason: str) -> None:
    ended = node(f"echo before; {script}")
    record = node.record()
    assert (ended["outcome"], ended["cause"]) == ("ERROR", cause.value)
    assert record.cause is cause
    assert record.reason.startswith(reason)
    assert record.config == POINT["point"]
    assert record.command == "python launch.py"
    assert (record.identity.sweep_id, record.identity.job_id) == ("s-1", "14_2")
    assert record.evidence[0].lines[0] == "before"
    assert record.environment.host


def test_evidence_is_the_end_of_the_log_and_where_it_stands(node: Node) -> None:
    node(r"""seq 1 5000; printf '\377\n'; exit 1""")
    (evidence,) = node.record().evidence
    assert evidence.lines[-2:] == ["5000", "\ufffd"]
    log = (node.folder / "p-1" / "attempt-1" / "output.log").read_bytes()
    assert evidence.offset is not None
    assert log[evidence.offset :].decode("utf-8", "replace").splitlines() == evidence.lines


def test_a_record_that_cannot_be_written_is_told_with_what_it_would_have_said(node: Node) -> None:
    script = 'rm -r "$4"; echo > "$4"; kill -SEGV $$'
    told = "it ended as ERROR crashed: the process was ended by SIGSEGV"
    with pytest.raises(NotADirectoryError, match=told):
        node(script)


def test_the_log_says_that_there_is_no_record(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(attempt_module, "write_atomic", full)
    with pytest.raises(OSError, match="No space left on device; it ended as ERROR exception"):
        node("printf cut; exit 3")
    attempt = node.folder / "p-1" / "attempt-1"
    cut, line = (attempt / "output.log").read_text().splitlines()
    assert cut == "cut"
    assert line.startswith("no record of p-1 could be written: [Errno 28] No space left on device")
    assert [path.name for path in attempt.iterdir()] == ["output.log"]


def test_a_missing_point_file_still_leaves_a_record(node: Node) -> None:
    node.point_file.unlink()
    node("exit 1")
    assert node.record().identity.point_id == "p-1"


def test_an_interpreter_that_cannot_start_is_told(node: Node) -> None:
    node("", python="/nope")
    assert node.record().cause is Cause.launch_failed
    assert node.record().reason == (
        "the node's interpreter did not start: /nope: No such file or directory"
    )


def test_at_its_limit_a_process_and_its_children_end(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "GRACE_S", 0.2)
    script = 'trap "" TERM; sleep 600 & echo $! > "$4/child"; echo $$ > "$4/self"; wait; sleep 600'
    node(script, time_limit_s=0.5)
    assert node.record().cause is Cause.timeout
    assert node.record().reason.startswith("still running after its limit of 0.5 s")
    for name in ("self", "child"):
        assert gone(int(node.wait_for(name)))


def test_what_a_dead_process_started_ends_with_it(node: Node) -> None:
    node('sleep 600 & echo $! > "$4/child"; exit 1')
    assert gone(int(node.wait_for("child")))


def test_a_file_that_was_being_written_does_not_stay(node: Node) -> None:
    node('echo "{" > "$4/.record.json.x7"; echo "{" > "$4/.started.json.y8"; kill -KILL $$')
    names = {path.name for path in (node.folder / "p-1" / "attempt-1").iterdir()}
    assert names == {"output.log", "record.json"}


@pytest.mark.parametrize("at_once", [False, True])
def test_a_stop_ends_the_process_and_leaves_its_cause(
    node: Node, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    monkeypatch.setattr(attempt_module, "GRACE_S", 1000.0 if at_once else 0.2)
    begun = node.folder / "p-1" / "attempt-1" / "self"

    def poll_stop() -> StopRequest | None:
        return StopRequest("cancelled", "told to", at_once=at_once) if begun.exists() else None

    with pytest.raises(StopRequest, match="told to"):
        node('trap "" TERM; echo $$ > "$4/.self"; mv "$4/.self" "$4/self"; sleep 600', poll_stop)
    assert (node.record().cause, node.record().reason[:7]) == (Cause.cancelled, "told to")
    assert gone(int(begun.read_text()))


def test_a_stop_before_the_process_starts_is_recorded_too(node: Node) -> None:
    with pytest.raises(StopRequest):
        node('touch "$4/started"', lambda: StopRequest("cancelled", "told to"))
    assert node.record().cause is Cause.cancelled
    assert not (node.folder / "p-1" / "attempt-1" / "started").exists()


def test_no_process_outlives_an_error_of_the_one_that_watches_it(node: Node) -> None:
    begun = node.folder / "p-1" / "attempt-1" / "self"
    failed: list[str] = []

    def fail_once() -> None:
        if begun.exists() and not failed:
            failed.append(node.wait_for("self"))
            raise MemoryError

    with pytest.raises(MemoryError):
        node('echo $$ > "$4/self"; sleep 600', fail_once)
    assert gone(int(node.wait_for("self")))


def test_memory_is_told_where_a_process_died(node: Node) -> None:
    script = f"exec {sys.executable} -I -S -c 'x = bytearray(200 * 2**20); raise SystemExit(1)'"
    node(script)
    told = node.record().reason.partition("(at most ")[2].partition(" GiB of memory)")[0]
    # A child begins as a copy of its parent, whose own mark counts until it calls exec.
    own_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert 0.19 < float(told) < max(0.4, 1.1 * own_gib)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's own")
def test_a_point_ends_with_the_process_that_started_it(node: Node) -> None:
    program = node.folder / "python"
    program.write_text('#!/bin/sh\necho $$ > "$4"/self\nexec sleep 300\n')
    program.chmod(0o755)
    code = (
        "from pathlib import Path; from jobs.runner.attempt import PointRunner; "
        f"PointRunner(python={str(program)!r}, root='/root', job_id='local-1')"
        f".run(Path({str(node.point_file)!r}), Path({str(node.folder / 'p-1')!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as parent:
        pid = int(node.wait_for("self"))
        parent.kill()
    assert gone(pid)
