"""Style and files of the report's plots: one palette, as SVG in the page and as files to paste.

Figures are drawn in the colors of the light theme. In the page each color becomes a CSS variable,
so that one figure follows light, dark and print; the files keep the light colors.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
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
RECIPE_COLORS = {
    "bf16": "#6b7684",
    "mxfp8": "#0b62b8",
    "fp8_current": "#c4560a",
    "fp8_delayed": "#0c8a72",
    "fp8_block": "#8353b0",
}
OTHER_COLOR = "#a0780a"
MARKERS = {"bf16": "s", "mxfp8": "o", "fp8_current": "^", "fp8_delayed": "D", "fp8_block": "v"}
_CSS_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    GOOD: "--good",
    BAD: "--bad",
    OTHER_COLOR: "--recipe-other",
} | {color: f"--recipe-{name.replace('_', '-')}" for name, color in RECIPE_COLORS.items()}
_PNG_DPI = 144
_MATPLOTLIB_IDS = re.compile(
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
    "axes.titley": 1.0,  # set: matplotlib would measure every tick label to find it
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
    """One saved plot.

    Attributes:
        name: Name of its files, without a suffix.
        title: Title above it.
        caption: Explanation below it.
        svg: Markup for the page, with CSS variables for colors.
    """

    name: str
    title: str
    caption: str
    svg: str


@contextmanager
def style() -> Iterator[None]:
    """Apply the settings with which every figure is drawn and saved.

    Names are plain text, not formulas; letters that the font lacks are drawn as boxes.
    """
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from font")
        yield


class Figure:
    """An empty matplotlib figure, sized in inches, and its axes row by row."""

    def __init__(self, width: float, height: float, rows: int = 1, columns: int = 1) -> None:
        """Create the figure."""
        from matplotlib.figure import Figure as MatplotlibFigure

        self.canvas: Any = MatplotlibFigure(figsize=(width, height))
        grid = self.canvas.subplots(rows, columns, squeeze=False)
        self.axes: list[Any] = [axis for row in grid for axis in row]

    def add_legend(self) -> None:
        """Add a legend of the first axes below the figure."""
        handles, labels = self.axes[0].get_legend_handles_labels()
        self.canvas.legend(handles, labels, loc="lower center", ncols=3, columnspacing=1.4)

    def add_name(self, name: str) -> None:
        """Add a line at the top, because the file may be pasted elsewhere."""
        self.canvas.text(0.02, 0.965, name, color=MUTED, fontsize=8.5)

    def save(self, name: str, title: str, caption: str, folder: Path) -> Plot:
        """Write `name`.svg and `name`.png, unless they are current."""
        import matplotlib

        buffer = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": name}):  # ids are unique within the page
            self.canvas.savefig(buffer, format="svg", metadata={"Date": None, "Title": title})
        svg = buffer.getvalue()
        png = folder / f"{name}.png"
        if not holds(folder / f"{name}.svg", svg) or not png.is_file():
            # The PNG first: an unchanged SVG marks it as current.
            with replace_atomically(png) as part:
                self.canvas.savefig(part, format="png", dpi=_PNG_DPI, metadata={"Software": None})
        write_if_changed(folder / f"{name}.svg", svg)
        return Plot(name, title, caption, _inline(svg, name))


def color_of(recipe: str) -> str:
    """Return a recipe's color, the same in every plot."""
    return RECIPE_COLORS.get(recipe, OTHER_COLOR)


def draw_marks(
    axis: Any,  # noqa: ANN401 - matplotlib is untyped here
    places: Iterable[tuple[float, float]],
    recipe: str = "",
    **style: Any,  # noqa: ANN401 - keywords of matplotlib
) -> None:
    """Draw a mark at each (x, y), in the style of a recipe or as given."""
    marks = sorted(set(places))
    defaults = {"marker": MARKERS.get(recipe, "P"), "color": color_of(recipe)}
    xs, ys = [x for x, _ in marks], [y for _, y in marks]
    axis.plot(xs, ys, linestyle="none", **(defaults | style))


def draw_rows(
    axis: Any,  # noqa: ANN401 - matplotlib is untyped here
    rows: Sequence[tuple[str, list[tuple[float, str]]]],
    digits: int,
    **style: Any,  # noqa: ANN401 - keywords of matplotlib
) -> None:
    """Draw named rows of (value, recipe), with the recipes of a row below each other.

    Values are rounded, and of marks that cover each other one is drawn.
    """
    recipes = list(dict.fromkeys(recipe for _, values in rows for _, recipe in values))
    for number, recipe in enumerate(recipes):
        shift = (number - (len(recipes) - 1) / 2) * 0.5 / len(recipes)
        places = (
            (round(value, digits), row + shift)
            for row, (_, values) in enumerate(rows)
            for value, name in values
            if name == recipe
        )
        draw_marks(axis, places, recipe, label=recipe, **style)
    axis.set_yticks(range(len(rows)), [name for name, _ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)


def use_length_ticks(axis: Any, lengths: list[int]) -> None:  # noqa: ANN401 - matplotlib
    """Make the x axis logarithmic, with ticks at the sequence lengths that ran."""
    axis.set_xscale("log", base=2)
    ticks = lengths if len(lengths) <= 7 else lengths[:: -(-len(lengths) // 7)]
    axis.set_xticks(ticks, [_short(length) for length in ticks], minor=False)
    axis.minorticks_off()
    axis.set_xlim(lengths[0] / 1.25, lengths[-1] * 1.25)


def use_log_ticks(axis: Any) -> None:  # noqa: ANN401 - matplotlib is untyped here
    """Put ticks at 1, 2 and 5 of each decade, so that less than a decade has some, too."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def _short(length: int) -> str:
    return f"{length // 1024}k" if length >= 1024 and length % 1024 == 0 else str(length)


def _inline(svg: str, name: str) -> str:
    """Return an SVG for the page: no XML head or foreign ids, CSS colors, fluid size."""
    body = svg[svg.index("<svg") :]
    for tag in ("metadata", "title", "style"):  # a style would apply to the whole page
        body = re.sub(rf"<{tag}\b.*?</{tag}>", "", body, flags=re.DOTALL)
    body = _MATPLOTLIB_IDS.sub("", body)
    for color, variable in _CSS_VARIABLES.items():
        body = body.replace(color, f"var({variable})")
    for attribute in ("height", "width"):
        body = re.sub(rf'^<svg([^>]*?) {attribute}="[^"]*"', r"<svg\1", body)
    head = f'<svg role="img" aria-labelledby="plot-{name}-title" focusable="false"'
    view_box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body)
    assert view_box is not None
    width = float(view_box[1])
    least = "; min-width: 30rem" if width > 450 else ""  # small panels: scrolling is better
    head += f' style="max-width: {width * 1.35:.0f}px{least}"'
    return body.replace("<svg", head, 1).strip()
