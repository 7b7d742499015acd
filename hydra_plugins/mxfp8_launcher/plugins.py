"""The plugins that Hydra finds here: the sweeper, and the user's config folder."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.mxfp8_launcher._config_folder import user_config_folder
from hydra_plugins.mxfp8_launcher._sweep import axes_of, compose_all, grid_of, parse
from jobs.errors import InvalidValue

ConfigStore.instance().store(
    group="hydra/sweeper",
    name="planner",
    node={"_target_": "hydra_plugins.mxfp8_launcher.plugins.PlannerSweeper"},
)


class PlannerSweeper(Sweeper):
    """Composes every point before anything starts, and calls the verb once with all of them.

    An invalid value in any point stops the whole command. No launcher is made, no file written.
    """

    def __init__(self) -> None:
        self._context: HydraContext | None = None
        self._verb: TaskFunction | None = None
        self._master: DictConfig | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep what `sweep` needs."""
        self._context, self._verb, self._master = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> object:
        """Compose every point of the overrides and call the verb with the list."""
        assert self._context is not None
        assert self._verb is not None
        assert self._master is not None
        loader = self._context.config_loader
        fixed, axes = axes_of(parse(loader, arguments), grid_of(self._master), loader)
        return self._verb(list(compose_all(loader, self._master, fixed, axes)))


class UserConfigFolder(SearchPathPlugin):
    """Appends the user's folder to the search path, so that it adds choices and hides none."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folder if it exists."""
        try:
            folder = user_config_folder()
        except InvalidValue:  # reported by `check_hidden`
            return
        if folder is not None:
            search_path.append(provider="user", path=f"file://{folder.resolve()}")
