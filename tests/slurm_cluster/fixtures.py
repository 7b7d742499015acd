"""Pytest fixtures that give a test the session's SLURM cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

if TYPE_CHECKING:  # a plugin itself: pytest must be the first to import it
    from tests.launcher import Launcher


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """The cluster that all `slurm` tests of a session share; skips if none can be started.

    It does not change this process's environment: pass `slurm_cluster.env` to a child, or use
    the fixture `slurm_env` if the code under test runs in this process.
    """
    if reason := missing_requirement():
        pytest.skip(reason)
    with SlurmCluster() as cluster:
        yield cluster


def enter(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point this process's environment at a cluster for one test."""
    env = cluster.env
    for key in [key for key in os.environ if key not in env]:
        monkeypatch.delenv(key)
    for key in ("PATH", "SLURM_CONF"):
        monkeypatch.setenv(key, env[key])


@pytest.fixture
def slurm_env(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The session's cluster, with this process's environment pointing at it for one test."""
    enter(slurm_cluster, monkeypatch)
    return slurm_cluster


@pytest.fixture
def slurm_user(slurm_cluster: SlurmCluster, tmp_path: Path) -> SlurmUser:
    """A user of the session's cluster, with a folder of sweeps of its own."""
    return SlurmUser(slurm_cluster, tmp_path)


@pytest.fixture
def slurm_launcher(launcher: Launcher, slurm_env: SlurmCluster) -> Launcher:
    """launch.py in this process, on the session's cluster."""
    return launcher
