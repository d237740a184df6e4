"""variant-is-live: did the setting change anything?

Runs: both models in float64, the variant given the baseline's weights wherever name and shape
agree, on the same probe; where the outputs agree, the gradient of what only the variant has (a
gate that starts at 0 is alive). And: which keys of a config are read while a model is built.
Number: largest movement of the output, relative; for a config, keys never read. Fails when the
output does not move and no new parameter would learn, or when a key is never read.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.finding import Finding

NAME = "variant-is-live"
LIMIT = 1e-9  # relative, float64: another order of additions moves 1e-13, any real change more


def variant_is_live(
    baseline: nn.Module, variant: nn.Module, probe: Callable[[nn.Module], Tensor]
) -> Finding:
    """Judge two models by `probe(model)`, their output on one fixed batch."""
    one, other = (copy.deepcopy(m).double() for m in (baseline, variant))
    shapes = [{n: tuple(p.shape) for n, p in m.named_parameters()} for m in (one, other)]
    common = {n for n in shapes[0] if shapes[1].get(n) == shapes[0][n]}
    only = [sorted(set(s) - common) for s in shapes]
    with torch.no_grad():
        own = dict(one.named_parameters())
        for name, p in other.named_parameters():
            if name in common:
                p.copy_(own[name])
        before, again = probe(one), probe(one)
    if not torch.equal(before, again):
        why = "the probe gives another output each time: dropout is on, or it draws"
        return Finding(NAME, "not-applicable", None, LIMIT, why)
    after = probe(other)
    moved = _movement(before, after.detach())
    evidence: dict[str, Any] = {
        "only_in_baseline": only[0][:8],
        "only_in_variant": only[1][:8],
        "shared": len(common),
    }
    if moved > LIMIT:
        why = f"on the same weights the output moves by {moved:.2g} of its size"
        return Finding(NAME, "pass", moved, LIMIT, why, evidence)
    alive = _learning(after, other, only[1])
    evidence["would_learn"] = alive[:8]
    if alive:
        why = f"the output is the same at the start, but {alive[0]} would learn"
        return Finding(NAME, "pass", moved, LIMIT, why, evidence)
    extra = f", though it has {only[1][0]}" if only[1] else ""
    why = f"on the same weights the variant computes what the baseline does{extra}: a dead setting"
    return Finding(NAME, "fail", moved, LIMIT, why, evidence)


class Recorded(Mapping[str, Any]):
    """A config that notes which keys are asked for, as items or as attributes, nested ones too."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values, self._path = dict(values), path
        self._read: set[str] = set()
        self._asked: set[str] = set()
        self._inner = {
            key: Recorded(value, f"{path}{key}.")
            for key, value in values.items()
            if isinstance(value, Mapping)
        }

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            self._asked.add(key)
            raise KeyError(key)
        self._read.add(key)
        return self._inner.get(key, self._values[key])

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"the config has no {key!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def unread(self) -> list[str]:
        """Dotted names of the keys nobody asked for."""
        own = [self._path + key for key in self._values if key not in self._read]
        inner = [n for key, r in self._inner.items() if key in self._read for n in r.unread()]
        return sorted(own + inner)

    def missed(self) -> list[str]:
        """Dotted names that were asked for and are not there."""
        inner = [name for recorded in self._inner.values() for name in recorded.missed()]
        return sorted([self._path + key for key in self._asked] + inner)


def every_key_read(use: Callable[[Any], object], config: Mapping[str, Any]) -> Finding:
    """Judge `use(config)`, which builds or runs what the config describes.

    A key counts as read once it is asked for; `dict(config)` and `**config` ask for all of them.
    """
    if not config:
        return Finding(NAME, "not-applicable", None, 0, "the config is empty")
    recorded = Recorded(config)
    use(recorded)
    unread, missed = recorded.unread(), recorded.missed()
    evidence = {"unread": unread, "asked_for_but_absent": missed, "keys": len(config)}
    if unread:
        hint = f"; {missed[0]!r} is asked for instead" if missed else ""
        why = f"{unread[0]!r} is never read{hint}: changing it changes nothing"
        return Finding(NAME, "fail", len(unread), 0, why, evidence)
    return Finding(NAME, "pass", 0, 0, f"all {len(config)} keys are read", evidence)


def _movement(before: Tensor, after: Tensor) -> float:
    """max|Δ| / max|before|; infinite for another shape or a value that is not a number."""
    if before.shape != after.shape:
        return float("inf")
    if before.numel() == 0 or torch.equal(before, after):
        return 0.0
    gap = float((after - before).abs().max() / before.abs().max().clamp_min(1e-300))
    return gap if gap == gap else float("inf")


def _learning(output: Tensor, variant: nn.Module, names: list[str]) -> list[str]:
    """Parameters of the variant alone that the output's gradient reaches."""
    wanted = {n: p for n, p in variant.named_parameters() if n in names and p.requires_grad}
    if not wanted or not output.requires_grad:
        return []
    weights = torch.linspace(1, 2, output.numel(), dtype=output.dtype).view(output.shape)
    slopes = torch.autograd.grad((output * weights).sum(), list(wanted.values()), allow_unused=True)
    pairs = zip(wanted, slopes, strict=True)
    return [name for name, slope in pairs if slope is not None and bool((slope != 0).any())]
