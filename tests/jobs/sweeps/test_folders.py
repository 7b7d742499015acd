"""The folders of sweeps and collections are in the checkout unless named."""

from __future__ import annotations

from pathlib import Path

import pytest

from conf.verbs import Places
from jobs.errors import InvalidValue
from jobs.sweeps.folders import results_dir, runs_dir
from jobs.sweeps.source import CHECKOUT


def test_folders_are_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_dir(Places()) == CHECKOUT / "runs"
    assert results_dir(Places()) == CHECKOUT / "results"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    places = Places(runs_dir="here", results_dir="~/there")
    assert runs_dir(places) == tmp_path / "here"
    assert results_dir(places) == Path("/home/me/there")
    with pytest.raises(InvalidValue) as refused:
        runs_dir(Places(runs_dir=" "))
    assert refused.value.key == "runs_dir"
