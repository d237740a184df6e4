"""a | b: a key is seen where some side allows it."""

from operator import or_

from attnlab.parts.mask.base import Joined


class Either(Joined, name="or"):
    """Causal only when every side is."""

    join, causal_if = or_, all
