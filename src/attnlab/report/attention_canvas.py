"""What the two pictures of attention share: paper in inches, the colours, letters that exist.

Weights 0 to 1 in viridis; a cell without a colour has no weight to show (a later token of a
causal model). Things are placed in inches, so that 270 maps are laid out as fast as one.
"""

import functools

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage

from attnlab.report.attention import AttentionMaps
from attnlab.report.tokens import cut, visible

LABEL_POINTS = 8.0
LABEL_PITCH = 9.6 / 72  # inches a label of 8 pt needs for itself across its direction
EDGE, LINE, BAR = 0.08, 0.17, 0.11  # inches: outer edge, a line of text, thickness of the bar
FRAME = "#B8B8B8"
_BOLD = 1.3  # a bold title of 9 pt is at most this much wider than a label of 8 pt
_LONGEST = 100  # characters; no line of a figure has room for more
_PAPER = "#FFFFFF"


def blank(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def place_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes, placed in inches from the left and the top edge."""
    w, h = figure.get_size_inches()
    ax = figure.add_axes((left / w, 1 - (top + height) / h, width / w, height / h))
    ax.grid(visible=False)
    return ax


def write(
    figure: Figure, left: float, top: float, text: str, *, align: str = "left", bold: bool = False
) -> None:
    """Write a line of text, placed in inches from the left and the top; $ is not math mode."""
    width, height = figure.get_size_inches()
    figure.text(
        left / width,
        1 - top / height,
        text,
        ha=align,
        va="top",
        size=9 if bold else 8.5,
        weight="bold" if bold else "normal",
        parse_math=False,
    )


def write_title(figure: Figure, target: str, rest: str, room: float) -> None:
    """Write target and title; the target is cut until both fit into `room` inches."""
    left = room / _BOLD - text_width(rest)
    name = fitted(drawable(visible(target, spaces=False)), left)
    write(figure, EDGE, EDGE, name + rest, bold=True)


def map_of(maps: AttentionMaps, layer: int, head: int) -> np.ndarray:
    """The weights (query, key) clipped to 0 … 1; NaN where a cell is left empty."""
    weights = np.clip(maps.weights[layer, head], 0, 1)
    return np.where(maps.empty[layer, head], np.float32(np.nan), weights)


def pooled(weights: np.ndarray, most: int) -> np.ndarray:
    """Max-pool to at most `most` cells a side, so that thin lines stay visible."""
    n = len(weights)
    if n <= most:
        return weights
    starts = np.arange(most) * n // most
    filled = np.where(np.isnan(weights), -1, weights)  # below any weight: lost to all of them
    blocks = np.maximum.reduceat(np.maximum.reduceat(filled, starts, axis=0), starts, axis=1)
    return np.where(blocks < 0, np.nan, blocks)


def draw_weights(ax: Axes, weights: np.ndarray) -> AxesImage:
    """Draw the cells of a map, the first query on top."""
    colours = mpl.colormaps["viridis"].with_extremes(bad=_PAPER)
    data = np.ma.masked_invalid(weights)
    return ax.imshow(data, cmap=colours, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")


def draw_bar(figure: Figure, image: AxesImage, ax: Axes, *, horizontal: bool) -> None:
    """Draw the colour bar in its own axes."""
    direction = "horizontal" if horizontal else "vertical"
    made = figure.colorbar(image, cax=ax, orientation=direction, ticks=[0, 0.5, 1])
    made.outline.set_visible(False)
    ax.tick_params(length=2)


def drawable(text: str) -> str:
    """The text with characters that the font lacks replaced by their codes."""
    known = _letters()
    return "".join(
        c if ord(c) in known else c.encode("unicode_escape").decode("ascii") for c in text
    )


def fitted(text: str, inches: float) -> str:
    """The text, cut to the largest width of a label."""
    for longest in range(min(len(text), _LONGEST), 1, -1):
        short = cut(text, longest)
        if text_width(short) <= inches:
            return short
    return cut(text, 1)


@functools.lru_cache(maxsize=4096)
def text_width(text: str) -> float:
    """The width of a line of label text, in inches."""
    figure = _ruler()
    made = figure.text(0, 0, text, size=LABEL_POINTS, family="DejaVu Sans", parse_math=False)
    width = float(made.get_window_extent().width) / figure.dpi
    made.remove()
    return width


@functools.cache
def _ruler() -> Figure:
    return blank(1.0, 1.0)


@functools.cache
def _letters() -> frozenset[int]:
    """The characters that the font of the figures can draw."""
    file = font_manager.findfont(FontProperties(family="DejaVu Sans"))
    return frozenset(font_manager.get_font(file).get_charmap())
