"""Registers with Hydra what checks each file: types of conf/ as `schema_...`, and a reader."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore

from conf import verbs
from conf.schema import RECIPES, TOLERANCES
from hydra_plugins.mxfp8_launcher import _own_files

VERB_SCHEMAS: dict[str, type] = {
    "run": verbs.Run,
    "sweep": verbs.Sweep,
    "collect": verbs.Collect,
    "compare": verbs.Compare,
    "baseline": verbs.Baseline,
    "history": verbs.History,
    "status": verbs.Status,
    "logs": verbs.Logs,
    "cancel": verbs.Cancel,
    "resume": verbs.Resume,
    "repro": verbs.Repro,
}


def register() -> None:
    """Stores every schema; calling it again changes nothing."""
    _own_files.register()
    store = ConfigStore.instance()
    for verb, schema in VERB_SCHEMAS.items():
        store.store(name=f"schema_{verb}", node=schema)
    for recipe, schema in RECIPES.items():
        store.store(name=f"schema_recipe_{recipe.name}", node=schema)
    for tolerance, schema in TOLERANCES.items():
        store.store(name=f"schema_tolerance_{tolerance.name}", node=schema)
