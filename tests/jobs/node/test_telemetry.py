"""NVML's readings have units, and only what slows a GPU down counts as throttling."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from jobs.node.telemetry import Telemetry, reason_names
from jobs.record import TelemetrySample


class FakeNvmlError(Exception):
    """Stands for pynvml.NVMLError."""


def fake_nvml(bits: int, *, power_limit: Any = 700_000) -> ModuleType:  # noqa: ANN401
    def missing(*_: object) -> None:
        raise FakeNvmlError("Not Supported")

    module = ModuleType("pynvml")
    module.__dict__.update(
        NVMLError=FakeNvmlError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: bits,
        nvmlDeviceGetPowerUsage=lambda handle: 512_500,
        nvmlDeviceGetEnforcedPowerLimit=(
            missing if power_limit is None else lambda handle: power_limit
        ),
        nvmlDeviceGetClockInfo=lambda handle, kind: {1: 1755, 2: 3201}[kind],
        nvmlDeviceGetTemperature=lambda handle, kind: 61,
    )
    return module


@pytest.mark.parametrize(
    ("bits", "names", "throttled"),
    [
        (0x0, [], False),
        (0x1, ["gpu_idle"], False),
        (0x4, ["sw_power_cap"], False),
        (0x8, ["hw_slowdown"], True),
        (0x20, ["sw_thermal_slowdown"], True),
        (0x40 | 0x4, ["hw_thermal_slowdown", "sw_power_cap"], True),
        (0x80, ["hw_power_brake_slowdown"], True),
    ],
)
def test_each_reason_has_its_name_and_its_meaning(
    bits: int, names: list[str], throttled: bool
) -> None:
    assert reason_names(bits) == names
    sample = TelemetrySample(when="during", throttle_reasons=reason_names(bits))
    assert sample.throttled is throttled


def test_a_reading_has_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(0x40))
    (sample,) = Telemetry("GPU-1").samples("during")
    assert sample.when == "during"
    assert (sample.sm_clock_mhz, sample.memory_clock_mhz) == (1755, 3201)
    assert (sample.power_watt, sample.power_limit_watt) == (512.5, 700)
    assert sample.temperature_celsius == 61
    assert sample.throttle_reasons == ["hw_thermal_slowdown"]


def test_a_figure_that_the_driver_does_not_have_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(0, power_limit=None))
    sample = Telemetry("GPU-1").sample("before")
    assert sample.power_limit_watt is None
    assert sample.power_watt == 512.5


def test_without_nvml_nothing_is_read_and_the_reason_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    telemetry = Telemetry("GPU-1")
    assert telemetry.samples("before") == []
    assert telemetry.missing is not None


def test_a_cpu_has_no_telemetry_and_misses_nothing() -> None:
    telemetry = Telemetry(None)
    assert telemetry.samples("before") == []
    assert telemetry.missing is None
