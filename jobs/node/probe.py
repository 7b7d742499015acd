"""A node's fingerprint: copy bandwidth, matrix product rate, clocks, power limit, ECC.

Half a second before every attention job, about ten seconds as a job of its own. It shows a bad
node, but not a regression of the attention path.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

from jobs.node.clock import CudaClock
from jobs.node.telemetry import Telemetry
from jobs.record import Environment, Probe

_COPY_BYTES = 4 * 2**30
_MATRIX = 8192


def fingerprint(environment: Environment, telemetry: Telemetry, *, long: bool) -> Probe | None:
    """Measure the GPU by itself; None without a GPU."""
    if environment.gpu_name is None:
        return None
    repeats = 1000 if long else 8
    size = min(_COPY_BYTES, int((environment.gpu_memory_gib or 8) * 2**30 // 16))
    ecc = telemetry.query("nvmlDeviceGetEccMode")
    copy_gb_per_s, matmul_tflops = _copy_gb_per_s(size, repeats), _matmul_tflops(repeats * 4)
    torch.cuda.empty_cache()
    return Probe(
        copy_gb_per_s=round(copy_gb_per_s, 1),
        bf16_matmul_tflops=round(matmul_tflops, 1),
        ecc_enabled=None if ecc is None else bool(ecc[0]),
        # Uncorrected errors since the driver was loaded: NVML's error type 1, counter type 0.
        ecc_errors=telemetry.query("nvmlDeviceGetTotalEccErrors", 1, 0),
        max_sm_clock_mhz=telemetry.query("nvmlDeviceGetMaxClockInfo", 1),
        power_limit_watt=telemetry.sample("probe").power_limit_watt,
    )


def _copy_gb_per_s(size: int, repeats: int, device: str = "cuda") -> float:
    source = torch.empty(size, dtype=torch.int8, device=device).random_(0, 100)
    target = torch.empty_like(source)
    seconds = _median_s(lambda: target.copy_(source), repeats)
    return 2 * size / seconds / 1e9  # each byte is read and written


def _matmul_tflops(repeats: int, device: str = "cuda") -> float:
    generator = torch.Generator(device).manual_seed(0)
    # Random, not zeros: zeros draw less power and run faster than real data.
    left, right = (
        torch.randn((_MATRIX, _MATRIX), device=device, dtype=torch.bfloat16, generator=generator)
        for _ in range(2)
    )
    out = torch.empty_like(left)
    seconds = _median_s(lambda: torch.matmul(left, right, out=out), repeats)
    return 2 * _MATRIX**3 / seconds / 1e12


def _median_s(work: Callable[[], object], repeats: int) -> float:
    clock = CudaClock()
    for _ in range(3):
        work()
    for _ in range(repeats):
        clock.measure(work)
    return statistics.median(clock.read_ms()) / 1e3
