"""Hydra's sweeper of this project: hands every composed point to the planner at once.

It composes all of them before anything starts, so that a bad value in any point stops the whole
command; it launches nothing itself and writes no file.
"""

from __future__ import annotations

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.mxfp8_launcher._composition import axes_of, compose_all, grid_of, parse

# Data, not a dataclass: Hydra loads plugin modules without naming them in sys.modules, where a
# dataclass looks for its annotations. Modules that begin with an underscore are imported normally.
ConfigStore.instance().store(
    group="hydra/sweeper",
    name="planner",
    node={"_target_": "hydra_plugins.mxfp8_launcher.planner_sweeper.PlannerSweeper"},
)


class PlannerSweeper(Sweeper):
    """Composes the points of a multirun and calls the verb once, with all of them."""

    def __init__(self) -> None:
        self._context: HydraContext | None = None
        self._verb: TaskFunction | None = None
        self._master: DictConfig | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps what Hydra gives, and makes no launcher."""
        self._context, self._verb, self._master = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> object:
        """Composes every point, then calls the verb with the list.

        Args:
            arguments: The command line's words, without Hydra's own.

        Returns:
            What the verb returns.

        Raises:
            UsageError: A point that cannot be; nothing was started.
        """
        assert self._context is not None
        assert self._verb is not None
        assert self._master is not None
        loader = self._context.config_loader
        fixed, axes = axes_of(parse(loader, arguments), grid_of(self._master), loader)
        return self._verb(list(compose_all(loader, self._master, fixed, axes)))
