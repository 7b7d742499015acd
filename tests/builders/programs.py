"""Small programs in place of a real one: the node's interpreter, or SLURM's commands."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest


def write_program(path: Path, script: str, interpreter: str = "/bin/sh") -> Path:
    """Write an executable script and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{interpreter}\n{script}\n", newline="")
    path.chmod(0o755)
    return path


def write_python(path: Path, *words: str) -> Path:
    """Write a program that runs Python with some words before its own and return its path."""
    return write_program(path, f'exec {shlex.join([sys.executable, *words])} "$@"')


def install_scheduler(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Put shell scripts first on the PATH in place of `sbatch`, `squeue` or `sacct`."""
    for name, script in scripts.items():
        write_program(folder / "bin" / name, script)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
