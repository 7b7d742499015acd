"""A node's interpreter for tests of the login side: ends each point in a chosen way.

`install` writes a program for `cluster.python`, which runs this file. It imports nothing heavy, so
that a point takes milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

OUTCOMES = ("PASSED", "FAILED", "UNSUPPORTED")


def install(folder: Path, ends: Mapping[int, str] | None = None) -> Path:
    """Write a program that replaces the node's Python and return its path.

    Args:
        folder: Where it is written.
        ends: How a point ends, by its `shape.seq_len`: an outcome, `kill`, `exit`, `hang`,
            `damaged`, `orphan`, or text that is printed before exit code 1. Other points pass.
    """
    from tests.builders.programs import write_python

    return write_python(folder / "fake-python", "-I", "-S", __file__, json.dumps(dict(ends or {})))


def main(words: list[str]) -> int:
    """Run `ENDS -m jobs.node POINT.json ATTEMPT_DIR`."""
    ends, dash_m, module, point_path, attempt = words
    assert (dash_m, module) == ("-m", "jobs.node")
    given = json.loads(Path(point_path).read_text())
    end = json.loads(ends).get(str(given["point"]["shape"]["seq_len"]), "PASSED")
    print(f"this is the node of {given['point_id']}", flush=True)
    if end in OUTCOMES:
        _write_record(given, Path(attempt), end)
        return 0
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "hang":
        (Path(attempt) / "hanging").touch()
        time.sleep(600)
    if end == "orphan":
        left = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
        (Path(attempt) / "orphan").write_text(str(left.pid))
        _write_record(given, Path(attempt), "PASSED")
        return 0
    if end == "damaged":
        (Path(attempt) / "record.json").write_text('{"schema_version": 1, "outc')
        return 0
    if end != "exit":
        print(end, file=sys.stderr, flush=True)
    return 1


def _write_record(given: dict[str, object], attempt: Path, outcome: str) -> None:
    identity = {
        "point_id": given["point_id"],
        "sweep_id": given["sweep_id"],
        "job_id": os.environ["MXFP8_JOB_ID"],
        "attempt": int(attempt.name.rpartition("-")[2]),
    }
    record = {
        "schema_version": 1,
        "identity": identity,
        "config": given["point"],
        "outcome": outcome,
        "reason": f"ends as {outcome}",
        "command": given["command"],
    }
    (attempt / "record.json").write_text(json.dumps(record))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
