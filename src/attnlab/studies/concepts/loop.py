"""What zero_grad, train, eval and no_grad do, on a network of two layers; by measuring it.

backward twice without zero_grad      the gradients add up: exactly twice one of them
train()                               dropout draws, batch norm reads the neighbours of a row
eval()                                neither; but gradients are still recorded
no_grad()                             nothing is recorded: no bytes kept for a backward pass
"""

from typing import Any

import torch
from torch import Tensor, nn

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial

ROWS, WIDTH, HIDDEN = 7, 5, 11


def small_facts(trial: Trial) -> Outcome:
    """Every fact on its own draw of weights and rows."""
    seed = trial.stream
    rows = torch.randn(ROWS, WIDTH, generator=seed.child("rows").torch_generator())
    facts: dict[str, Any] = gradients(network(seed), rows) | modes(network(seed), rows, seed)
    return Outcome(facts | recorded(network(seed), rows))


def network(seed: Seed) -> nn.Sequential:
    """Linear, batch norm, ReLU, dropout, linear; the same weights for the same seed."""
    one, two = (nn.utils.skip_init(nn.Linear, *shape) for shape in ((WIDTH, HIDDEN), (HIDDEN, 1)))
    generator = seed.child("weights").torch_generator()
    with torch.no_grad():
        for parameter in (*one.parameters(), *two.parameters()):
            parameter.normal_(0, 0.5, generator=generator)
    return nn.Sequential(one, nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(0.5), two)


def gradients(model: nn.Module, rows: Tensor) -> dict[str, Any]:
    """Ratio of the gradient after two backward passes to one, without and with zero_grad."""
    model.eval()

    def norm() -> float:
        model(rows).square().sum().backward()
        return float(
            torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
        )

    once, twice = norm(), norm()
    model.zero_grad()
    again = norm()
    return {"not_zeroed": twice / once, "zeroed": again / once}


@torch.no_grad()
def modes(model: nn.Sequential, rows: Tensor, seed: Seed) -> dict[str, Any]:
    """How far a row's output moves: drawn again, and with other neighbours, in both modes."""
    first, normed, relu, dropped, last = model
    drop, norm = nn.Sequential(first, relu, dropped, last), nn.Sequential(first, normed, relu, last)
    others = rows.clone()
    others[1:] = torch.randn(ROWS - 1, WIDTH, generator=seed.child("others").torch_generator())
    found: dict[str, Any] = {}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed.child("dropout").number % 2**31)
        for mode in ("train", "eval"):
            drop.train(mode == "train")
            one, two = drop(rows), drop(rows)
            found[f"dropout_{mode}"] = float((one - two).abs().max())
            norm.train(mode == "train")
            found[f"neighbours_{mode}"] = float((norm(rows)[0] - norm(others)[0]).abs().max())
    return found


def recorded(model: nn.Module, rows: Tensor) -> dict[str, Any]:
    """Bytes kept for a backward pass in train mode, in eval mode, and without gradients."""
    found: dict[str, Any] = {}
    for name in ("train", "eval", "no_grad"):
        model.train(name == "train")
        kept: list[int] = []

        def keep(tensor: Tensor, kept: list[int] = kept) -> Tensor:
            kept.append(tensor.numel() * tensor.element_size())
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with hooks, torch.set_grad_enabled(name != "no_grad"), torch.random.fork_rng(devices=[]):
            out = model(rows)
        found[f"kept_{name}"] = sum(kept)
        found[f"records_{name}"] = bool(out.requires_grad)
    return found
