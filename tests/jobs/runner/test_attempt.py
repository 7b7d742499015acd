"""A point's process is started cleanly, watched, ended with its children, and always recorded."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.record import Cause, Record, read_record
from jobs.runner import attempt as attempt_module
from jobs.runner.attempt import NO_RECORD, PointRunner, PollStop, StopRequest, read_outcome
from tests.processes import gone

ROOT = Path(__file__).resolve().parents[3]
POINT: dict[str, Any] = {
    "point_id": "p-1",
    "sweep_id": "s-1",
    "point": {"shape": {"name": "tiny"}},
    "command": "python launch.py",
}


class Node:
    """Runs a shell script instead of `python -m jobs.node`; `$4` is the attempt's folder."""

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
        """Return the record of an attempt."""
        return read_record(self.folder / "p-1" / f"attempt-{attempt}" / "record.json")

    def wait_for(self, name: str) -> str:
        """Wait until the process has written a file, and return its text."""
        path = self.folder / "p-1" / "attempt-1" / name
        for _ in range(600):
            if path.is_file() and path.read_text():
                return path.read_text()
            time.sleep(0.05)
        raise AssertionError(f"{name} did not appear")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose process is a shell script."""
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


def test_a_record_of_the_process_is_kept(node: Node) -> None:
    record = {"identity": {"point_id": "p-1"}, "config": {}, "outcome": "FAILED", "reason": "dx"}
    node.folder.joinpath("given.json").write_text(json.dumps(record))
    ended = node(f'cp {node.folder}/given.json "$4/record.json"; kill -KILL $$')
    assert ended == {
        "attempt": str(node.folder / "p-1" / "attempt-1"),
        "outcome": "FAILED",
        "cause": None,
        "reason": "dx",
    }


@pytest.mark.parametrize("content", ["[" * 10**6, "{", "[]", "fifo"])
def test_an_unreadable_record_is_an_outcome_too(tmp_path: Path, content: str) -> None:
    path = tmp_path / "record.json"
    if content == "fifo":
        os.mkfifo(path)
    else:
        path.write_text(content)
    summary = read_outcome(tmp_path)
    assert (summary["outcome"], summary["cause"]) == ("ERROR", "lost")


def test_each_execution_is_a_new_attempt(node: Node) -> None:
    node("exit 1")
    node("exit 2")
    assert [node.record(number).identity.attempt for number in (1, 2)] == [1, 2]
    assert "exit code 1" in node.record(1).reason
    assert "exit code 2" in node.record(2).reason


@pytest.mark.parametrize(
    ("script", "cause", "quoted"),
    [
        ("exit 3", Cause.exception, "exit code 3"),
        ("exit 0", Cause.exception, "exit code 0"),
        ("kill -SEGV $$", Cause.crashed, "SIGSEGV"),
        *(
            (f'echo "{line}"; exit 1', cause, line)
            for line, cause in (
                ("ModuleNotFoundError: No module named 'torch'", Cause.import_error),
                ("x.so: cannot open shared object file", Cause.import_error),
                ("OSError: [Errno 28] No space left on device", Cause.storage),
                ("torch.OutOfMemoryError: CUDA out of memory.", Cause.out_of_memory_gpu),
            )
        ),
    ],
)
def test_a_death_has_its_cause(node: Node, script: str, cause: Cause, quoted: str) -> None:
    summary = node(f"echo before; {script}")
    record = node.record()
    assert (summary["outcome"], summary["cause"]) == ("ERROR", cause.value)
    assert record.cause is cause
    assert quoted in record.reason
    assert record.config == POINT["point"]
    assert record.command == "python launch.py"
    assert (record.identity.sweep_id, record.identity.job_id) == ("s-1", "14_2")
    assert record.evidence[0].lines[0] == "before"
    assert record.environment.host


def test_evidence_is_the_end_of_the_log_with_its_offset(node: Node) -> None:
    node(r"""seq 1 5000; printf '\377\n'; exit 1""")
    (evidence,) = node.record().evidence
    assert evidence.lines[-2:] == ["5000", "\ufffd"]
    log = (node.folder / "p-1" / "attempt-1" / "output.log").read_bytes()
    assert evidence.offset is not None
    assert log[evidence.offset :].decode("utf-8", "replace").splitlines() == evidence.lines


def test_a_record_that_cannot_be_written_is_an_error_with_its_cause(node: Node) -> None:
    script = 'rm -r "$4"; echo > "$4"; kill -SEGV $$'
    with pytest.raises(NotADirectoryError, match=r"ERROR crashed: .*SIGSEGV"):
        node(script)


def test_the_log_has_a_line_if_there_is_no_record(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(attempt_module, "write_atomic", full)
    with pytest.raises(OSError, match="ERROR exception"):
        node("printf cut; exit 3")
    attempt = node.folder / "p-1" / "attempt-1"
    cut, line = (attempt / "output.log").read_text().splitlines()
    assert cut == "cut"
    assert NO_RECORD.findall(line) == ["p-1"]
    assert [path.name for path in attempt.iterdir()] == ["output.log"]


def test_a_missing_point_file_still_leaves_a_record(node: Node) -> None:
    node.point_file.unlink()
    node("exit 1")
    assert node.record().identity.point_id == "p-1"


def test_an_interpreter_that_cannot_start_is_a_launch_failure(node: Node) -> None:
    node("", python="/nope")
    assert node.record().cause is Cause.launch_failed
    assert "/nope" in node.record().reason


def test_at_its_limit_a_process_and_its_children_end(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "GRACE_S", 0.2)
    script = 'trap "" TERM; sleep 600 & echo $! > "$4/child"; echo $$ > "$4/self"; wait; sleep 600'
    node(script, time_limit_s=0.5)
    assert node.record().cause is Cause.timeout
    assert "0.5 s" in node.record().reason
    for name in ("self", "child"):
        assert gone(int(node.wait_for(name)))


def test_children_of_a_dead_process_end_with_it(node: Node) -> None:
    node('sleep 600 & echo $! > "$4/child"; exit 1')
    assert gone(int(node.wait_for("child")))


def test_an_unfinished_file_is_removed(node: Node) -> None:
    node('echo "{" > "$4/.record.json.x7"; echo "{" > "$4/.started.json.y8"; kill -KILL $$')
    names = {path.name for path in (node.folder / "p-1" / "attempt-1").iterdir()}
    assert names == {"output.log", "record.json"}


@pytest.mark.parametrize("at_once", [False, True])
def test_a_stop_ends_the_process_and_leaves_its_cause(
    node: Node, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    monkeypatch.setattr(attempt_module, "GRACE_S", 1000.0 if at_once else 0.2)
    started = node.folder / "p-1" / "attempt-1" / "self"

    def poll_stop() -> StopRequest | None:
        return StopRequest("cancelled", "asked to", at_once=at_once) if started.exists() else None

    with pytest.raises(StopRequest, match="asked to"):
        node('trap "" TERM; echo $$ > "$4/.self"; mv "$4/.self" "$4/self"; sleep 600', poll_stop)
    assert (node.record().cause, node.record().reason) == (Cause.cancelled, "asked to")
    assert gone(int(started.read_text()))


def test_a_stop_before_the_process_starts_is_recorded_too(node: Node) -> None:
    with pytest.raises(StopRequest):
        node('touch "$4/started"', lambda: StopRequest("cancelled", "asked to"))
    assert node.record().cause is Cause.cancelled
    assert not (node.folder / "p-1" / "attempt-1" / "started").exists()


def test_no_process_outlives_an_error_of_its_parent(node: Node) -> None:
    started = node.folder / "p-1" / "attempt-1" / "self"
    failed: list[str] = []

    def fail_once() -> None:
        if started.exists() and not failed:
            failed.append(node.wait_for("self"))
            raise MemoryError

    with pytest.raises(MemoryError):
        node('echo $$ > "$4/self"; sleep 600', fail_once)
    assert gone(int(node.wait_for("self")))


def test_the_memory_of_a_dead_process_is_reported(node: Node) -> None:
    script = f"exec {sys.executable} -I -S -c 'x = bytearray(200 * 2**20); raise SystemExit(1)'"
    node(script)
    peak = re.search(r"([\d.]+) GiB", node.record().reason)
    assert peak
    # A child starts as a copy of its parent, whose own peak counts until it calls exec.
    own_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert 0.19 < float(peak[1]) < max(0.4, 1.1 * own_gib)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl exists on Linux only")
def test_a_point_ends_with_its_parent(node: Node) -> None:
    program = node.folder / "python"
    program.write_text('#!/bin/sh\necho $$ > "$4"/self\nexec sleep 300\n')
    program.chmod(0o755)
    code = (
        "from pathlib import Path; from jobs.runner.attempt import NO_RECORD, PointRunner; "
        f"PointRunner(python={str(program)!r}, root='/root', job_id='local-1')"
        f".run(Path({str(node.point_file)!r}), Path({str(node.folder / 'p-1')!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as parent:
        pid = int(node.wait_for("self"))
        parent.kill()
    assert gone(pid)
