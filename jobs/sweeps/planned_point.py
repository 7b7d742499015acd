"""A planned point: one line of `plan.jsonl`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from conf.plain import from_plain
from conf.schema import Point
from conf.site import Cluster, Launch
from jobs.errors import LedgerError
from jobs.record import Model, config_value
from jobs.sweeps.source import Source

PLAN_NAME = "plan.jsonl"
_Config = TypeVar("_Config")


class PlannedPoint(Model):
    """One line of `plan.jsonl`.

    Attributes:
        point_id: Hash of what decides the result.
        index: Position in the plan.
        config: Configuration of the point.
        site: Cluster and launch configuration that it runs with.
        choices: Values of the sweep's axes.
        unsupported: Reason why no node can run it, if that is known.
    """

    point_id: str
    index: int
    config: dict[str, Any]
    site: dict[str, Any] = Field(default_factory=dict)
    choices: dict[str, str] = Field(default_factory=dict)
    unsupported: str | None = None

    @property
    def label(self) -> str:
        """Values of the sweep's axes, or the main settings if there are none."""
        names = ("gpu", "shape", "recipe")
        settings = {name: config_value(self.config, f"{name}.name") for name in names}
        choices = self.choices or {key: name for key, name in settings.items() if name is not None}
        return " ".join(f"{key}={value}" for key, value in choices.items()) or self.point_id

    def typed_config(self) -> Point:
        """Return the configuration with its types; LedgerError if the plan is damaged."""
        return self._typed(Point, self.config, "config")

    def typed_site(self) -> tuple[Cluster, Launch]:
        """Return cluster and launch with their types; LedgerError if the plan is damaged."""
        cluster = self._typed(Cluster, self.site.get("cluster"), "site.cluster")
        return cluster, self._typed(Launch, self.site.get("launch"), "site.launch")

    def _typed(self, kind: type[_Config], plain: object, key: str) -> _Config:
        try:
            config: _Config = from_plain(kind, plain, key)
        except ValueError as error:
            problem = f"is damaged at {self.point_id}: {error}"
            raise LedgerError(Path(PLAN_NAME), problem) from error
        return config


def point_id(config: dict[str, Any], cluster: Cluster, source: Source) -> str:
    """Return a short hash of what decides a result; never of partition, node or folder."""
    container = cluster.container
    parts = {
        "config": config,
        "commit": source.commit,
        "dirty_hash": source.dirty_hash,
        "python": container.python if container.image is not None else cluster.python,
        "setup": cluster.setup,
        "env": cluster.env,
        "image": container.image,
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "p-" + hashlib.sha256(text.encode()).hexdigest()[:12]
