"""The record describes the node and its software, and carries no secret."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch

from jobs.node import environment
from jobs.node.environment import (
    gather_environment,
    package_version,
    recorded_variables,
    source_change,
)
from jobs.source import SourceState
from tests.jobs.node.points import point, point_file


def test_libraries_and_host_are_those_of_this_process(tmp_path: Path) -> None:
    found = gather_environment(point_file(tmp_path, point()))
    assert found.host == socket.gethostname()
    assert found.torch == torch.__version__
    assert found.triton == package_version("triton")
    assert found.gpu_count == (torch.cuda.device_count() if torch.cuda.is_available() else 0)
    assert found.cpu


def test_without_git_the_source_is_that_noted_at_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "source_state", SourceState)
    noted = {"commit": "c0ffee", "dirty": True, "dirty_hash": "d1", "image": "pytorch:25.09"}
    found = gather_environment(point_file(tmp_path, point(), **noted))
    assert {key: getattr(found, key) for key in noted} == noted


@pytest.mark.parametrize(
    ("submitted", "changes"),
    [
        ({"commit": "c0ffee", "dirty_hash": "d2"}, 0),
        ({"commit": "c0ffee", "dirty_hash": "d1"}, 1),
        ({"commit": "beef", "dirty_hash": "d2"}, 1),
        ({}, 0),
    ],
)
def test_code_that_changed_after_submission_is_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: dict[str, str], changes: int
) -> None:
    monkeypatch.setattr(environment, "source_state", lambda: SourceState("c0ffee", True, "d2"))
    given = point_file(tmp_path, point(), **submitted)
    assert len(source_change(given, gather_environment(given))) == changes


def test_variables_that_change_a_run_are_recorded_and_secrets_are_not() -> None:
    recorded = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "NCCL_DEBUG", "NVTE_FUSED_ATTN",
                "SLURM_JOB_ID")  # fmt: skip
    others = ("SLURM_JWT_TOKEN", "NVIDIA_API_KEY", "HOME", "HF_TOKEN")
    assert tuple(recorded_variables(dict.fromkeys((*others, *recorded), "x"))) == recorded


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert package_version("no-such-package") is None
