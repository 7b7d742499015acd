"""The same sweep through hydra-submitit-launcher: run by `benchmarks.sweep` with its own Python.

It composes this repository's configuration, point by point as Hydra's own sweeper does, and hands
the points to SLURM through Hydra's launcher. What a point would do does not matter here.
"""

from __future__ import annotations

from pathlib import Path

import hydra
from omegaconf import DictConfig

from hydra_plugins.mxfp8_launcher._schemas import register

CONF = Path(__file__).resolve().parents[1] / "conf"


def point(config: DictConfig) -> None:
    """Stands for a point's work."""


if __name__ == "__main__":
    register()
    hydra.main(config_path=str(CONF), config_name="run", version_base="1.3")(point)()
