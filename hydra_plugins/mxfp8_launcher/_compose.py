"""Composes the configuration of one command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra

from hydra_plugins.mxfp8_launcher._refusals import REFUSALS, refusal
from hydra_plugins.mxfp8_launcher._schemas import register
from hydra_plugins.mxfp8_launcher._typed import named, typed
from jobs.errors import InvalidValue
from jobs.verbs.command_line import CommandLine
from jobs.verbs.table import VERBS


def compose(line: CommandLine, config_path: str) -> Any:  # noqa: ANN401 - a verb's configuration
    """Return the verb's configuration, or the points of a sweep.

    Returns None if a flag asked Hydra to print something, which it has done by then. What Hydra
    refuses is raised as a JobError.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise exceptions instead of exiting
    register()
    _check_config_dir(line.hydra)
    composed: list[Any] = []
    multirun = VERBS[line.verb].many and not line.shows_only
    argv, sys.argv = sys.argv, [sys.argv[0], *line.hydra, *(["--multirun"] if multirun else [])]
    try:
        if {"--help", "-h"} & set(line.hydra):
            from hydra_plugins.mxfp8_launcher._help import help_text

            print(help_text(line.verb, line.hydra, config_path))
            return None
        hydra.main(config_path=config_path, config_name=line.verb, version_base="1.3")(
            lambda config: composed.append(config if isinstance(config, list) else named(config))
        )()
        if not composed or isinstance(composed[0], list):
            return composed[0] if composed else None
        return typed(composed[0])
    except REFUSALS as error:
        raise refusal(error, line.hydra) from error
    finally:
        sys.argv = argv


def _check_config_dir(words: Sequence[str]) -> None:
    for word in words:
        flag, _, folder = word.partition("=")
        if flag == "--config-dir" and not Path(folder).is_dir():
            raise InvalidValue(flag, "name an existing folder", folder)
