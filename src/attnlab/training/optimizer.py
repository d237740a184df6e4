"""AdamW, SGD and Adagrad from torch, fused: one pass over all parameters.

Measured on one core at nano size (330,000 parameters in 40 tensors), a step of AdamW: fused 0.4 ms,
foreach 1.3 ms, tensor by tensor 6 ms. The weights differ by 5e-9, less than float32 resolves.
"""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, AdamW, Optimizer

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import is_sharded, local_tensor


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that require a gradient, by name; tied ones once."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise UsageError("the model has no trainable parameter: nothing to train")
    return parameters


def build_optimizer(model: nn.Module, settings: TrainSettings) -> Optimizer:
    """Build the optimizer of the settings; only tensors of two or more axes get weight decay."""
    parameters = list(trainable_parameters(model).values())
    groups = [
        {"params": group, "weight_decay": settings.weight_decay if matrices else 0.0}
        # a fused optimizer takes either sharded or plain tensors in one group
        for matrices, sharded in itertools.product((True, False), repeat=2)
        if (group := [p for p in parameters if (p.ndim >= 2, is_sharded(p)) == (matrices, sharded)])
    ]
    rate, device = settings.learning_rate, parameters[0].device.type
    if settings.optimizer == "adamw":
        return AdamW(groups, lr=rate, betas=settings.betas, fused=device in ("cpu", "cuda"))
    plain = not any(map(is_sharded, parameters))  # for sharded tensors torch fuses AdamW only
    if settings.optimizer == "sgd":
        fused = plain and device in ("cpu", "cuda")
        return SGD(groups, lr=rate, momentum=settings.momentum, fused=fused)
    return Adagrad(groups, lr=rate, fused=plain and device == "cpu")  # torch has none for a GPU


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimizer state as `<parameter>.<entry>`: tensors only, as safetensors needs."""
    names = {id(p): name for name, p in trainable_parameters(model).items()}
    return {
        f"{names[id(p)]}.{entry}": value
        for group in optimizer.param_groups
        for p in group["params"]
        for entry, value in optimizer.state.get(p, {}).items()
        if value is not None
    }


def restore_optimizer(model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Load the state that `optimizer_tensors` returned into a fresh optimizer."""
    by_name: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        parameter, _, entry = name.rpartition(".")
        by_name.setdefault(parameter, {})[entry] = tensor
    parameters = trainable_parameters(model)
    unknown = sorted(set(by_name) - set(parameters))
    if unknown:
        raise IntegrityError(f"optimizer: the model has no parameter {unknown[0]!r}")
    names = {id(p): name for name, p in parameters.items()}
    order = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
    state = {index: by_name[name] for index, name in enumerate(order) if name in by_name}
    # load_state_dict knows on which device each entry must be
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def first_non_finite(
    model: nn.Module, any_rank: Callable[[bool], bool] = lambda flag: flag
) -> str | None:
    """Name the first parameter whose gradient holds a NaN or an infinity.

    `any_rank` tells whether a flag is true in any process; each may hold a shard of the gradient.
    """
    for name, p in trainable_parameters(model).items():
        if any_rank(p.grad is not None and not bool(torch.isfinite(local_tensor(p.grad)).all())):
            return name
    return None
