"""What zero_grad, train, eval and no_grad do, measured on a network of two layers.

backward twice without zero_grad      the gradients add up: exactly twice one of them
train()                               dropout is random, batch norm depends on the whole batch
eval()                                neither; but autograd still records
no_grad()                             nothing is recorded: no bytes saved for a backward pass
"""

import torch
from torch import Tensor, nn

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome

ROWS, WIDTH, HIDDEN = 7, 5, 11


def measure_step(seed: Seed) -> Outcome:
    """Each fact on a network and rows drawn from the seed."""
    rows = torch.randn(ROWS, WIDTH, generator=seed.child("rows").torch_generator())
    return Outcome(
        {
            **gradient_ratios(build_network(seed), rows),
            **output_changes(build_network(seed), rows, seed),
            **saved_bytes(build_network(seed), rows),
        }
    )


def build_network(seed: Seed) -> nn.Sequential:
    """Linear, batch norm, ReLU, dropout, linear; the same weights for the same seed."""
    one, two = (nn.utils.skip_init(nn.Linear, *shape) for shape in ((WIDTH, HIDDEN), (HIDDEN, 1)))
    generator = seed.child("weights").torch_generator()
    with torch.no_grad():
        for parameter in (*one.parameters(), *two.parameters()):
            parameter.normal_(0, 0.5, generator=generator)
    return nn.Sequential(one, nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(0.5), two)


def gradient_ratios(model: nn.Module, rows: Tensor) -> dict[str, float]:
    """Gradient norm of a second backward pass over the first, without and with zero_grad."""
    model.eval()

    def norm_after_backward() -> float:
        model(rows).square().sum().backward()
        norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
        return float(torch.stack(norms).norm())

    once, twice = norm_after_backward(), norm_after_backward()
    model.zero_grad()
    again = norm_after_backward()
    return {"not_zeroed": twice / once, "zeroed": again / once}


@torch.no_grad()
def output_changes(model: nn.Sequential, rows: Tensor, seed: Seed) -> dict[str, float]:
    """How far an output moves when it is computed again, and with other rows in the batch."""
    first, batch_norm, relu, dropout, last = model
    with_dropout = nn.Sequential(first, relu, dropout, last)
    with_norm = nn.Sequential(first, batch_norm, relu, last)
    others = rows.clone()
    others[1:] = torch.randn(ROWS - 1, WIDTH, generator=seed.child("others").torch_generator())
    changes: dict[str, float] = {}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed.child("dropout").number % 2**31)
        for mode in ("train", "eval"):
            with_dropout.train(mode == "train")
            one, two = with_dropout(rows), with_dropout(rows)
            changes[f"dropout_{mode}"] = float((one - two).abs().max())
            with_norm.train(mode == "train")
            change = with_norm(rows)[0] - with_norm(others)[0]
            changes[f"neighbours_{mode}"] = float(change.abs().max())
    return changes


def saved_bytes(model: nn.Module, rows: Tensor) -> dict[str, int | bool]:
    """Bytes saved for a backward pass in train mode, in eval mode, and under no_grad."""
    metrics: dict[str, int | bool] = {}
    for name in ("train", "eval", "no_grad"):
        model.train(name == "train")
        sizes: list[int] = []

        def pack(tensor: Tensor, sizes: list[int] = sizes) -> Tensor:
            sizes.append(tensor.numel() * tensor.element_size())
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with hooks, torch.set_grad_enabled(name != "no_grad"), torch.random.fork_rng(devices=[]):
            out = model(rows)
        metrics[f"kept_{name}"] = sum(sizes)
        metrics[f"records_{name}"] = bool(out.requires_grad)
    return metrics
