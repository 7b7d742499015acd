"""The plots of `docs/results/h200.md`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conf.choices import RecipeName
from tools.gpu.records import Named

STAGE_COLOURS = {
    "qkv": "#4477aa",
    "rope": "#ccbb44",
    "attention": "#ee6677",
    "out": "#66ccee",
}


def draw_all(records: dict[str, Named], folder: Path) -> None:
    """Draws every plot.

    Args:
        records: By name.
        folder: Where the SVG files go.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    # The same records give the same bytes.
    mpl.rcParams.update({"svg.hashsalt": "mxfp8-attention", "svg.fonttype": "none"})
    measured = [n for n in records.values() if n.measured]
    _speedups([n for n in measured if n.point.recipe.name is not RecipeName.bf16], folder)
    _seq_len([n for n in measured if _on_the_curve(n)], folder)
    _stages([n for n in measured if n.record.benchmark and n.record.benchmark.stages], folder)


def _on_the_curve(named: Named) -> bool:
    plain = "cached" not in named.name and "eager" not in named.name
    return named.point.shape.name == "dsv3" and plain and (
        named.point.recipe.name is RecipeName.fp8_current
    )  # fmt: skip


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path) -> None:  # noqa: ANN401 - matplotlib's figure
    from matplotlib import pyplot

    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _speedups(named: list[Named], folder: Path) -> None:
    figure, axes = _figure(8, 0.5 + 0.5 * max(1, len(named)))
    for row, n in enumerate(named):
        benchmark = n.record.benchmark
        assert benchmark is not None
        for offset, (direction, colour) in enumerate((("fprop", "#4477aa"), ("bprop", "#ee6677"))):
            found = getattr(benchmark, f"{direction}_speedup")
            if found is None:
                continue
            place = row + (offset - 0.5) * 0.3
            spread = [[found.ratio - found.low], [found.high - found.ratio]]
            axes.errorbar(found.ratio, place, xerr=spread, fmt="o", color=colour, capsize=3)
            axes.annotate(f"{found.ratio:.2f}", (found.ratio, place), xytext=(8, -3),
                          textcoords="offset points", fontsize=8)  # fmt: skip
    axes.axvline(1.0, color="#888888", linewidth=1)
    axes.set_yticks(range(len(named)), [n.name for n in named])
    axes.invert_yaxis()
    axes.set_xlabel("BF16 time / recipe time, with 95 % interval (blue fprop, red bprop)")
    _save(figure, folder / "h200_speedup.svg")


def _seq_len(named: list[Named], folder: Path) -> None:
    figure, axes = _figure(7, 4.5)
    named = sorted(named, key=lambda n: n.point.shape.seq_len)
    lengths = [n.point.shape.seq_len for n in named]
    for arm, style in (("bf16", "--"), ("recipe", "-")):
        for direction, colour in (("fprop", "#4477aa"), ("bprop", "#ee6677")):
            times = []
            for n in named:
                figures = n.arm(arm)
                assert figures is not None
                times.append(getattr(figures, direction).median_ms)
            label = f"{'FP8 linears' if arm == 'recipe' else 'BF16'} {direction}"
            axes.plot(lengths, times, style, marker="o", color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.set_xlabel("sequence length (tokens, shape=dsv3)")
    axes.set_ylabel("time (ms)")
    axes.legend(frameon=False)
    _save(figure, folder / "h200_seq_len.svg")


def _stages(named: list[Named], folder: Path) -> None:
    figure, axes = _figure(9, 0.8 + 0.5 * max(1, len(named)))
    for row, n in enumerate(named):
        benchmark = n.record.benchmark
        assert benchmark is not None
        for offset, direction in enumerate(("fprop", "bprop")):
            left = 0.0
            for stage in benchmark.stages:
                if (stage.arm, stage.direction) != ("recipe", direction):
                    continue
                place = row + (offset - 0.5) * 0.35
                axes.barh(place, stage.median_ms, 0.3, left, color=STAGE_COLOURS[stage.stage])
                left += stage.median_ms
    axes.set_yticks(range(len(named)), [f"{n.name} (fprop, bprop)" for n in named])
    axes.invert_yaxis()
    axes.set_xlabel("time (ms), each stage of the recipe's arm by itself")
    from matplotlib.patches import Patch

    axes.legend(
        handles=[Patch(color=colour, label=name) for name, colour in STAGE_COLOURS.items()],
        frameon=False,
        loc="lower right",
    )
    _save(figure, folder / "h200_stages.svg")
