"""Clocks, power, temperature and throttling as NVML sees them; nothing on a CPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from jobs.record import TelemetrySample

# NVML's reasons for a lower clock, by the name of their bit. `jobs.record.THROTTLING` names those
# that make a block unfit for a verdict.
_THROTTLING = {
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
_OTHER_REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "sync_boost": 0x10,
    "display_clock_setting": 0x100,
}


def reason_names(bits: int) -> list[str]:
    """The names of the reasons whose bits are set.

    Args:
        bits: What `nvmlDeviceGetCurrentClocksEventReasons` returned.

    Returns:
        Names, those that throttle first.
    """
    return [name for name, bit in (_THROTTLING | _OTHER_REASONS).items() if bits & bit]


class Telemetry:
    """Reads one GPU through NVML; every figure it cannot read is None.

    Args:
        gpu_uuid: The GPU as NVML names it; None reads nothing.
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
        except Exception as error:  # NVML is absent in some containers, in several ways
            self.missing = f"NVML cannot be read: {type(error).__name__}: {error}"

    def reasons(self) -> list[str]:
        """Why the clocks are where they are, at this moment."""
        bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return reason_names(bits) if bits is not None else []

    def sample(self, when: str) -> TelemetrySample:
        """Reads clocks, power, temperature and reasons.

        Args:
            when: before, during or after.

        Returns:
            The reading.
        """
        power_mw = self.ask("nvmlDeviceGetPowerUsage")
        limit_mw = self.ask("nvmlDeviceGetEnforcedPowerLimit")
        return TelemetrySample(
            when=when,
            sm_clock_mhz=self.ask("nvmlDeviceGetClockInfo", 1),
            memory_clock_mhz=self.ask("nvmlDeviceGetClockInfo", 2),
            power_watt=None if power_mw is None else power_mw / 1000,
            power_limit_watt=None if limit_mw is None else limit_mw / 1000,
            temperature_celsius=self.ask("nvmlDeviceGetTemperature", 0),
            throttle_reasons=self.reasons(),
        )

    def samples(self, when: str) -> list[TelemetrySample]:
        """One reading in a list, none where there is no GPU to read."""
        return [self.sample(when)] if self._nvml is not None else []

    def ask(self, function: str, *arguments: int) -> Any:  # noqa: ANN401 - NVML's own types
        """Calls one NVML function on this GPU.

        Args:
            function: Its name in pynvml.
            arguments: What follows the device handle.

        Returns:
            Its answer, None where this machine has none.
        """
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None
