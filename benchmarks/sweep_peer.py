"""The same sweep with hydra-submitit-launcher, started by `benchmarks.sweep`.

Hydra's own sweeper composes this repository's configuration point by point, and Hydra's launcher
submits the points to SLURM. The points do nothing.
"""

from __future__ import annotations

from pathlib import Path

import hydra
from omegaconf import DictConfig

from hydra_plugins.mxfp8_launcher._schemas import register

CONF = Path(__file__).resolve().parents[1] / "conf"


def point(config: DictConfig) -> None:
    """Do nothing instead of a point's work."""


if __name__ == "__main__":
    register()
    hydra.main(config_path=str(CONF), config_name="run", version_base="1.3")(point)()
