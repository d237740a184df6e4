"""The arms: what differs from softmax attention, as the plain values a trial stores."""

from typing import Any

from attnlab.studies.hard_attention.settings import HardSettings

SOFT, COLD, ANNEALED, THROUGH = "softmax", "softmax, cold", "softmax, annealed", "straight-through"
HARD, HARD_FIXED, OFF = "argmax", "argmax, fixed embeddings", "attention off"

Arm = dict[str, Any]


def arms(settings: HardSettings) -> dict[str, Arm]:
    """Name -> fields of `Choice`; all start from the same weights at the same seed."""
    s = settings
    return {
        SOFT: {},
        ANNEALED: {"temperature": [1.0, s.anneal_to]},
        COLD: {"temperature": [s.cold, s.cold]},
        THROUGH: {"normalise": "straight-through"},
        HARD: {"normalise": "argmax"},
        # keys and values are read from the same embeddings: held fixed, no gradient finds a way
        HARD_FIXED: {"normalise": "argmax", "fixed": True},
        OFF: {"mask": "self"},  # the query at place 0 sees the first item only
    }
