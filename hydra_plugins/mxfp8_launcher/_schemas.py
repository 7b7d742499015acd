"""Registers the types of conf/ with Hydra, as `schema_...`, so that it checks every file."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore

from conf.schema import RECIPES, TOLERANCES
from hydra_plugins.mxfp8_launcher import _config_folder
from jobs.verbs.table import VERBS


def register() -> None:
    """Store every schema; calling it again changes nothing."""
    _config_folder.register()
    store = ConfigStore.instance()
    for name, verb in VERBS.items():
        store.store(name=f"schema_{name}", node=verb.config)
    for recipe, schema in RECIPES.items():
        store.store(name=f"schema_recipe_{recipe.name}", node=schema)
    for tolerance, kind in TOLERANCES.items():
        store.store(name=f"schema_tolerance_{tolerance.name}", node=kind)
