"""Seam `normalise`: scores -> weights."""

from attnlab.parts.normalise.argmax import Argmax as Argmax
from attnlab.parts.normalise.base import Normalise as Normalise
from attnlab.parts.normalise.softmax import Softmax as Softmax
from attnlab.parts.normalise.straight_through import StraightThrough as StraightThrough
