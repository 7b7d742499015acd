"""Writes `docs/results/h200.md` and its plots from the committed records.

    python -m tools.gpu.page

Every figure on the page is read from `h200.jsonl` and `h200_harness.json`, `h200_rope.json` and
`h200_checks.json` beside it in `docs/results`; the words around them are here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conf.choices import Profiler
from jobs.record import Check, Outcome
from jobs.text import join_sentences, strip_full_stop
from tools.gpu.machine import machine_table
from tools.gpu.plots import draw_all
from tools.gpu.records import Named, read_records
from tools.gpu.rope_table import rope_kernels
from tools.gpu.tables import (
    error_table,
    path_table,
    rope_ms,
    shape_table,
    stage_table,
    table,
    times,
)

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def page(
    records: dict[str, Named],
    harness: dict[str, Any] | None,
    kernels: dict[str, Any] | None = None,
    checks: dict[str, Any] | None = None,
) -> str:
    """The whole page.

    Args:
        records: By name.
        harness: What `tools.gpu.harness` wrote, None where it did not run.
        kernels: What `tools.gpu.rope` wrote, None where it did not run.
        checks: What `tools.gpu.checks` wrote, None where it did not run.

    Returns:
        Markdown.
    """
    named = list(records.values())
    measured = [n for n in named if n.measured]
    parts = [
        "# Measured on an NVIDIA H200",
        "Made by `python -m tools.gpu.page` from the records beside this page; every point "
        "ran by `python -m tools.gpu.results`. Times are medians of interleaved blocks with "
        "the L2 cache flushed, in milliseconds; an interval is the 95 % bootstrap interval of the "
        "paired ratio. What needs Blackwell (MXFP8 in hardware, FP8 attention with head dims "
        "192/128) has **not yet run on such a GPU**: it is tested on constructed answers of the "
        "library, and the emulation says what errors to expect.",
        machine_table(named),
        "## Recipes at shape=dsv3",
        _recipes(_group(named, "dsv3 bf16", "dsv3 fp8", "dsv3 mxfp8", "hopper_fp8")),
        "## Errors against FP32",
        "Relative L2 of each tensor, the recipe's arm and, beside it, the BF16 arm of the same "
        "run: what BF16 loses by itself.",
        error_table([n for n in named if n.record.validation is not None]),
        "## What the harness costs",
        _harness(harness),
        "## RoPE eager, RoPE in Triton, and the emulation",
        path_table(_group(named, "dsv3 bf16, eager", "dsv3 bf16, triton", "dsv3 mxfp8, emulated")),
        *_rope_words(records, kernels),
        *([] if kernels is None else ["## The RoPE kernels", rope_kernels(kernels)]),
        "## Models and sequence lengths",
        shape_table(measured),
        "![Speedup of FP8 in the linear layers](h200_speedup.svg)",
        "![Time against sequence length](h200_seq_len.svg)",
        "## Stage by stage",
        "Each stage by itself; `sum` is their sum, `whole` the step measured in one piece. `rope` "
        "is another measure than that of `h200_rope.json`: see RoPE above. With a CUDA graph the "
        "whole is replayed, and its stages are launched one by one: their sum holds the time that "
        "launching takes.",
        stage_table(measured),
        "![Stages of the recipe's arm](h200_stages.svg)",
        "## Under a profiler",
        _profiles([n for n in named if n.point.benchmark.profile is not Profiler.none]),
        "## Tests, and compute-sanitizer",
        _checks(checks),
        "## Two cuDNNs on one machine",
        "This machine has a system cuDNN and the one bundled with PyTorch. Left as found, and "
        "with `CUDNN_HOME` and `LD_LIBRARY_PATH` set as the remedy says. `doctor` runs the probe "
        "and shows its answers:",
        _cudnn(_group(named, "probe", "dsv2_lite bf16, cuDNN")),
    ]
    return "\n\n".join(parts) + "\n"


def _group(named: list[Named], *starts: str) -> list[Named]:
    return [n for n in named if n.name.startswith(starts)]


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
                *times(n),
                ran if n.record.benchmark else n.record.reason,
            )
        )
    header = ("point", "outcome", "fprop BF16 / recipe", "speedup", "bprop BF16 / recipe")
    return table((*header, "speedup", "attention that ran, or why not"), rows)


def _rope_words(records: dict[str, Named], kernels: dict[str, Any] | None) -> list[str]:
    """Why RoPE as a stage takes longer than its kernels by themselves."""
    named = records.get("dsv3 bf16, triton RoPE")
    if kernels is None or named is None:
        return []
    alone_ms = kernels["totals"]["fused, q out of place"]["ms"]
    stage_ms = [rope_ms(named, "recipe", direction) for direction in ("fprop", "bprop")]
    if None in stage_ms:
        return []
    both_ms = sum(ms for ms in stage_ms if ms is not None)
    words = (
        f"`h200_rope.json` has {alone_ms:.3f} ms for RoPE forward and backward at this shape, "
        f"where the stage of the point with Triton took {both_ms:.3f} ms. Both are the Triton "
        "kernels, the fused layout, Q out of place, and data that is not in the L2. That file "
        "times the kernels alone, replayed as one CUDA graph. Here CUDA events stand around one "
        "call through autograd: launches and allocations count, and in the backward pass what "
        "joins the gradients of Q, K and V into one. `rope_kernel=auto`, which the other points "
        "ask for, is Triton on a GPU."
    )
    short, long = (records.get(f"dsv3 s={length} fp8_current") for length in (1024, 8192))
    short_ms, long_ms = (rope_ms(n, "recipe", "fprop") if n else None for n in (short, long))
    if short_ms is not None and long_ms is not None and short_ms > long_ms:
        words += (
            f" Below, the stage took {short_ms:.3f} ms forward at s=1024 and {long_ms:.3f} ms at "
            "s=8192, which has eight times the data: at short lengths such a figure is not the "
            "kernels' time."
        )
    return [words]


def _profiles(named: list[Named]) -> str:
    if not named:
        return "Not run."
    words = (
        "`benchmark.profile` adds an untimed pass under the profiler, with an NVTX range for each "
        "arm and stage, and keeps its file beside the record. nsys has not run on this GPU."
    )
    rows = [
        (n.name, check.name, "yes" if check.ok else "no", check.reason)
        for n in named
        for check in n.record.capability.checks
        if check.name.startswith("profile ")
    ]
    return words + "\n\n" + table(("point", "check", "kept", "file, or why not"), rows)


def _checks(checks: dict[str, Any] | None) -> str:
    if checks is None:
        return "Not run."
    on = checks["machine"]
    words = (
        f"`python -m tools.gpu.checks` on {on['gpu']}, torch {on['torch']}, triton "
        f"{on['triton']}, source {(on['commit'] or 'unknown')[:7]}. Tests that are skipped need "
        "Blackwell: they compare the quantizer with Transformer Engine's, byte for byte."
    )
    rows = [
        (f"`{one['command']}`", str(one["exit_code"]), join_sentences(*one["says"]))
        for one in checks["checks"]
    ]
    return words + "\n\n" + table(("command", "exit code", "what it says"), rows)


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
        f"`python -m tools.gpu.harness`: shape=dsv3 projection=split, whose modules {words} "
        f"those of Transformer Engine's own test (`{harness['configuration']}`), "
        f"{harness['samples']} samples each way, in one process.\n\n" + table(header, rows)
    )


def _cudnn(named: list[Named]) -> str:
    def said(check: Check) -> str:
        remedy = f"Remedy: {check.remedy}" if check.remedy else ""
        return f"{strip_full_stop(join_sentences(check.reason, remedy, by='. '))}."

    rows = []
    for n in named:
        check = next((c for c in n.record.capability.checks if c.name == "cuDNN"), None)
        outcome = n.record.outcome
        reason = n.record.reason if outcome is not Outcome.PASSED else ""
        if check and check.reason and check.reason in reason:
            reason = f"{check.name}, as said beside"
        ended = f"{outcome.value}{': ' if reason else ''}{reason}"
        rows.append((n.name, said(check) if check else "-", ended))
    return table(("point", "what it says of cuDNN", "outcome"), rows)


def main() -> None:
    """Reads the records, writes the page and the plots."""
    records = read_records(RESULTS / "h200.jsonl")
    harness_path = RESULTS / "h200_harness.json"
    harness = json.loads(harness_path.read_text()) if harness_path.exists() else None
    kernels = json.loads((RESULTS / "h200_rope.json").read_text())
    checks = json.loads((RESULTS / "h200_checks.json").read_text())
    text = page(records, harness, kernels, checks)
    (RESULTS / "h200.md").write_text(text, encoding="utf-8")
    draw_all(records, RESULTS)


if __name__ == "__main__":
    main()
