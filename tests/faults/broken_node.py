"""The real node, broken in one way: `python broken_node.py FAULT -m jobs.node POINT ATTEMPT`."""

from __future__ import annotations

import ctypes
import functools
import runpy
import sys
from pathlib import Path

GPU_MEMORY, LIBRARY, NAN, DISK_FULL = "gpu memory", "library", "nan", "disk full"


def install(folder: Path, fault: str) -> Path:
    """Write a program that replaces the node's Python, break its points, and return its path."""
    from tests.builders.programs import write_python

    return write_python(folder / "broken-python", "-P", __file__, fault)


def main(words: list[str]) -> None:
    """Break the node, then run `jobs.node`."""
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
