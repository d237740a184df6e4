"""Construct queries and keys that do what you ask of attention, or prove that none can.

    weights = softmax(scale * K q),    output = weights @ V,    scale 1 or 1 / sqrt(h)

>>> from attnlab import construct
>>> keys = [[1, 0], [0, 1], [-1, 0], [0, -1], [0.2, 0.1]]
>>> print(construct.select(keys, 0, weight=0.99).why)
Key 0 gets weight 0.99 from a query of length 6.3009; no shorter query does.
>>> construct.select(keys, 4, weight=0.5).feasible  # key 4 lies in the convex hull of the others
False

select, select_many, identity    the shortest query for one key, for many, for each of them
average, average_scale, match    equal weights on several keys; any distribution over the keys
replace_key, design              a new key for a given query; a query and new keys together
extract                          the matrix that recovers one of two averaged vectors
apply                            scores, weights and output of a given query
hard_attention, jacobian_norms   argmax attention and its gradients
robustness, compare_heads, noisy_covariances    attention over random keys

The modules share names with these functions, so all are imported at once; they import numpy and
nothing heavier, and load scipy, cvxpy and torch when a function needs them.
"""

from attnlab.construct.apply import Attention, apply, hard_attention, jacobian_norms
from attnlab.construct.average import average
from attnlab.construct.design import design
from attnlab.construct.extract import extract
from attnlab.construct.goals import Goal, parse_goal
from attnlab.construct.inputs import attention_weights, resolve_scale
from attnlab.construct.match import match
from attnlab.construct.pair import average_scale
from attnlab.construct.replace import replace_key
from attnlab.construct.result import Construction, Constructions
from attnlab.construct.robustness import compare_heads, noisy_covariances, robustness
from attnlab.construct.select import identity, select, select_many

__all__ = [
    "Attention",
    "Construction",
    "Constructions",
    "Goal",
    "apply",
    "attention_weights",
    "average",
    "average_scale",
    "compare_heads",
    "design",
    "extract",
    "hard_attention",
    "identity",
    "jacobian_norms",
    "match",
    "noisy_covariances",
    "parse_goal",
    "replace_key",
    "resolve_scale",
    "robustness",
    "select",
    "select_many",
]
