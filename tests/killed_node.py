"""The real node, killed with SIGKILL at a chosen moment: `python killed_node.py MOMENTS -m ...`.

The moment is chosen by the point's `shape.seq_len`, so that one sweep sees all of them.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The moment before a file gets its name: its whole text lies beside it, in a temporary file.
BEFORE_STARTED, AT_RECORD = "before started.json", "at record.json"
AFTER_STARTED, IN_VALIDATION = "after started.json", "in validation"


def install(folder: Path, moments: Mapping[int, str]) -> Path:
    """Writes a program that takes the place of the node's Python.

    Args:
        folder: Where it is written.
        moments: When a point's process is killed, by its `shape.seq_len`.

    Returns:
        The program.
    """
    program = folder / "killed-python"
    words = [sys.executable, "-P", __file__, json.dumps(dict(moments))]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    return program


def main(words: list[str]) -> None:
    """Runs `jobs.node` with a mine laid at its moment."""
    moments, _, module, point_path, attempt = words
    given = json.loads(Path(point_path).read_text())
    _lay_mine(json.loads(moments)[str(given["point"]["shape"]["seq_len"])])
    sys.argv = [module, point_path, attempt]
    runpy.run_module(f"{module}.__main__", run_name="__main__")


def _lay_mine(moment: str) -> None:
    replace = os.replace

    def mined(source: Any, target: Any) -> None:  # noqa: ANN401 - as os.replace takes them
        name = Path(target).name
        if moment == f"before {name}" or moment == f"at {name}":
            _die()
        replace(source, target)
        if moment == f"after {name}":
            _die()

    os.replace = mined  # type: ignore[assignment] # the mine is the point
    if moment == IN_VALIDATION:
        from jobs.node import attention

        vars(attention)["validate"] = lambda *_: _die()


def _die() -> None:
    print("about to be killed", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
