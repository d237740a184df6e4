"""What studies share in their figures: points on a line, names of lines, ticks that were tried."""

import math

import numpy as np
from matplotlib.text import Annotation

from attnlab.measure.intervals import Estimate
from attnlab.report.labels import log_axis, write
from attnlab.report.plots import Series, draw_dots, draw_estimates
from attnlab.report.style import house_style, panels


def test_a_line_goes_through_the_points_and_its_name_stands_at_the_last() -> None:
    with house_style():
        _, (ax,) = panels(1, 1)
        found = {2.0: Estimate(0.5, 0.4, 0.7), 7.0: Estimate(0.9), 11.0: Estimate(math.nan)}
        draw_estimates(ax, found, "#1E66D0", "rate", line=0.8)
    line = next(line for line in ax.lines if line.get_linestyle() == "-")
    assert np.asarray(line.get_xdata()).tolist() == [2.0, 7.0, 11.0] and line.get_linewidth() == 0.8
    (words,) = ax.texts
    assert isinstance(words, Annotation) and words.get_text() == "rate"
    assert words.xy == (7.0, 0.9)


def test_without_a_line_there_are_points_alone_and_nothing_at_all_without_estimates() -> None:
    with house_style():
        _, (ax,) = panels(1, 1)
        draw_estimates(ax, {}, "#1E66D0", "rate", line=0.8)
        assert not ax.texts
        draw_estimates(ax, {2.0: Estimate(0.5, 0.4, 0.7)}, "#1E66D0")
    assert not ax.texts and all(line.get_linewidth() != 0.8 for line in ax.lines[1:])


def test_the_first_line_of_a_dot_plot_is_on_top() -> None:
    with house_style():
        _, (ax,) = panels(1, 1)
        draw_dots(ax, {"one": [Estimate(0.1)], "two": [Estimate(0.2)]}, [Series("all", "#1E66D0")])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["one", "two"]
    assert ax.get_ylim() == (1.5, -0.5)


def test_an_axis_has_ticks_where_something_was_tried_and_nowhere_else() -> None:
    with house_style():
        _, (ax,) = panels(1, 1)
        log_axis(ax, "x", {0.001: "1e-3", 0.02: "0.02"})
        ax.set_xlim(0.0001, 1)
        write(ax, 0.9, 0.5, "here", "black")
    assert list(ax.get_xticks()) == [0.001, 0.02] and not len(ax.get_xticks(minor=True))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1e-3", "0.02"]
    assert ax.texts[0].get_horizontalalignment() == "right"
