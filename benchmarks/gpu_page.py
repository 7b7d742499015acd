"""Writes `docs/results/h200.md` and its plots from the committed records.

    python -m benchmarks.gpu_page

Every figure on the page is read from `docs/results/h200.jsonl` and `h200_harness.json`; the words
around them are here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.gpu_plots import draw_all
from benchmarks.gpu_records import Named, read_records
from jobs.node.report import RECIPE_LABELS
from jobs.record import Check, Outcome, Speedup

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
_TENSORS = ("q", "k", "v", "attention", "out", "dx", "dqkv_weight", "dout_weight")


def page(records: dict[str, Named], harness: dict[str, Any] | None) -> str:
    """The whole page.

    Args:
        records: By name.
        harness: What `benchmarks.harness` wrote, None where it did not run.

    Returns:
        Markdown.
    """
    named = list(records.values())
    parts = [
        "# Measured on an NVIDIA H200",
        "Made by `python -m benchmarks.gpu_page` from the records beside this page; every point "
        "ran by `python -m benchmarks.gpu_results`. Times are medians of interleaved blocks with "
        "the L2 cache flushed, in milliseconds; an interval is the 95 % bootstrap interval of the "
        "paired ratio. What needs Blackwell (MXFP8 in hardware, FP8 attention with head dims "
        "192/128) has **not yet run on such a GPU**: it is tested on constructed answers of the "
        "library, and the emulation says what errors to expect.",
        _machine(named),
        "## Recipes at shape=dsv3",
        _recipes(_group(named, "dsv3 bf16", "dsv3 fp8", "dsv3 mxfp8", "hopper_fp8")),
        "## Errors against FP32",
        "Relative L2 of each tensor, the recipe's arm and, beside it, the BF16 arm of the same "
        "run: what BF16 loses by itself.",
        _errors([n for n in named if n.record.validation is not None]),
        "## The harness costs nothing",
        _harness(harness),
        "## RoPE eager, RoPE in Triton, and the emulation",
        _paths(_group(named, "dsv3 bf16, eager", "dsv3 bf16, triton", "dsv3 mxfp8, emulated")),
        "## Models and sequence lengths",
        _shapes([n for n in named if n.record.benchmark and not _emulated(n)]),
        "![Speedup of FP8 in the linear layers](h200_speedup.svg)",
        "![Time against sequence length](h200_seq_len.svg)",
        "## Stage by stage",
        "Each stage by itself; `sum` is their sum, `whole` the step measured in one piece.",
        _stages([n for n in named if n.record.benchmark and not _emulated(n)]),
        "![Stages of the recipe's arm](h200_stages.svg)",
        "## Two cuDNNs on one machine",
        "This machine has a system cuDNN and the one bundled with PyTorch. Left as found, and "
        "with `CUDNN_HOME` and `LD_LIBRARY_PATH` set as the remedy says:",
        _cudnn(_group(named, "probe", "dsv2_lite bf16, cuDNN")),
    ]
    return "\n\n".join(parts) + "\n"


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


def _group(named: list[Named], *starts: str) -> list[Named]:
    return [n for n in named if n.name.startswith(starts)]


def _emulated(named: Named) -> bool:
    arm = named.arm("recipe")
    return arm is not None and arm.emulated


def _machine(named: list[Named]) -> str:
    environment = named[0].record.environment
    probe = next((n.record.probe for n in named if n.name == "probe"), None)
    rows = [
        ("GPU", f"{environment.gpu_name}, {environment.gpu_memory_gib:.0f} GiB, driver "
         f"{environment.driver}"),
        ("Software", f"torch {environment.torch}, CUDA {environment.cuda}, triton "
         f"{environment.triton}, Transformer Engine {environment.transformer_engine}"),
        ("cuDNN", f"PyTorch {environment.cudnn_torch}, Transformer Engine "
         f"{environment.cudnn_transformer_engine}"),
        ("Source", f"{environment.commit}{' and changes' if environment.dirty else ''}"),
    ]  # fmt: skip
    if probe is not None:
        rows.append(
            (
                "Fingerprint",
                f"copy {probe.copy_gb_per_s:.0f} GB/s, BF16 matrix product "
                f"{probe.bf16_matmul_tflops:.0f} TFLOP/s, power limit "
                f"{probe.power_limit_watt:.0f} W",
            )
        )
    return table(("", ""), rows)


def _recipes(named: list[Named]) -> str:
    rows = []
    for n in named:
        if n.name.count(",") or " s=" in n.name:
            continue
        ran = n.record.capability.attention_backend.get("recipe", "-")
        rows.append(
            (
                n.name,
                n.record.outcome.value,
                *_times(n),
                ran if n.record.benchmark else n.record.reason,
            )
        )
    header = ("point", "outcome", "fprop BF16 / recipe", "speedup", "bprop BF16 / recipe")
    return table((*header, "speedup", "attention that ran, or why not"), rows)


def _times(named: Named) -> tuple[str, ...]:
    benchmark = named.record.benchmark
    bf16, recipe = named.arm("bf16"), named.arm("recipe")
    if benchmark is None or bf16 is None or recipe is None:
        return ("-", "-", "-", "-")
    return (
        f"{bf16.fprop.median_ms:.3f} / {recipe.fprop.median_ms:.3f}",
        _ratio(benchmark.fprop_speedup),
        f"{bf16.bprop.median_ms:.3f} / {recipe.bprop.median_ms:.3f}",
        _ratio(benchmark.bprop_speedup),
    )


def _ratio(found: Speedup | None) -> str:
    if found is None:
        return "none: throttled"
    if found.claim == "emulated":
        return "none claimed"
    shown = f"{found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]"
    return f"{shown} (noise)" if found.claim == "noise" else shown


def _errors(named: list[Named]) -> str:
    def cell(n: Named, tensor: str) -> str:
        recipe, bf16 = n.error(tensor, "recipe"), n.error(tensor, "bf16")
        if recipe is None or bf16 is None:
            return "-"
        return f"{recipe.rel_l2:.2e} / {bf16.rel_l2:.1e}"

    rows = [(n.name, n.point.tolerance.name.name, *(cell(n, t) for t in _TENSORS)) for n in named]
    return table(("point (recipe / BF16)", "tolerance", *_TENSORS), rows)


def _harness(harness: dict[str, Any] | None) -> str:
    if harness is None:
        return "Not measured."
    same = json.dumps(harness["configuration"]) == json.dumps(harness["transformer_engine_test"])
    words = "equal" if same else "are NOT"
    rows = [
        (
            direction,
            f"{harness[direction]['bare_ms']:.3f}",
            f"{harness[direction]['harness_ms']:.3f}",
            f"{harness[direction]['difference']:+.2%}",
            f"{harness[direction]['harness_flushed_ms']:.3f}",
        )
        for direction in ("fprop", "bprop")
    ]
    header = ("BF16", "bare loop (ms)", "harness (ms)", "difference", "harness, L2 flushed (ms)")
    return (
        f"`python -m benchmarks.harness`: shape=dsv3 projection=split, whose modules {words} "
        f"those of Transformer Engine's own test (`{harness['configuration']}`), "
        f"{harness['samples']} samples each way, in one process.\n\n" + table(header, rows)
    )


def _paths(named: list[Named]) -> str:
    def cell(n: Named, tensor: str, arm: str) -> str:
        error = n.error(tensor, arm)
        return "-" if error is None else f"{error.rel_l2:.2e}"

    def rope(n: Named, arm: str, direction: str) -> str:
        stages = n.record.benchmark.stages if n.record.benchmark else []
        wanted = (arm, "rope", direction)
        found = (s.median_ms for s in stages if (s.arm, s.stage, s.direction) == wanted)
        return next((f"{ms:.3f}" for ms in found), "-")

    rows = []
    for n in named:
        recipe = n.arm("recipe")
        times = ("-", "-") if recipe is None else (
            f"{recipe.fprop.median_ms:.3f}", f"{recipe.bprop.median_ms:.3f}"
        )  # fmt: skip
        ropes = f"{rope(n, 'recipe', 'fprop')} / {rope(n, 'recipe', 'bprop')}"
        errors = (cell(n, tensor, "recipe") for tensor in ("q", "k", "out", "dx"))
        note = "emulated: checks this code, not hardware" if _emulated(n) else "measured"
        rows.append((n.name, *errors, *times, ropes, note))
    header = ("path", "q", "k", "out", "dx", "fprop (ms)", "bprop (ms)")
    return "Relative L2 against FP32 of the recipe's arm, and its times.\n\n" + table(
        (*header, "RoPE fprop / bprop (ms)", "times are"), rows
    )


def _shapes(named: list[Named]) -> str:
    def both(n: Named, pick: Callable[[Any], float | None], form: str) -> str:
        values = [pick(arm) for arm in (n.arm("bf16"), n.arm("recipe"))]
        return " / ".join("-" if v is None else format(v, form) for v in values)

    rows = []
    for n in named:
        rows.append(
            (
                n.name,
                RECIPE_LABELS[n.point.recipe.name],
                *_times(n),
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


def _stages(named: list[Named]) -> str:
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


def _cudnn(named: list[Named]) -> str:
    def said(check: Check) -> str:
        remedy = f" Remedy: {check.remedy}." if check.remedy else ""
        return f"{check.reason}.{remedy}"

    rows = []
    for n in named:
        check = next((c for c in n.record.capability.checks if c.name == "cuDNN"), None)
        outcome = n.record.outcome
        reason = n.record.reason if outcome is not Outcome.PASSED else ""
        ended = f"{outcome.value}{': ' if reason else ''}{reason}"
        rows.append((n.name, said(check) if check else "-", ended))
    return table(("point", "what it says of cuDNN", "outcome"), rows)


def main() -> None:
    """Reads the records, writes the page and the plots."""
    records = read_records(RESULTS / "h200.jsonl")
    harness_path = RESULTS / "h200_harness.json"
    harness = json.loads(harness_path.read_text()) if harness_path.exists() else None
    (RESULTS / "h200.md").write_text(page(records, harness), encoding="utf-8")
    draw_all(records, RESULTS)


if __name__ == "__main__":
    main()
