"""Many attention maps side by side on one scale: layers down, heads across.

All of them are one image: a figure with 270 axes would take a minute to lay out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from attnlab.report.attention_canvas import (
    BAR,
    EDGE,
    FRAME,
    LABEL_PITCH,
    LABEL_POINTS,
    LINE,
    blank,
    draw_bar,
    draw_weights,
    map_of,
    place_axes,
    pooled,
    text_width,
    write,
    write_title,
)
from attnlab.report.attention_maps import AttentionMaps
from attnlab.report.style import PRINT_WIDTH
from attnlab.report.text import counted

_LARGEST_MAP = 2.2  # inches
_HEADING = 2.6 * LINE
_FEWEST_CELLS = 16
_CELLS_AN_INCH = 100  # what the smallest dpi anyone saves with can still show


@dataclass(frozen=True)
class _Grid:
    """The position of each map, in units of cells: maps are `n` wide and `gap` apart."""

    chosen: list[list[tuple[int, int]]]  # (layer, head), row by row
    numbered: bool  # rows are layers and columns heads; otherwise each map is named
    n: int
    gap: int

    @property
    def pitch(self) -> int:
        return self.n + self.gap

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid; the name of a map is written in the gap above it."""
        height = len(self.chosen) * self.pitch - (self.gap if self.numbered else 0)
        return len(self.chosen[0]) * self.pitch - self.gap, height

    def corners(self) -> list[tuple[int, int, tuple[int, int]]]:
        """Yield x and y of each map's first cell, and the map's layer and head."""
        lift = 0 if self.numbered else self.gap
        return [
            (column * self.pitch, row * self.pitch + lift, which)
            for row, line in enumerate(self.chosen)
            for column, which in enumerate(line)
        ]


def draw_grid(maps: AttentionMaps, layers: Sequence[int], heads: Sequence[int]) -> Figure:
    """Draw the maps of these layers and heads; maps of one layer or head wrap into rows."""
    numbered = len(layers) > 1 and len(heads) > 1
    rows = [[(i, j) for j in heads] for i in layers] if numbered else _wrapped(layers, heads)
    left = EDGE + (2 * LINE + 0.12 if numbered else 0.0)
    top = EDGE + _HEADING + (2 * LINE + 0.02 if numbered else 0.0)
    room = PRINT_WIDTH - left - EDGE
    side = min(_LARGEST_MAP, 0.92 * room / len(rows[0]))
    n = _cells(len(maps.tokens), side)
    # the name of a map needs a line of text above it, numbers only a seam
    gap = math.ceil(n * (0.07 if numbered else max(0.08, 1.25 * LINE / side)))
    grid = _Grid(rows, numbered, n, gap)
    cell = min(room / grid.size[0], _LARGEST_MAP / n)
    width, height = (cell * cells for cells in grid.size)
    figure = blank(PRINT_WIDTH, top + height + EDGE)
    ax = place_axes(figure, left, top, width, height)
    image = draw_weights(ax, _mosaic(maps, grid))
    ax.spines[:].set_visible(False)
    _draw_frames(ax, grid)
    _number_axes(ax, grid, cell) if numbered else _name(ax, grid)
    tokens = counted(len(maps.tokens), "token")
    write_title(figure, maps.target, f" · {tokens}", PRINT_WIDTH - 2.5)
    write(figure, EDGE, EDGE + 1.1 * LINE, "rows look at columns")
    bar = place_axes(figure, PRINT_WIDTH - EDGE - 1.7, EDGE + 0.03, 1.6, BAR)
    draw_bar(figure, image, bar, horizontal=True)
    write(figure, PRINT_WIDTH - EDGE - 1.78, EDGE + 0.01, "weight", align="right")
    return figure


def _cells(tokens: int, side: float) -> int:
    """The number of image cells per map: enough for its details, no more than are visible."""
    most = round(side * _CELLS_AN_INCH)
    return (
        tokens * math.ceil(_FEWEST_CELLS / tokens) if tokens < _FEWEST_CELLS else min(tokens, most)
    )


def _wrapped(layers: Sequence[int], heads: Sequence[int]) -> list[list[tuple[int, int]]]:
    flat = [(i, j) for i in layers for j in heads]
    wide = min(len(flat), max(3, math.ceil(math.sqrt(len(flat)))))
    return [flat[at : at + wide] for at in range(0, len(flat), wide)]


def _mosaic(maps: AttentionMaps, grid: _Grid) -> np.ndarray:
    """All maps in one array, with empty cells between them."""
    width, height = grid.size
    times = max(1, grid.n // len(maps.tokens))
    made = np.full((height, width), np.nan, dtype=np.float32)
    for x, y, (layer, head) in grid.corners():
        small = pooled(map_of(maps, layer, head), grid.n)
        made[y : y + grid.n, x : x + grid.n] = np.kron(small, np.ones((times, times)))
    return made


def _draw_frames(ax: Axes, grid: _Grid) -> None:
    """Draw a thin frame around each map, to separate its white cells from the background."""
    n = grid.n
    around = np.array([(0, 0), (n, 0), (n, n), (0, n), (0, 0)]) - 0.5
    lines = [around + np.array([x, y]) for x, y, _ in grid.corners()]
    made = LineCollection(lines, colors=FRAME, linewidths=0.5, clip_on=False)
    ax.add_collection(made, autolim=False)


def _number_axes(ax: Axes, grid: _Grid, cell: float) -> None:
    """Number the layers on the left and the heads on top; overlapping numbers are left out."""
    ax.tick_params(length=0, pad=3)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    heads = [head for _, head in grid.chosen[0]]
    layers = [line[0][0] for line in grid.chosen]
    for axis, numbers, room in (
        (ax.xaxis, heads, text_width("000") + 0.04),
        (ax.yaxis, layers, LABEL_PITCH),
    ):
        step = math.ceil(room / (cell * grid.pitch))
        kept = range(0, len(numbers), step)
        middles = [i * grid.pitch + (grid.n - 1) / 2 for i in kept]
        axis.set_ticks(middles, [str(numbers[i]) for i in kept])
    ax.set_xlabel("head", labelpad=3)
    ax.set_ylabel("layer", labelpad=3, loc="top")


def _name(ax: Axes, grid: _Grid) -> None:
    ax.set_axis_off()
    for x, y, (layer, head) in grid.corners():
        ax.annotate(
            f"layer {layer} · head {head}",
            (x - 0.5, y - 0.5),
            (0, 2.5),
            textcoords="offset points",
            size=LABEL_POINTS,
            annotation_clip=False,
        )
