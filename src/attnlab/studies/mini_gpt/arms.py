"""The arms: what differs from the plain GPT, as the plain values a trial stores.

Each arm changes one part of the same model; `off` lets every position see itself only, which is the
same network with attention switched off.
"""

from typing import Any

Arm = dict[str, dict[str, Any]]

OFF: Arm = {"mask": {"name": "self"}}

# embeddings start with entries of size 0.02; sinusoids have root mean square 1/√2
AS_SMALL_AS_EMBEDDINGS = 0.02 * 2**0.5

POSITIONS: dict[str, Arm] = {
    "learned": {"position": {"name": "learned"}},
    "sinusoidal as reported": {"position": {"name": "sinusoidal", "exponent": "reported"}},
    "sinusoidal": {"position": {"name": "sinusoidal", "exponent": "standard"}},
    "sinusoidal scaled": {
        "position": {"name": "sinusoidal", "exponent": "standard", "scale": AS_SMALL_AS_EMBEDDINGS}
    },
    "rotary": {"position": {"name": "rotary"}},
    "alibi": {"position": {"name": "alibi"}},
    "none": {"position": {"name": "none"}},
    "attention off": OFF,
}

MERGING: dict[str, Arm] = {
    "concatenate": {"merge": {"name": "concat"}},
    "shuffle each time": {"merge": {"name": "shuffle", "when": "forward"}},
    "shuffle once": {"merge": {"name": "shuffle", "when": "once"}},
    "shift": {"merge": {"name": "shift"}},
    "re-weight by batch": {"merge": {"name": "reweight", "over": "batch"}},
    "re-weight by heads": {"merge": {"name": "reweight", "over": "heads"}},
    "re-weight causal": {"merge": {"name": "reweight-causal"}},
    "attention off": OFF,
}


def depth_arm(depth: int, initial: str) -> Arm:
    """Query, key and value maps of `depth` hidden layers; depth 0 is the plain linear map."""
    if depth == 0:
        return {}
    return {"project": {"name": "mlp", "depth": depth, "init": initial}}
