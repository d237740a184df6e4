"""Linear maps drawn from an explicit generator; nothing here reads torch's global one."""

import torch
from torch import Tensor, nn

GPT_STD = 0.02


def linear(inputs: int, outputs: int, bias: bool, generator: torch.Generator) -> nn.Linear:
    """A map with N(0, 0.02²) weights and no bias at the start, as in GPT-2."""
    here = torch.get_default_device()
    with torch.device("meta"):  # nn.Linear would fill itself from the global generator
        layer = nn.Linear(inputs, outputs, bias=bias)
    layer.to_empty(device=here)
    normal_(layer.weight, GPT_STD, generator)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def normal(shape: tuple[int, ...], std: float, generator: torch.Generator) -> nn.Parameter:
    """A parameter with N(0, std²) entries."""
    return nn.Parameter(normal_(torch.empty(shape), std, generator))


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> nn.Parameter:
    """A parameter with entries uniform in ±bound."""
    weight = torch.empty(shape)
    if not weight.is_meta:
        weight.uniform_(-bound, bound, generator=generator)
    return nn.Parameter(weight)


def normal_(weight: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Filled in place; a tensor without storage (a model about to be loaded) is left alone."""
    with torch.no_grad():
        return weight if weight.is_meta else weight.normal_(0.0, std, generator=generator)
