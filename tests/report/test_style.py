"""One look: fixed colours, same bytes for the same drawing, nothing too small, nothing on top."""

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from attnlab.measure.intervals import Estimate
from attnlab.report import style
from attnlab.report.labels import separate_labels, spread
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    ColourScale,
    cell_edges,
    direct_label,
    diverging_limits,
    errorbars,
    heatmap,
    house_style,
    log_axis,
    panels,
    published,
    save_pdf,
    save_png,
    save_svg,
    theory_line,
)


def drawing() -> Figure:
    with house_style():
        figure, (left, right) = panels(1, 2)
        x = np.array([0.5, 1.0, 2.0])
        estimates = [Estimate(v, v - 0.1, v + 0.1, 3) for v in x] + [Estimate(4.0)]
        errorbars(left, [*x, 4.0], estimates, SEMANTIC)
        for color, shift in ((SEMANTIC, 0.0), (POSITIONAL, 0.01), (LINEAR, 0.02)):
            theory_line(left, x, x + shift, color, f"line {shift}")
        published(left, x, x + 0.2, SEMANTIC)
        left.set_xlabel("sample complexity α = N/D")
        values = np.arange(12.0).reshape(3, 4)
        values[1, 1] = math.nan
        heatmap(right, [1, 2, 3, 5], [1, 2, 3], values, ColourScale("overlap"))
        return figure


def test_colours_have_not_moved() -> None:
    found = (SEMANTIC, POSITIONAL, LINEAR, NEUTRAL)
    assert found == ("#C2185B", "#1E66D0", "#E08A00", "#555555")
    assert len(set(style.MARKERS.values())) == 4


@pytest.mark.parametrize("save", [save_svg, save_pdf, save_png])
def test_same_drawing_same_bytes(save: Callable[[Figure, Path], None], tmp_path: Path) -> None:
    first = drawing()
    save(first, tmp_path / "a")
    save(first, tmp_path / "b")
    save(drawing(), tmp_path / "c")
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b == c


def test_svg_stands_alone(tmp_path: Path) -> None:
    save_svg(drawing(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<text" not in text and "<script" not in text and "font-family" not in text
    assert "<dc:date>" not in text and "matplotlib.org" not in text
    links = re.findall(r'href="([^"]*)"', text)
    assert links and all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert len(text) < 200_000


def test_no_text_below_eight_points() -> None:
    figure = drawing()
    sizes = [
        float(t.get_fontsize())
        for t in figure.findobj(Text)
        if isinstance(t, Text) and t.get_text()
    ]
    assert sizes and min(sizes) >= 8
    assert figure.get_size_inches()[0] == pytest.approx(170 / 25.4, abs=0.01)


def test_style_leaves_no_trace_and_ignores_the_readers_own() -> None:
    before = dict(mpl.rcParams)
    with mpl.rc_context({"font.size": 3, "lines.linewidth": 9}), house_style():
        assert mpl.rcParams["font.size"] == 9 and mpl.rcParams["lines.linewidth"] == 1.6
    assert dict(mpl.rcParams) == before


def test_labels_at_line_ends_do_not_overlap() -> None:
    figure = drawing()
    separate_labels(figure)
    figure.draw_without_rendering()
    boxes = sorted((t.get_window_extent() for t in figure.axes[0].texts), key=lambda b: b.y0)
    assert len(boxes) == 3
    assert all(low.y1 <= high.y0 + 0.5 for low, high in itertools.pairwise(boxes))


def test_a_label_finds_the_last_finite_point() -> None:
    with house_style():
        _, (ax,) = panels()
        assert direct_label(ax, [1, 2, 3], [5, 6, math.nan], "end").xy == (2.0, 6.0)
        assert direct_label(ax, 1, 2, "here").xy == (1.0, 2.0)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0.5, 20))
def test_spread_parts_in_order_and_leaves_alone_what_is_apart(y: list[float], h: float) -> None:
    placed = spread(y, [h] * len(y))
    order = sorted(range(len(y)), key=lambda i: (y[i], i))
    assert all(placed[b] - placed[a] >= h - 1e-9 for a, b in itertools.pairwise(order))
    assert sum(placed) == pytest.approx(sum(y), abs=1e-6)
    gaps = [y[b] - y[a] for a, b in itertools.pairwise(order)]
    if all(gap > h + 1e-9 for gap in gaps):
        assert placed == pytest.approx(y)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=9))
def test_diverging_limits_put_zero_in_the_middle(values: list[float]) -> None:
    low, high = diverging_limits(values)
    assert low == -high and high > 0
    assert all(math.isnan(v) or low <= v <= high for v in values)


def test_diverging_map_is_white_at_zero_and_missing_is_grey() -> None:
    scale = ColourScale.around_zero("difference", [-3.0, 1.0], [[2.0, math.nan]])
    assert scale.limits == (-3.0, 3.0)
    red, green, blue, _ = scale.colormap(0.5)
    assert min(red, green, blue) > 0.99
    assert scale.colormap(np.ma.masked) == pytest.approx((0.851, 0.851, 0.851, 1.0), abs=0.01)


def test_cell_edges_lie_between_centres() -> None:
    assert cell_edges([1, 2, 4]).tolist() == [0.5, 1.5, 3.0, 5.0]
    assert cell_edges([1, 100], log=True) == pytest.approx([0.1, 10, 1000])
    assert cell_edges([3]).tolist() == [2.5, 3.5]


def test_log_axis_has_plain_numbers_that_do_not_collide() -> None:
    with house_style():
        figure, (ax, *_) = panels(1, 3)
        log_axis(ax, "x")
        ax.plot([250, 8000], [1, 2])
        figure.draw_without_rendering()
        shown = [t for t in ax.get_xticklabels() if t.get_text()]
        low, high = ax.get_xlim()
        inside = [t for t in shown if low <= t.get_position()[0] <= high]
        boxes = [t.get_window_extent() for t in inside]
    assert {t.get_text() for t in inside} >= {"500", "1000", "5000"}
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
