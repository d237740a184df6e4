"""freeze: does training change what it should, all of it, and nothing else?

Runs: one step; then every tensor against itself before. Number: tensors that are on the wrong
side. Fails when a tensor that should learn is bit-equal to what it was, when one that should be
frozen is not, or when the numbers that learn are not as many as a closed formula says (tied
tensors counted once, by storage). The model is put back as it was.
"""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.finding import Finding, NotApplicable, audit

NAME = "freeze"
SHOWN = 8


@audit(NAME, threshold=0)
def freeze(
    model: nn.Module,
    step: Callable[[], object],
    learns: Callable[[str], bool] | Collection[str],
    *,
    count: int | None = None,
    steps: int = 1,
) -> Finding:
    """Judge `step()`, which updates the model in place.

    learns: names of the parameters that should learn, or a rule on names. count: how many numbers
    those should be. steps: a factor that starts at 0 (LoRA's B) keeps the other one still for one
    step, so such a model needs 2.
    """
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    buffers = {name: b.detach().clone() for name, b in model.named_buffers()}
    wanted = _names_that_learn(before, learns)
    try:
        for _ in range(steps):
            step()
        now = dict(model.named_parameters())
        moved = {n for n in before if n not in now or not _bit_equal(now[n].detach(), before[n])}
        moved_buffers = [n for n, b in model.named_buffers() if not _bit_equal(b, buffers[n])]
    finally:
        _restore(model, before, buffers)
    still, loose = sorted(wanted - moved), sorted(moved - wanted)
    numbers = count_unique(p for name, p in model.named_parameters() if name in wanted)
    fixed = [n for n, p in model.named_parameters() if n in wanted and not p.requires_grad]
    evidence: dict[str, Any] = {
        "learn": len(wanted),
        "frozen": len(before) - len(wanted),
        "numbers": numbers,
        "expected_numbers": count,
        "did_not_move": still[:SHOWN],
        "moved": loose[:SHOWN],
        "buffers_moved": moved_buffers[:SHOWN],
        "no_gradient_asked": fixed[:SHOWN],
    }
    problem = _problem(still, loose, len(moved), (numbers, count))
    if problem:
        return Finding(NAME, "fail", len(still) + len(loose), 0, problem, evidence)
    if not wanted:
        raise NotApplicable("no parameter is supposed to learn", evidence=evidence)
    why = (
        f"all {len(wanted)} tensors that should learn ({numbers:,} numbers) changed, the other "
        f"{evidence['frozen']} kept every bit"
    )
    return Finding(NAME, "pass", 0, 0, why, evidence)


def count_unique(tensors: Any) -> int:
    """How many numbers tensors hold, those that share storage counted once."""
    places = {(t.untyped_storage().data_ptr(), t.data_ptr(), t.numel()) for t in tensors}
    return sum(n for _, _, n in places)


def _names_that_learn(
    names: Collection[str], learns: Callable[[str], bool] | Collection[str]
) -> set[str]:
    if callable(learns):
        return {name for name in names if learns(name)}
    unknown = sorted(set(learns) - set(names))
    if unknown:
        raise ValueError(f"the model has no parameter {unknown[0]!r}")
    return set(learns)


def _bit_equal(one: Tensor, other: Tensor) -> bool:
    """Equal in every bit, NaN included."""
    bits = [tensor.reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return one.shape == other.shape and torch.equal(*bits)


@torch.no_grad()
def _restore(model: nn.Module, before: dict[str, Tensor], buffers: dict[str, Tensor]) -> None:
    for name, p in model.named_parameters():
        p.copy_(before[name])
    for name, b in model.named_buffers():
        if name in buffers and b.shape == buffers[name].shape:
            b.copy_(buffers[name])


def _problem(still: list[str], loose: list[str], moved: int, counts: tuple[int, int | None]) -> str:
    numbers, expected = counts
    if still and moved == 0:
        return f"nothing changed at all: {still[0]} and {len(still) - 1} more should learn"
    parts = []
    if loose:
        parts.append(f"{len(loose)} tensors changed that should be frozen, {loose[0]} first")
    if still:
        parts.append(f"{len(still)} tensors did not change that should learn, {still[0]} first")
    if expected is not None and numbers != expected:
        parts.append(f"{numbers:,} numbers learn, the formula says {expected:,}")
    return "; ".join(parts)
