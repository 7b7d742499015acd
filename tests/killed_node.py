"""The real node, killed with SIGKILL at a chosen moment: `python killed_node.py MOMENTS -m ...`.

The moment is chosen by the point's `shape.seq_len`, so that one sweep covers all of them.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Just before a file gets its name: its whole text is in a temporary file beside it.
BEFORE_STARTED, AT_RECORD = "before started.json", "at record.json"
AFTER_STARTED, IN_VALIDATION = "after started.json", "in validation"


def install(folder: Path, moments: Mapping[int, str]) -> Path:
    """Write a program that replaces the node's Python and return its path.

    Args:
        folder: Where it is written.
        moments: When a point's process is killed, by its `shape.seq_len`.
    """
    from tests.builders.programs import write_python

    return write_python(folder / "killed-python", "-P", __file__, json.dumps(dict(moments)))


def main(words: list[str]) -> None:
    """Run `jobs.node` and kill it at its moment."""
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
