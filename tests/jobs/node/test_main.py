"""`python -m jobs.node` leaves whole files or none, whenever it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from conf.schema import NoTolerance
from jobs.record import Outcome, Started, json_schema, read_record
from tests.jobs.node.points import FEW, point, write_point_file

ROOT = Path(__file__).resolve().parents[3]
NODE = [sys.executable, "-m", "jobs.node"]
# Progress lines of the node, in order.
MOMENTS = ("node ", "MXFP8 available", "arm recipe", "FP32 reference", "warmed up", "Result:")


def start(tmp_path: Path) -> tuple[subprocess.Popen[bytes], Path]:
    attempt = tmp_path / "attempt-1"
    attempt.mkdir()
    # Without a tolerance nothing needs predicting, and the process is short.
    given = point(tolerance=NoTolerance(), benchmark=FEW)
    path = write_point_file(tmp_path / "point.json", given)
    process = subprocess.Popen(
        [*NODE, str(path), str(attempt)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MXFP8_JOB_ID": "local-7"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return process, attempt


def test_a_run_leaves_three_files_that_agree(tmp_path: Path) -> None:
    process, attempt = start(tmp_path)
    assert process.wait() == 0
    names = {path.name for path in attempt.iterdir()}
    assert names == {"started.json", "output.log", "record.json"}
    record = read_record(attempt / "record.json")
    started = Started.model_validate_json((attempt / "started.json").read_text())
    assert record.outcome is Outcome.PASSED
    assert record.identity == started.identity
    assert record.identity.job_id == "local-7"
    jsonschema.validate(
        json.loads((attempt / "record.json").read_text()), json.loads(json_schema())
    )
    log = (attempt / "output.log").read_text()
    assert [moment for moment in (*MOMENTS, "[PERF] b=1 s=128") if moment not in log] == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_any_moment_leaves_no_half_file(tmp_path: Path, moment: str) -> None:
    process, attempt = start(tmp_path)
    log = attempt / "output.log"
    while process.poll() is None:
        if log.exists() and moment in log.read_text(errors="replace"):
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    Started.model_validate_json((attempt / "started.json").read_text())
    if (attempt / "record.json").exists():
        read_record(attempt / "record.json")
    visible = {path.name for path in attempt.iterdir() if not path.name.startswith(".")}
    assert visible <= {"started.json", "output.log", "record.json"}


def test_a_kill_before_anything_leaves_no_record(tmp_path: Path) -> None:
    process, attempt = start(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (attempt / "record.json").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "POINT.json"),
        (["one"], "POINT.json"),
        (["point.json", "no-such-folder"], "no-such-folder"),
        (["no-such.json", "."], "no-such.json"),
    ],
)
def test_a_wrong_command_is_one_line_with_exit_code_2(
    tmp_path: Path, arguments: list[str], named: str
) -> None:
    done = subprocess.run(
        [*NODE, *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = (done.stderr + done.stdout).splitlines()
    assert named in line
