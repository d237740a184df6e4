"""a & b: a key is seen where every side allows it."""

from operator import and_

from attnlab.parts.mask.base import Joined


class Both(Joined, name="and"):
    """Causal as soon as one side is."""

    join, causal_if = and_, any
