"""Attention by hand: queries and keys that do what is asked, or the proof that none can.

    weights = softmax(scale * K q),    output = weights @ V,    scale 1 or 1 / sqrt(h)

Functions and the files they live in share names, so they are imported here at once: every file
of this room imports numpy and nothing heavier when it is opened.
"""

from attnlab.construct.average import average
from attnlab.construct.batch import identity, select_many
from attnlab.construct.design import design
from attnlab.construct.extract import Extraction, extract
from attnlab.construct.goals import Goal, parse_goal
from attnlab.construct.hard import gradient_curve, hard_attention, jacobian_norms
from attnlab.construct.inputs import attention_weights, resolve_scale
from attnlab.construct.match import match
from attnlab.construct.pair import average_scale
from attnlab.construct.replace import replace_key
from attnlab.construct.result import Construction, Constructions
from attnlab.construct.robustness import compare_heads, noisy_covariances, robustness
from attnlab.construct.robustness_result import RobustnessSettings
from attnlab.construct.select import select

__all__ = [
    "Construction",
    "Constructions",
    "Extraction",
    "Goal",
    "RobustnessSettings",
    "attention_weights",
    "average",
    "average_scale",
    "compare_heads",
    "design",
    "extract",
    "gradient_curve",
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
