"""The plots of `docs/results/h200.md`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conf.choices import RecipeName
from jobs.record import DIRECTIONS
from tools.gpu.records import NamedRecord

_STAGE_COLOURS = {"qkv": "#4477aa", "rope": "#ccbb44", "attention": "#ee6677", "out": "#66ccee"}
_DIRECTION_COLOURS = {"fprop": "#4477aa", "bprop": "#ee6677"}


def draw_all(records: dict[str, NamedRecord], folder: Path) -> None:
    """Draw every plot as an SVG file; the same records give the same bytes."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "mxfp8-attention", "svg.fonttype": "none"})
    measured = [n for n in records.values() if n.measured]
    _draw_speedups([n for n in measured if n.point.recipe.name is not RecipeName.bf16], folder)
    _draw_seq_len([n for n in measured if _on_the_curve(n)], folder)
    _draw_stages([n for n in measured if n.stages], folder)


def _on_the_curve(record: NamedRecord) -> bool:
    point = record.point
    fp8 = point.shape.name == "dsv3" and point.recipe.name is RecipeName.fp8_current
    return fp8 and "cached" not in record.name and "eager" not in record.name


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path) -> None:  # noqa: ANN401 - matplotlib's figure
    from matplotlib import pyplot

    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _draw_speedups(records: list[NamedRecord], folder: Path) -> None:
    figure, axes = _figure(8, 0.5 + 0.5 * max(1, len(records)))
    for row, n in enumerate(records):
        for offset, (direction, colour) in enumerate(_DIRECTION_COLOURS.items()):
            speedup = getattr(n.record.benchmark, f"{direction}_speedup")
            if speedup is None:
                continue
            y = row + (offset - 0.5) * 0.3
            spread = [[speedup.ratio - speedup.low], [speedup.high - speedup.ratio]]
            axes.errorbar(speedup.ratio, y, xerr=spread, fmt="o", color=colour, capsize=3)
            axes.annotate(f"{speedup.ratio:.2f}", (speedup.ratio, y), xytext=(8, -3),
                          textcoords="offset points", fontsize=8)  # fmt: skip
    axes.axvline(1.0, color="#888888", linewidth=1)
    axes.set_yticks(range(len(records)), [n.name for n in records])
    axes.invert_yaxis()
    axes.set_xlabel("BF16 time / recipe time, with 95 % interval (blue fprop, red bprop)")
    _save(figure, folder / "h200_speedup.svg")


def _draw_seq_len(records: list[NamedRecord], folder: Path) -> None:
    figure, axes = _figure(7, 4.5)
    records = sorted(records, key=lambda n: n.point.shape.seq_len)
    lengths = [n.point.shape.seq_len for n in records]
    for arm, style in (("bf16", "--"), ("recipe", "-")):
        for direction, colour in _DIRECTION_COLOURS.items():
            times = [getattr(n.arm(arm), direction).median_ms for n in records]
            label = f"{'FP8 linears' if arm == 'recipe' else 'BF16'} {direction}"
            axes.plot(lengths, times, style, marker="o", color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.set_xlabel("sequence length (tokens, shape=dsv3)")
    axes.set_ylabel("time (ms)")
    axes.legend(frameon=False)
    _save(figure, folder / "h200_seq_len.svg")


def _draw_stages(records: list[NamedRecord], folder: Path) -> None:
    from matplotlib.patches import Patch

    figure, axes = _figure(9, 0.8 + 0.5 * max(1, len(records)))
    for row, n in enumerate(records):
        for offset, direction in enumerate(DIRECTIONS):
            left = 0.0
            for stage in n.stages:
                if (stage.arm, stage.direction) != ("recipe", direction):
                    continue
                y = row + (offset - 0.5) * 0.35
                axes.barh(y, stage.median_ms, 0.3, left, color=_STAGE_COLOURS[stage.stage])
                left += stage.median_ms
    axes.set_yticks(range(len(records)), [f"{n.name} (fprop, bprop)" for n in records])
    axes.invert_yaxis()
    axes.set_xlabel("time (ms), each stage of the recipe's arm by itself")
    axes.legend(
        handles=[Patch(color=colour, label=name) for name, colour in _STAGE_COLOURS.items()],
        frameon=False,
        loc="lower right",
    )
    _save(figure, folder / "h200_stages.svg")
