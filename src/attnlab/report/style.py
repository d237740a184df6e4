"""The style of all figures: colours with fixed meanings, points measured, lines computed.

    with house_style():
        figure, axes = panels(1, 2, height=2.8)
        errorbars(axes[0], alpha, estimates, SEMANTIC)
        theory_line(axes[0], alpha_fine, theory, SEMANTIC, label="semantic")
        return figure

points = simulation, lines = theory, hollow = published. Figures are made without pyplot, so no
window and no global figure list exist. Text is never below 8 pt at the printed width of 170 mm.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from attnlab.core.files import write_bytes
from attnlab.measure.intervals import Estimate
from attnlab.report.labels import direct_label as direct_label  # part of this vocabulary
from attnlab.report.labels import halo, separate_labels
from attnlab.report.labels import log_axis as log_axis

SEMANTIC = "#C2185B"
POSITIONAL = "#1E66D0"
LINEAR = "#E08A00"
NEUTRAL = "#555555"
# for arms without a fixed meaning; safe for colour-blind readers, in this order
PALETTE = ("#1E66D0", "#C2185B", "#E08A00", "#00796B", "#6A3FA0", "#8D6E63", "#0097C4", "#555555")
# shape repeats what colour says, for print in grey and for colour-blind readers
MARKERS = {SEMANTIC: "o", POSITIONAL: "s", LINEAR: "^", NEUTRAL: "D"}

PRINT_WIDTH = 6.69  # inches: 170 mm, the text width of A4 with 20 mm margins
PANEL_HEIGHT = 2.6
_MISSING_CELL = "#D9D9D9"
_VECTOR_CELLS = 200  # a map with more cells is embedded as pixels: ten times smaller, no seams

_SVG_PLACE = re.compile(rb' (?:d|x|y)="[^"]*"')
_LONG_DECIMAL = re.compile(rb"(\.\d{3})\d+")

_RC: Any = {  # Any: the type of its keys changes between matplotlib versions
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same glyphs on every machine
    "mathtext.fontset": "dejavusans",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#767676",
    "axes.labelcolor": "#222222",
    "text.color": "#222222",
    "xtick.color": "#767676",
    "ytick.color": "#767676",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#EBEBEB",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "figure.dpi": 100,
    "image.cmap": "viridis",
    "axes.formatter.use_mathtext": True,
    "axes.unicode_minus": True,
    "svg.fonttype": "path",  # a reader without the font sees the same picture
    "svg.hashsalt": "attnlab",  # ids in the file depend on the drawing alone
    "pdf.fonttype": 42,
}


@contextmanager
def house_style() -> Iterator[None]:
    """A context in which new figures get the common style; nothing is changed outside it."""
    with mpl.rc_context():
        mpl.rcdefaults()  # a reader's own matplotlibrc must not leak into a figure
        with mpl.rc_context(_RC):
            yield


def panels(
    rows: int = 1,
    cols: int = 1,
    *,
    height: float = PANEL_HEIGHT,
    share_x: bool | Literal["col"] = False,
    share_y: bool | Literal["row"] = False,
) -> tuple[Figure, list[Axes]]:
    """A figure of the printed width with rows × cols panels, read left to right, top to bottom."""
    figure = Figure(figsize=(PRINT_WIDTH, height * rows))
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06, wspace=0.04, hspace=0.05)
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, cols, sharex=share_x, sharey=share_y, squeeze=False)
    return figure, list(grid.flat)


def errorbars(
    ax: Axes,
    x: ArrayLike,
    estimates: Sequence[Estimate],
    color: str,
    label: str | None = None,
    marker: str | None = None,
) -> None:
    """Simulation: filled points with their intervals; a point without interval stands bare."""
    value = np.array([e.value for e in estimates], dtype=float)
    ends = np.array([[e.low, e.high] for e in estimates], dtype=float).reshape(-1, 2)
    down, up = value - ends[:, 0], ends[:, 1] - value
    ax.errorbar(
        np.asarray(x, dtype=float),
        value,
        # a bootstrap interval may lie beside its estimate; a bar cannot have a negative length
        yerr=np.maximum(np.stack([down, up]), 0.0),
        fmt=marker or MARKERS.get(color, "o"),
        color=color,
        label=label,
        elinewidth=1.0,
        capsize=2.0,
        markeredgecolor="white",
        markeredgewidth=0.5,
        zorder=3,
    )


def theory_line(
    ax: Axes, x: ArrayLike, y: ArrayLike, color: str, label: str | None = None, style: str = "-"
) -> None:
    """Theory: a line in the hue of its points; `label` is written at the line's end."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    ax.plot(x, y, color=color, linestyle=style, zorder=2, path_effects=halo(3.2))
    if label is not None:
        direct_label(ax, x, y, label, color)


def published(ax: Axes, x: ArrayLike, y: ArrayLike, color: str = NEUTRAL) -> None:
    """Published numbers: hollow points, larger than ours, so that both show where they agree."""
    ax.plot(
        np.asarray(x, dtype=float),
        np.asarray(y, dtype=float),
        linestyle="none",
        marker=MARKERS.get(color, "o"),
        markersize=7.5,
        markerfacecolor="none",
        markeredgecolor=color,
        markeredgewidth=1.1,
        zorder=4,
    )


@dataclass(frozen=True)
class ColourScale:
    """Values to colours. Give one object to every panel that is compared: same data, same scale."""

    label: str
    limits: tuple[float, float] | None = None
    diverging: bool = False

    @classmethod
    def around_zero(cls, label: str, *values: ArrayLike) -> "ColourScale":
        """White at zero, equal strength for equal size on both sides, over all the values given."""
        joined = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])
        return cls(label, diverging_limits(joined), diverging=True)

    @property
    def colormap(self) -> Colormap:
        """viridis, or positional blue – white – semantic red; missing cells grey."""
        if not self.diverging:
            return mpl.colormaps["viridis"].with_extremes(bad=_MISSING_CELL)
        blue_white_red = [POSITIONAL, "#FFFFFF", SEMANTIC]
        made = LinearSegmentedColormap.from_list("attnlab", blue_white_red)
        return made.with_extremes(bad=_MISSING_CELL)


def diverging_limits(values: ArrayLike) -> tuple[float, float]:
    """(−a, a) with a = max |value|, so that zero is white; (−1, 1) when nothing is there."""
    v = np.abs(np.asarray(values, dtype=float))
    finite = v[np.isfinite(v)]
    top = float(finite.max()) if finite.size else 0.0
    return (-top, top) if top > 0 else (-1.0, 1.0)


def heatmap(
    ax: Axes, x: ArrayLike, y: ArrayLike, values: ArrayLike, scale: ColourScale, bar: bool = True
) -> QuadMesh:
    """values[row of y, column of x] as cells around their centres; NaN is grey, never a colour."""
    x_edges = cell_edges(x, log=ax.get_xscale() == "log")
    y_edges = cell_edges(y, log=ax.get_yscale() == "log")
    data = np.ma.masked_invalid(np.asarray(values, dtype=float))
    low, high = scale.limits or (None, None)
    large = data.size > _VECTOR_CELLS
    mesh = ax.pcolormesh(
        x_edges,
        y_edges,
        data,
        cmap=scale.colormap,
        vmin=low,
        vmax=high,
        rasterized=large,
        # hairlines between vector cells are an artefact of viewers: paint over the seams
        edgecolors="none" if large else "face",
        linewidth=0.0 if large else 0.3,
    )
    ax.grid(visible=False)
    ax.set_xlim(x_edges[0], x_edges[-1])
    ax.set_ylim(y_edges[0], y_edges[-1])
    if bar:
        colour_bar([ax], mesh, scale)
    return mesh


def colour_bar(axes: Sequence[Axes], mesh: QuadMesh, scale: ColourScale) -> None:
    """One bar for the panels that share the scale."""
    figure = axes[0].get_figure()
    assert isinstance(figure, Figure)
    made = figure.colorbar(mesh, ax=list(axes), label=scale.label, aspect=28, pad=0.02)
    made.outline.set_visible(False)


def cell_edges(centres: ArrayLike, *, log: bool = False) -> np.ndarray:
    """Edges halfway between centres (in the logarithm on a log axis), half a step at the ends."""
    c = np.asarray(centres, dtype=float)
    c = np.log(c) if log else c
    if c.size == 1:
        return np.exp(c[0] + np.array([-0.5, 0.5])) if log else c[0] + np.array([-0.5, 0.5])
    middle = (c[1:] + c[:-1]) / 2
    edges = np.concatenate([[2 * c[0] - middle[0]], middle, [2 * c[-1] - middle[-1]]])
    return np.exp(edges) if log else edges


def save_svg(figure: Figure, path: Path) -> None:
    """The figure as SVG: same drawing, same bytes; letters are outlines; no date."""
    _save(figure, path, "svg", {"Date": None, "Creator": None, "Format": None, "Type": None})


def save_pdf(figure: Figure, path: Path) -> None:
    """The figure as PDF for a paper: vector, fonts inside, no date."""
    _save(figure, path, "pdf", {"CreationDate": None, "Creator": None, "Producer": None})


def save_png(figure: Figure, path: Path) -> None:
    """The figure as pixels, for places that take nothing else."""
    _save(figure, path, "png", {"Software": None}, dpi=200)


def _save(figure: Figure, path: Path, form: str, metadata: dict[str, Any], dpi: int = 300) -> None:
    with house_style():
        separate_labels(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=form, metadata=metadata, dpi=dpi)
    data = buffer.getvalue()
    if form == "svg":  # a thousandth of a point is finer than any printer; scales stay exact
        data = _SVG_PLACE.sub(lambda m: _LONG_DECIMAL.sub(rb"\1", m.group()), data)
    write_bytes(path, data)
