"""Attention by hand: queries and keys that do what is asked, or the proof that none can.

    weights = softmax(scale * K q),    output = weights @ V,    scale 1 or 1 / sqrt(h)

Functions and the files they live in share names, so they are imported here at once: every file
of this room imports numpy and nothing heavier when it is opened.
"""

from attnlab.construct.average import average
from attnlab.construct.batch import select_many
from attnlab.construct.design import design
from attnlab.construct.extract import Extraction, extract
from attnlab.construct.goals import Goal, parse_goal
from attnlab.construct.hard import gradient_curve, hard_attention, slopes
from attnlab.construct.identity import identity
from attnlab.construct.keys import resolve_scale, attention_weights
from attnlab.construct.match import match
from attnlab.construct.outcomes import Settings
from attnlab.construct.pair import average_scale
from attnlab.construct.replace import replace_key
from attnlab.construct.result import Construction, Constructions
from attnlab.construct.robustness import noisy, one_and_two_heads, robustness
from attnlab.construct.select import select

__all__ = [
    "Construction",
    "Constructions",
    "Extraction",
    "Goal",
    "Settings",
    "average",
    "average_scale",
    "design",
    "extract",
    "gradient_curve",
    "hard_attention",
    "identity",
    "match",
    "noisy",
    "one_and_two_heads",
    "parse_goal",
    "replace_key",
    "robustness",
    "scale_of",
    "select",
    "select_many",
    "slopes",
    "weights_of",
]
