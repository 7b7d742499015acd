"""A ledger is written whole before anything starts, or removed."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from conf.choices import Backend, RecipeName
from conf.plain import from_plain
from conf.schema import Point
from conf.verbs import Run
from jobs.errors import LedgerError
from jobs.sweeps import new_sweep
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.new_sweep import software, write_ledger
from tests.jobs.sweeps.configs import SOURCE, plan_of


def write(config: Run, ledger: Ledger) -> None:
    write_ledger(plan_of(config), ledger, verb="run", command="python launch.py")


def test_the_ledger_holds_everything_that_a_node_needs(config: Run, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path)
    write(config, ledger)
    (point,) = ledger.plan()
    content = json.loads(ledger.point_file(point.point_id).read_text())
    assert (content["point_id"], content["sweep_id"]) == (point.point_id, ledger.sweep_id)
    assert (content["commit"], content["dirty"], content["dirty_hash"]) == ("c0ffee", True, "d1")
    assert content["command"] == "python launch.py"
    typed = from_plain(Point, content["point"])
    assert (typed.backend, typed.recipe.name) == (Backend.emulated, RecipeName.mxfp8)
    info = ledger.info()
    assert (info.verb, info.cluster, info.scheduler, info.points) == ("run", "local", "local", 1)
    assert info.source == SOURCE
    assert {"python", "torch", "hydra-core", "submitit", "pydantic"} <= set(software())
    assert ledger.jobs() == []


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_ledger_that_was_not_written(
    config: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(path: Path, _text: str) -> None:
        path.write_text("half")
        raise error

    monkeypatch.setattr(new_sweep, "write_atomic", fail)
    with pytest.raises((LedgerError, KeyboardInterrupt)) as caught:
        write(config, Ledger.create(tmp_path))
    if isinstance(caught.value, LedgerError):
        assert (caught.value.path, caught.value.remedy) == (tmp_path, "nothing was started")
    assert list(tmp_path.iterdir()) == []
