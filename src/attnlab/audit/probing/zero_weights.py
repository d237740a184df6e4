"""Weights that are all zero, as some start their training: they hide what they are multiplied with.

An audit can ask a copy in which they hold small random values.
"""

import copy
from dataclasses import replace

import torch

from attnlab.audit.probing.subject import Subject


def zero_weights(subject: Subject) -> list[str]:
    """Names of weights that hold nothing but zeros; biases often do and hide nothing."""
    named = [] if subject.module is None else subject.module.named_parameters()
    return [
        name
        for name, p in named
        if p.is_floating_point() and p.numel() and "bias" not in name.lower() and not bool(p.any())
    ]


def fill_zero_weights(subject: Subject) -> Subject | None:
    """A copy with small random values in its all-zero weights, made once; None: there are none."""
    if "filled" not in subject.memo:
        subject.memo["filled"] = _filled_copy(subject)
    return subject.memo["filled"]


def _filled_copy(subject: Subject) -> Subject | None:
    zero = zero_weights(subject)
    if subject.module is None or subject.rewrap is None or not zero:
        return None
    try:
        module = copy.deepcopy(subject.module)
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for name in zero:
                weight = module.get_parameter(name)
                weight.copy_(0.1 * torch.randn(weight.shape, generator=generator))
        return replace(subject.rewrap(module), name=subject.name, special=subject.special)
    except Exception:  # anyone's code
        return None
