"""The record says what ran where, and carries no secret."""

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


def test_where_there_is_no_git_the_submitters_words_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "source_state", SourceState)
    noted = {"commit": "c0ffee", "dirty": True, "dirty_hash": "d1", "image": "pytorch:25.09"}
    found = gather_environment(point_file(tmp_path, point(), **noted))
    assert (found.commit, found.dirty, found.dirty_hash) == ("c0ffee", True, "d1")
    assert found.image == "pytorch:25.09"


def test_code_that_changed_after_submission_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "source_state", lambda: SourceState("c0ffee", True, "d2"))
    same = point_file(tmp_path, point(), commit="c0ffee", dirty_hash="d2")
    assert source_change(same, gather_environment(same)) == []
    edited = point_file(tmp_path, point(), commit="c0ffee", dirty_hash="d1")
    (told,) = source_change(edited, gather_environment(edited))
    assert told == (
        "the code changed after submission: c0ffee (d1) was submitted, c0ffee (d2) runs"
    )
    by_hand = point_file(tmp_path, point())
    assert source_change(by_hand, gather_environment(by_hand)) == []


def test_variables_that_change_a_run_are_recorded_and_secrets_are_not() -> None:
    variables = {
        "NVTE_FUSED_ATTN": "0",
        "CUDA_VISIBLE_DEVICES": "1",
        "SLURM_JOB_ID": "14",
        "NCCL_DEBUG": "INFO",
        "LD_LIBRARY_PATH": "/x",
        "SLURM_JWT_TOKEN": "x",
        "NVIDIA_API_KEY": "x",
        "HOME": "/root",
        "HF_TOKEN": "x",
    }
    assert set(recorded_variables(variables)) == {
        "NVTE_FUSED_ATTN",
        "CUDA_VISIBLE_DEVICES",
        "SLURM_JOB_ID",
        "NCCL_DEBUG",
        "LD_LIBRARY_PATH",
    }


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert package_version("no-such-package") is None
