"""Labels of a scatter plot keep clear of the points and of each other."""

from itertools import combinations

import numpy as np
from matplotlib.text import Text

from attnlab.measure.intervals import Estimate
from attnlab.report.point_labels import PointLabel, place_labels
from attnlab.report.style import panels


def test_labels_of_points_cover_neither_marks_nor_each_other() -> None:
    drawing, (ax,) = panels(height=3.0)
    rng = np.random.default_rng(11)
    points = [Estimate(float(x), float(x) - 0.01, float(x) + 0.01, 5) for x in rng.random(23)]
    labels = [
        PointLabel(x, y, f"T = {i}", "#555555")
        for i, (x, y) in enumerate(zip(points[:11], points[11:22], strict=True))
    ]
    for label in labels:
        ax.plot(label.x.value, label.y.value, "o")
    place_labels(drawing, ax, labels)
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert len(boxes) == 11
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    marks = [ax.transData.transform((n.x.value, n.y.value)) for n in labels]
    assert not any(box.contains(*mark) for box in boxes for mark in marks)
