"""The fingerprint of a node counts the bytes moved and the operations done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jobs.node import probe
from jobs.node.telemetry import Telemetry
from jobs.record import Environment


@pytest.fixture(autouse=True)
def _one_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    def median_s(work: Callable[[], object], repeats: int) -> float:
        work()
        return 1e-3

    monkeypatch.setattr(probe, "_median_s", median_s)
    monkeypatch.setattr(probe, "_MATRIX", 64)


def test_a_copied_byte_is_read_and_written() -> None:
    assert probe._copy_gb_per_s(1_000_000, 1, "cpu") == pytest.approx(2.0)


def test_a_multiplication_and_an_addition_are_two_operations() -> None:
    assert probe._matmul_tflops(1, "cpu") == pytest.approx(2 * 64**3 / 1e9)


def test_without_a_gpu_there_is_no_fingerprint() -> None:
    assert probe.fingerprint(Environment(), Telemetry(None), long=True) is None
