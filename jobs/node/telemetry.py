"""Clocks, power, temperature and throttling, read through NVML; nothing on a CPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from jobs.record import TelemetrySample

# Bits of NVML's reasons for a lower clock; those in `jobs.record.THROTTLING` first.
_REASONS = {
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "sync_boost": 0x10,
    "display_clock_setting": 0x100,
}


def reason_names(bits: int) -> list[str]:
    """Return the names of the reasons whose bits are set, those that throttle first."""
    return [name for name, bit in _REASONS.items() if bits & bit]


class Telemetry:
    """Reads one GPU through NVML; a figure that cannot be read is None.

    Args:
        gpu_uuid: The GPU in NVML; None reads nothing.

    Attributes:
        missing: Why a GPU cannot be read.
    """

    def __init__(self, gpu_uuid: str | None) -> None:
        self._nvml: ModuleType | None = None
        self._handle: Any = None
        self.missing: str | None = None
        if gpu_uuid is None:
            return
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            self._nvml = pynvml
        except Exception as error:  # some containers lack NVML, in several ways
            self.missing = f"cannot read NVML: {type(error).__name__}: {error}"

    def sample(self, when: str) -> TelemetrySample:
        """Read clocks, power, temperature and reasons; `when` is before, during or after."""
        power_mw = self.query("nvmlDeviceGetPowerUsage")
        limit_mw = self.query("nvmlDeviceGetEnforcedPowerLimit")
        reasons = self.query("nvmlDeviceGetCurrentClocksThrottleReasons")
        return TelemetrySample(
            when=when,
            sm_clock_mhz=self.query("nvmlDeviceGetClockInfo", 1),
            memory_clock_mhz=self.query("nvmlDeviceGetClockInfo", 2),
            power_watt=None if power_mw is None else power_mw / 1000,
            power_limit_watt=None if limit_mw is None else limit_mw / 1000,
            temperature_celsius=self.query("nvmlDeviceGetTemperature", 0),
            throttle_reasons=[] if reasons is None else reason_names(reasons),
        )

    def samples(self, when: str) -> list[TelemetrySample]:
        """Return one reading in a list, or none without a GPU."""
        return [self.sample(when)] if self._nvml is not None else []

    def query(self, function: str, *arguments: int) -> Any:  # noqa: ANN401 - NVML's own types
        """Call an NVML function on this GPU; None if it is not supported."""
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None
