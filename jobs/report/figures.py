"""Style and files of the report's plots: one palette, SVG for the page and for pasting.

Colours are drawn in the light theme's own values. In the page each of them becomes a CSS variable,
so that one drawing follows light, dark and print; the files keep the light values.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.collect.store import holds, write_if_changed
from jobs.files import replace_atomically

INK, MUTED, GRID, PAPER, GOOD, BAD = (
    "#1c2430",
    "#5b6675",
    "#dfe4ea",
    "#fefefe",
    "#1a7f4b",
    "#c0302b",
)
RECIPE_COLOURS = {
    "bf16": "#6b7684",
    "mxfp8": "#0b62b8",
    "fp8_current": "#c4560a",
    "fp8_delayed": "#0c8a72",
    "fp8_block": "#8353b0",
}
OTHER_COLOUR = "#a0780a"
MARKERS = {"bf16": "s", "mxfp8": "o", "fp8_current": "^", "fp8_delayed": "D", "fp8_block": "v"}
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    GOOD: "--good",
    BAD: "--bad",
    OTHER_COLOUR: "--recipe-other",
} | {colour: f"--recipe-{name.replace('_', '-')}" for name, colour in RECIPE_COLOURS.items()}
_PNG_DPI = 144
_OWN_IDS = re.compile(
    r' id="(?:figure|axes|patch|line2d|text|legend|matplotlib\.axis|xtick|ytick|LineCollection|'
    r'PathCollection|FillBetweenPolyCollection)_\d+"'
)
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # given, or every tick label is measured to find it
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
}


@dataclass(frozen=True)
class Plot:
    """One drawing.

    Attributes:
        name: Name of its files, without an end.
        title: What it shows, in a few words.
        caption: How to read it, and what it says, in words.
        svg: Markup for the page, its colours as CSS variables.
    """

    name: str
    title: str
    caption: str
    svg: str


@contextmanager
def style() -> Iterator[None]:
    """The settings under which every figure must be made and saved.

    Names are text and no formulas, and one in a script that the font has not is drawn as boxes.
    """
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from font")
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """An empty figure, in inches, and its axes as a flat list."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [axis for row in axes for axis in row]


def colour_of(recipe: str) -> str:
    """A recipe's colour, the same in every plot."""
    return RECIPE_COLOURS.get(recipe, OTHER_COLOUR)


def length_axis(axis: Any, lengths: list[int]) -> None:  # noqa: ANN401 - matplotlib is untyped here
    """A logarithmic axis whose ticks are the lengths that were run."""
    axis.set_xscale("log", base=2)
    shown = lengths if len(lengths) <= 7 else lengths[:: -(-len(lengths) // 7)]
    axis.set_xticks(shown, [_short(length) for length in shown], minor=False)
    axis.minorticks_off()
    axis.set_xlim(lengths[0] / 1.25, lengths[-1] * 1.25)


def _short(length: int) -> str:
    return f"{length // 1024}k" if length >= 1024 and length % 1024 == 0 else str(length)


def finish(figure: Any, name: str, title: str, caption: str, folder: Path) -> Plot:  # noqa: ANN401
    """Saves a figure as SVG and PNG and makes its markup for the page.

    Args:
        figure: A drawn figure.
        name: Name of the files, without an end.
        title: What it shows.
        caption: How to read it.
        folder: Where plots go; it exists.

    Returns:
        The plot, for the page.
    """
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):  # so that no two plots share an id
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
    drawn = buffer.getvalue()
    path = folder / f"{name}.png"
    if not holds(folder / f"{name}.svg", drawn) or not path.is_file():
        with replace_atomically(
            path
        ) as part:  # first: it is taken for current where the drawing is
            figure.savefig(part, format="png", dpi=_PNG_DPI, metadata={"Software": None})
    write_if_changed(folder / f"{name}.svg", drawn)
    return Plot(name, title, caption, _inline(drawn, name))


def _inline(drawn: str, name: str) -> str:
    """The drawing without its XML head and own ids, its colours as variables, its size fluid."""
    body = drawn[drawn.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<title>.*?</title>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # would style the whole page
    body = _OWN_IDS.sub("", body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    width = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body)
    head = f'<svg role="img" aria-labelledby="plot-{name}-title" focusable="false"'
    body = re.sub(r'^<svg([^>]*?) height="[^"]*"', r"<svg\1", body)
    body = re.sub(r'^<svg([^>]*?) width="[^"]*"', r"<svg\1", body)
    if width:
        points = float(width[1])
        least = "; min-width: 30rem" if points > 450 else ""  # small panels: better scrolled
        head += f' style="max-width: {points * 1.35:.0f}px{least}"'
    return body.replace("<svg", head, 1).strip()
