"""On which GPUs, by which software and from which sources the records of the page were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from conf.choices import Job
from jobs.record import Probe
from jobs.text import pluralize
from tools.gpu.records import Named
from tools.gpu.tables import table


def machine_table(named: list[Named]) -> str:
    """Every fact of the records' environments; one that differs is told with its counts.

    Args:
        named: At least one record.

    Returns:
        A Markdown table.
    """
    found = [n.record.environment for n in named]
    uuids = {one.gpu_uuid for one in found if one.gpu_uuid}
    more = f"; {len(uuids)} such GPUs by their ids" if len(uuids) > 1 else ""
    rows = [
        (
            "GPU",
            _each(
                f"{one.gpu_name}, {one.gpu_memory_gib or 0:.0f} GiB, driver {one.driver}"
                for one in found
            )
            + more,
        ),
        (
            "Software",
            _each(
                f"torch {one.torch}, CUDA {one.cuda}, triton {one.triton}, "
                f"Transformer Engine {one.transformer_engine}"
                for one in found
            ),
        ),
        (
            "cuDNN",
            _each(
                f"PyTorch {one.cudnn_torch or 'unknown'}, "
                f"Transformer Engine {one.cudnn_transformer_engine or 'unknown'}"
                for one in found
            ),
        ),
        (
            "Source",
            _each(
                f"{(one.commit or 'unknown')[:7]}{' and changes' if one.dirty else ''}"
                for one in found
            ),
        ),
    ]
    for name, is_probe in (("Fingerprint of job=probe", True), ("Fingerprint of others", False)):
        probes = [
            n.record.probe
            for n in named
            if n.record.probe is not None and (n.point.job is Job.probe) is is_probe
        ]
        if probes:
            rows.append((name, _fingerprint(probes)))
    return table(("", ""), rows)


def _each(facts: Iterable[str]) -> str:
    counts = Counter(facts)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{fact} ({pluralize(count, 'record')})" for fact, count in counts.items())


def _fingerprint(probes: list[Probe]) -> str:
    facts = (
        ("copy", [probe.copy_gb_per_s for probe in probes], "GB/s"),
        ("BF16 matrix product", [probe.bf16_matmul_tflops for probe in probes], "TFLOP/s"),
        ("power limit", [probe.power_limit_watt for probe in probes], "W"),
    )
    words = [f"{name} {span} {unit}" for name, values, unit in facts if (span := _span(values))]
    return f"{', '.join(words)} ({pluralize(len(probes), 'record')})"


def _span(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    return low if low == high else f"{low} to {high}"
