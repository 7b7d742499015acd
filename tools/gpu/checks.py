"""Runs the tests that need a GPU, and the RoPE kernels under compute-sanitizer.

    python -m tools.gpu.checks --output checks.json [--commit COMMIT]

Exit code 1 if a command failed. `docs/results/h200_checks.json` is the last run.
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
    # Not in parallel: one of these tests uses all of the GPU's memory.
    (*_PYTEST, "tests/jobs/node/test_gpu.py"),
    ("compute-sanitizer", "--tool", "memcheck", *_ROPE),
    ("compute-sanitizer", "--tool", "racecheck", *_ROPE),
)
_LIMIT_S = 280
# The summary lines of pytest, the sanitizer and `tools.gpu.rope`.
_SUMMARY = re.compile(r"(?:\d+ (?:passed|failed|skipped)|.*SUMMARY|every kernel ran|FAILED|ERROR)")


def run_check(arguments: Sequence[str]) -> dict[str, Any]:
    """Run a command, and return it with its exit code, its seconds and its summary lines.

    `python` stands for this interpreter.
    """
    command = [sys.executable if word == "python" else word for word in arguments]
    # The caching allocator hides reads beyond a tensor from the sanitizer.
    extra_env = (
        {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if arguments[0] == "compute-sanitizer" else {}
    )
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | extra_env,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        code, lines = done.returncode, (done.stdout + done.stderr).splitlines()
    except (OSError, subprocess.TimeoutExpired) as error:
        code, lines = 1, [f"ERROR: {error}"]
    return {
        "command": shlex.join(
            [*(f"{name}={value}" for name, value in extra_env.items()), *arguments]
        ),
        "exit_code": code,
        "seconds": round(time.monotonic() - start, 1),
        "says": [line.strip("= ") for line in lines if _SUMMARY.match(line.strip("= "))],
    }


def machine(commit: str | None) -> dict[str, str | None]:
    """Return GPU, software and source of this run."""
    import torch
    import triton

    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "commit": commit,
    }


def main(arguments: Sequence[str]) -> int:
    """Run every command, print and write the results; return 0 if all ended with 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--commit", help="of the source")
    options = parser.parse_args(arguments)
    results: dict[str, Any] = {"machine": machine(options.commit), "checks": []}
    for command in COMMANDS:
        results["checks"].append(check := run_check(command))
        print(json.dumps(check), flush=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(any(check["exit_code"] for check in results["checks"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
