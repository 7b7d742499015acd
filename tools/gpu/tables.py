"""The tables of `docs/results/h200.md`, each from records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from conf.choices import Projection
from jobs.perf import RECIPE_LABELS
from jobs.record import Speedup
from tools.gpu.records import Named

_TENSORS = ("q", "k", "v", "attention", "out", "dx", "dqkv_weight", "dout_weight")
# What a split projection has instead of one weight.
_SPLIT = {"dqkv_weight": ("dq_weight", "dkv_weight")}


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table.

    Args:
        header: Column names.
        rows: Cells as text.

    Returns:
        Its lines.
    """
    head = list(header)
    lines = [head, ["---"] * len(head), *(list(row) for row in rows)]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines
    )


def is_emulated(named: Named) -> bool:
    """Whether the times of a record say nothing about hardware."""
    arm = named.arm("recipe")
    return arm is not None and arm.emulated


def times(named: Named) -> tuple[str, ...]:
    """Four cells: both arms' fprop, its speedup, both arms' bprop, its speedup."""
    benchmark = named.record.benchmark
    bf16, recipe = named.arm("bf16"), named.arm("recipe")
    if benchmark is None or bf16 is None or recipe is None:
        return ("-", "-", "-", "-")
    return (
        f"{bf16.fprop.median_ms:.3f} / {recipe.fprop.median_ms:.3f}",
        ratio(benchmark.fprop_speedup),
        f"{bf16.bprop.median_ms:.3f} / {recipe.bprop.median_ms:.3f}",
        ratio(benchmark.bprop_speedup),
    )


def ratio(found: Speedup | None) -> str:
    """A speedup with its interval, in the words of what it stands for."""
    if found is None:
        return "none: throttled"
    if found.claim == "emulated":
        return "none claimed"
    shown = f"{found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]"
    return f"{shown} (noise)" if found.claim == "noise" else shown


def error_table(named: list[Named]) -> str:
    """Relative L2 against FP32 of both arms, a row a point and a column a tensor."""
    rows = [
        (n.name, n.point.tolerance.name.name, *(_both_errors(n, t) for t in _TENSORS))
        for n in named
    ]
    return table(("point (recipe / BF16)", "tolerance", *_TENSORS), rows)


def _both_errors(named: Named, tensor: str) -> str:
    """The recipe's error against FP32, and what BF16 loses by itself; of both split weights."""
    split = named.point.shape.projection is Projection.split
    cells = []
    for name in _SPLIT.get(tensor, (tensor,)) if split else (tensor,):
        recipe, bf16 = named.error(name, "recipe"), named.error(name, "bf16")
        if recipe is None or bf16 is None:
            return "-"
        label = "" if name == tensor else f"{name} "
        cells.append(f"{label}{recipe.rel_l2:.2e} / {bf16.rel_l2:.1e}")
    return ", ".join(cells)


def rope_ms(named: Named, arm: str, direction: str) -> float | None:
    """RoPE's time as a stage of one arm, None where stages were not timed."""
    stages = named.record.benchmark.stages if named.record.benchmark else []
    wanted = (arm, "rope", direction)
    found = (s.median_ms for s in stages if (s.arm, s.stage, s.direction) == wanted)
    return next(found, None)


def path_table(named: list[Named]) -> str:
    """Agreement with FP32, times and memory of each way to compute the same layer."""

    def rope(n: Named, arm: str, direction: str) -> str:
        ms = rope_ms(n, arm, direction)
        return "-" if ms is None else f"{ms:.3f}"

    rows = []
    for n in named:
        recipe = n.arm("recipe")
        times = ("-", "-") if recipe is None else (
            f"{recipe.fprop.median_ms:.3f}", f"{recipe.bprop.median_ms:.3f}"
        )  # fmt: skip
        ropes = f"{rope(n, 'recipe', 'fprop')} / {rope(n, 'recipe', 'bprop')}"
        errors = (_both_errors(n, tensor) for tensor in ("q", "k", "out", "dx"))
        note = "emulated: checks this code, not hardware" if is_emulated(n) else "measured"
        memory = None if recipe is None else recipe.peak_memory_gib
        shown = "-" if memory is None else f"{memory:.1f}"
        rows.append((n.name, *errors, *times, ropes, shown, note))
    header = ("path (recipe / BF16)", "q", "k", "out", "dx", "fprop (ms)", "bprop (ms)")
    told = (
        "Relative L2 against FP32 of the recipe's arm and of the BF16 arm of the same run; times "
        "and peak memory of the recipe's arm."
    )
    columns = (*header, "RoPE fprop / bprop (ms)", "peak memory (GiB)", "times are")
    return f"{told}\n\n{table(columns, rows)}"


def shape_table(named: list[Named]) -> str:
    """Times, rates, shares, memory and first step, a row a point."""

    def both(n: Named, pick: Callable[[Any], float | None], form: str) -> str:
        values = [pick(arm) for arm in (n.arm("bf16"), n.arm("recipe"))]
        return " / ".join("-" if v is None else format(v, form) for v in values)

    rows = []
    for n in named:
        rows.append(
            (
                n.name,
                RECIPE_LABELS[n.point.recipe.name.name],
                *times(n),
                both(n, lambda a: a.fprop.tflops, ".0f"),
                both(n, lambda a: a.bprop.tflops, ".0f"),
                both(n, lambda a: a.fprop.share_of_peak, ".0%"),
                both(n, lambda a: a.fprop.share_of_roofline, ".0%"),
                both(n, lambda a: a.bprop.share_of_roofline, ".0%"),
                both(n, lambda a: a.peak_memory_gib, ".1f"),
                both(n, lambda a: a.first_iteration_ms, ".0f"),
            )
        )
    header = (
        "point",
        "recipe",
        "fprop (ms)",
        "speedup",
        "bprop (ms)",
        "speedup",
        "fprop TFLOP/s",
        "bprop TFLOP/s",
        "fprop of peak",
        "fprop of roofline",
        "bprop of roofline",
        "peak memory (GiB)",
        "first step (ms)",
    )
    return "BF16 / recipe in each cell.\n\n" + table(header, rows)


def stage_table(named: list[Named]) -> str:
    """Each stage's time and share of the roofline, their sum, and the whole."""
    rows = []
    for n in named:
        stages = n.record.benchmark.stages if n.record.benchmark else []
        for arm in dict.fromkeys(stage.arm for stage in stages):
            for direction in ("fprop", "bprop"):
                own = [s for s in stages if (s.arm, s.direction) == (arm, direction)]
                figures = n.arm(arm)
                assert figures is not None
                cells = [
                    f"{s.median_ms:.3f}"
                    + ("" if s.share_of_roofline is None else f" ({s.share_of_roofline:.0%})")
                    for s in own
                ]
                total = sum(s.median_ms for s in own)
                whole = getattr(figures, direction).median_ms
                rows.append((n.name, arm, direction, *cells, f"{total:.3f}", f"{whole:.3f}"))
    header = ("point", "arm", "", "qkv", "rope", "attention", "out", "sum", "whole")
    return "Milliseconds, and the share of the roofline.\n\n" + table(header, rows)
