"""The folders of all sweeps and of all collections."""

from __future__ import annotations

import os
from pathlib import Path

from conf.verbs import Places
from jobs.errors import InvalidValue
from jobs.sweeps.source import CHECKOUT


def runs_dir(config: Places) -> Path:
    """Return the folder of all sweeps: `runs_dir`, by default `runs/` in the checkout."""
    return _folder("runs_dir", config.runs_dir, "runs")


def results_dir(config: Places) -> Path:
    """Return the folder of all collections: `results_dir`, by default `results/`."""
    return _folder("results_dir", config.results_dir, "results")


def _folder(key: str, value: str | None, default: str) -> Path:
    if value is None:
        return CHECKOUT / default
    if not value.strip():
        raise InvalidValue(key, "name a folder", repr(value), f"leave it out for {default}/")
    return Path(os.path.realpath(os.path.expanduser(value)))
