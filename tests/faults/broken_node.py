"""The real node, broken in one way: `python broken_node.py FAULT -m jobs.node POINT ATTEMPT`."""

from __future__ import annotations

import ctypes
import functools
import runpy
import shlex
import sys
from pathlib import Path

GPU_MEMORY, LIBRARY, NAN, DISK_FULL = "gpu memory", "library", "nan", "disk full"


def install(folder: Path, fault: str) -> Path:
    """Writes a program that takes the place of the node's Python.

    Args:
        folder: Where it is written.
        fault: How its points break.

    Returns:
        The program.
    """
    program = folder / "broken-python"
    words = [sys.executable, "-P", __file__, fault]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    return program


def main(words: list[str]) -> None:
    """Breaks the node, then runs `jobs.node`."""
    fault, _, module, point_path, attempt = words
    _break(fault)
    sys.argv = [module, point_path, attempt]
    runpy.run_module(f"{module}.__main__", run_name="__main__")


def _break(fault: str) -> None:
    from jobs.node import run

    if fault == NAN:
        from tests.jobs.node.points import planting, with_nan

        vars(run)["run_attempt"] = functools.partial(
            run.run_attempt, build=planting(with_nan("dx"))
        )
    elif fault == DISK_FULL:
        from tests.slurm_cluster.stand_in_node import fill

        write = vars(run)["write_atomic"]

        def fill_first(path: Path, text: str) -> None:
            if path.name == "record.json":
                fill(path.with_name("fill"))
            write(path, text)

        vars(run)["write_atomic"] = fill_first
    else:
        vars(run)["run_attention"] = functools.partial(_raise, fault)


def _raise(fault: str, *_: object) -> None:
    if fault == LIBRARY:
        ctypes.CDLL("libnot_there.so.9")
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


if __name__ == "__main__":
    main(sys.argv[1:])
