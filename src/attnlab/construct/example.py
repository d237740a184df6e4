"""Four keys in space: the example of a course exercise, recovered from a report that solved it.

The report prints the queries Q that least squares finds for Q K^T = 100 I, so Q = 100 pinv(K)^T and
K = pinv((Q / 100)^T). These keys have two decimals: rounding K to them changes no printed digit of
Q. To average keys 0 and 1 the report asks least squares for the scores SCORES; it does not print
that query, nor the values.
"""

import numpy as np

from attnlab.construct.numerics import Array

EXAMPLE = "example"  # its name where a file of keys is expected
Matrix = tuple[tuple[float, ...], ...]

KEYS: Matrix = ((0.47, 0.65, 0.60), (0.64, 0.50, -0.59), (-0.03, -0.48, -0.88), (0.43, -0.83, 0.35))
SCORES = (3.0, 3.0, -2.0, -3.0)
REPORTED_QUERIES: Matrix = (
    (44.6093, 28.4705, 31.0986),
    (74.2993, 24.4711, -43.9832),
    (9.9978, -24.5389, -51.8660),
    (73.9117, -69.2530, 27.8533),
)


def query_for_scores(keys: Array, scores: Array) -> Array:
    """The query whose scores are nearest to the given ones: least squares, as in the report."""
    return np.asarray(np.linalg.lstsq(keys, scores, rcond=None)[0], dtype=np.float64)
