"""Registers the types of conf/ with Hydra, under /schema, so that every YAML file is checked."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore

from conf import verbs
from conf.schema import RECIPES, TOLERANCES

VERB_SCHEMAS: dict[str, type] = {
    "run": verbs.Run,
    "sweep": verbs.Sweep,
    "collect": verbs.Collect,
    "doctor": verbs.Doctor,
}


def register() -> None:
    """Stores every schema; calling it again changes nothing."""
    store = ConfigStore.instance()
    for verb, schema in VERB_SCHEMAS.items():
        store.store(group="schema/verb", name=verb, node=schema)
    for recipe, schema in RECIPES.items():
        store.store(group="schema/recipe", name=recipe.name, node=schema)
    for tolerance, schema in TOLERANCES.items():
        store.store(group="schema/tolerance", name=tolerance.name, node=schema)
