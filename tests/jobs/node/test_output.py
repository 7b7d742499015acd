"""Everything that a process prints goes to its log, even if its parent is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from pathlib import Path
from jobs.node.output import log_output
log_output(Path(sys.argv[1]))
print("from python")
print("to stderr", file=sys.stderr)
os.write(1, b"from native code\\n")
os.write(2, b"native, to stderr\\n")
os.system("echo from a child")
"""
ALL = ["from a child", "from native code", "from python", "native, to stderr", "to stderr"]


def start(log: Path, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]  # any of its options
        [sys.executable, "-c", PROGRAM, str(log)], text=True, **options
    )


def test_python_native_code_and_children_are_all_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    process = start(log, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert sorted(log.read_text().splitlines()) == ALL
    assert "from python" in out, "it is also shown to a user who starts it by hand"
    assert err == ""


def test_a_log_that_is_already_the_output_gets_each_line_once(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    with log.open("ab") as handle:
        assert start(log, stdout=handle, stderr=subprocess.STDOUT).wait() == 0
    assert sorted(log.read_text().splitlines()) == ALL


def test_a_reader_that_went_away_does_not_stop_the_process(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    process = start(log, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 0
    assert sorted(log.read_text().splitlines()) == ALL
