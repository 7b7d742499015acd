"""From what Hydra composed to the dataclass of a verb."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from conf.rules import number_problems
from jobs.errors import InvalidConfig, UnknownName

NAMED_GROUPS = ("gpu", "shape", "benchmark", "cluster", "launch", "grid")


def named(config: DictConfig) -> DictConfig:
    """Return a copy whose groups without a name have that of the choice, which Hydra knows."""
    config = copy.deepcopy(config)
    _name_choices(config, HydraConfig.get().runtime.choices)
    return config


def without_hydra(config: DictConfig) -> DictConfig:
    """Name the choices of a composed configuration and remove Hydra's node."""
    choices = config.hydra.runtime.choices
    with open_dict(config):
        del config["hydra"]
    _name_choices(config, choices)
    check_keys(config)
    return config


def typed(config: DictConfig) -> Any:  # noqa: ANN401 - whichever verb's dataclass
    """Convert a composed configuration, without Hydra's node, to its dataclass."""
    check_keys(config)
    return to_dataclass(config)


def to_dataclass(config: DictConfig) -> Any:  # noqa: ANN401 - whichever verb's dataclass
    """Convert a configuration whose keys are known; every number must be usable."""
    converted = OmegaConf.to_object(config)
    problems = number_problems(converted)
    if problems:
        raise InvalidConfig(problems)
    return converted


def check_keys(config: DictConfig, prefix: str = "") -> None:
    """Refuse a key that its type does not have; `+key=value` can add one."""
    kind = OmegaConf.get_type(config)
    known = None
    if dataclasses.is_dataclass(kind):
        known = sorted(field.name for field in dataclasses.fields(kind))
    for key in map(str, config):
        name = f"{prefix}{key}"
        if known is not None and key not in known:
            raise UnknownName("key", name, None, known)
        if OmegaConf.is_missing(config, key) or OmegaConf.is_interpolation(config, key):
            continue
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_none():
            check_keys(node, f"{name}.")


def _name_choices(config: DictConfig, choices: Mapping[Any, Any]) -> None:
    for group in NAMED_GROUPS:
        if group in config and OmegaConf.is_missing(config[group], "name") and group in choices:
            config[group].name = str(choices[group]).rpartition("/")[2]
