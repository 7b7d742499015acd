"""Runs on a GPU machine what has no figure: the tests that need it, and compute-sanitizer.

    python -m tools.gpu.checks --output checks.json [--commit COMMIT]

Exit code 1 if a command failed. `docs/results/h200_checks.json` holds the last run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_PYTEST = ("python", "-m", "pytest", "-q", "-m", "gpu or te", "-W", "default", "--timeout", "200")
_ROPE = ("python", "-m", "tools.gpu.rope", "--sanitize")
COMMANDS: tuple[tuple[str, ...], ...] = (
    (*_PYTEST, "-n", "6", "tests/mxfp8_attention"),
    # Not beside the others: one of them takes all of the GPU's memory.
    (*_PYTEST, "tests/jobs/node/test_gpu.py"),
    ("compute-sanitizer", "--tool", "memcheck", *_ROPE),
    ("compute-sanitizer", "--tool", "racecheck", *_ROPE),
)
_LIMIT_S = 280
# pytest's count, the sanitizer's, and what the program says that it watched.
_TELLING = re.compile(r"(?:\d+ (?:passed|failed|skipped)|.*SUMMARY|every kernel ran|FAILED|ERROR)")


def run_check(words: Sequence[str]) -> dict[str, Any]:
    """Runs one command to its end.

    Args:
        words: The command; `python` stands for this interpreter.

    Returns:
        The command, its exit code, its seconds, and the lines that tell how it ended.
    """
    command = [sys.executable if word == "python" else word for word in words]
    # The caching allocator hides reads beyond a tensor from the sanitizer.
    added = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if words[0] == "compute-sanitizer" else {}
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | added,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        code, lines = done.returncode, (done.stdout + done.stderr).splitlines()
    except (OSError, subprocess.TimeoutExpired) as error:
        code, lines = 1, [f"ERROR: {error}"]
    return {
        "command": shlex.join([*(f"{name}={value}" for name, value in added.items()), *words]),
        "exit_code": code,
        "seconds": round(time.monotonic() - begun, 1),
        "says": [line.strip("= ") for line in lines if _TELLING.match(line.strip("= "))],
    }


def machine(commit: str | None) -> dict[str, str | None]:
    """What the checks ran on."""
    import torch
    import triton

    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": commit,
    }


def main(arguments: Sequence[str]) -> int:
    """Runs every command, prints and writes.

    Args:
        arguments: The command line.

    Returns:
        0 if every command ended with 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--commit", help="of the source")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {"machine": machine(options.commit), "checks": []}
    for words in COMMANDS:
        found["checks"].append(check := run_check(words))
        print(json.dumps(check), flush=True)
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(check["exit_code"] for check in found["checks"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
