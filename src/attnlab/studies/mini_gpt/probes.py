"""What a perplexity hides: dead scores, a read future, a row that depends on its neighbours."""

import math
from typing import Any

import torch
from torch import Tensor

from attnlab.core.tokens import IGNORE
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.parts.merge import Shift, Shuffle
from attnlab.studies.mini_gpt.data import Rows, spread_out
from attnlab.tasks.batches import Batch, sequential_batches

KEPT = 0.5  # share of a sentence that stays as it is when its future is changed


def at_start(model: GPT, batch: Batch) -> dict[str, float]:
    """Spread of the scores before the first step, and the gradient that reaches the maps' inputs.

    The first layer of each map is looked at: the last one has a gradient however deep it lies.
    """
    model.train()
    total, count = model.nll(batch.ids, batch.targets, batch.key_padding_mask)
    (total / count).backward()
    first = [next(block.attention.project.parameters()) for block in model.layers()]
    squares = [float(p.grad.double().square().sum()) for p in first if p.grad is not None]
    model.zero_grad(set_to_none=True)
    model.eval()
    spread = score_spread(model, batch)
    return {"initial_gradient": math.sqrt(sum(squares)), "initial_score_spread": spread}


@torch.no_grad()
def score_spread(model: GPT, batch: Batch) -> float:
    """Root mean square over layers, heads and queries of the scores' spread over allowed keys.

    A constant added to all scores of a query changes nothing, so only the spread is attention.
    """
    length = batch.ids.shape[1]
    allowed = torch.ones(length, length, dtype=torch.bool, device=batch.ids.device).tril()
    several = allowed.sum(dim=1) > 1
    real = (
        torch.ones_like(batch.ids, dtype=torch.bool)
        if batch.key_padding_mask is None
        else ~batch.key_padding_mask
    )
    found = []
    for step in model.steps(batch.ids, batch.key_padding_mask):
        scores = step.scores.double().masked_fill(~allowed, 0.0)
        number = allowed.sum(dim=1).double()
        mean = scores.sum(dim=3) / number
        apart = (scores - mean[..., None]).masked_fill(~allowed, 0.0).square().sum(dim=3) / number
        kept = (real & several)[:, None].expand_as(apart)
        found.append(apart[kept].mean())
    return float(torch.stack(found).mean().sqrt())


def probes(model: GPT, dev: Rows, batch: int, device: str) -> dict[str, Any]:
    """Scores at the end; how far a changed future and changed neighbours move predictions."""
    rows = [row for row in spread_out(dev, 8 * batch) if len(row) > 4][:batch]
    first = next(iter(sequential_batches(rows, len(rows)))).to(device)
    found: dict[str, Any] = {
        "score_spread": score_spread(model, first),
        "past_moved": past_moved(model, first),
        "neighbour_moved": neighbour_moved(model, first),
    }
    gap = twin_gap(model, first)
    if gap is not None:
        found["twin_gap"] = gap
    merge = next(model.layers()).attention.merge
    if hasattr(merge, "off_at_inference"):
        found |= _switched_off(model, dev, batch, device)
    return found


def _log_probabilities(model: GPT, batch: Batch) -> Tensor:
    torch_state = [b.clone() for b in model.buffers()]  # a merge that counts its calls
    found = torch.log_softmax(model(batch.ids, batch.key_padding_mask).double(), dim=-1)
    for buffer, before in zip(model.buffers(), torch_state, strict=True):
        buffer.copy_(before)
    picked = batch.targets.clamp_min(0)[..., None]
    return found.gather(2, picked)[..., 0].masked_fill(batch.targets == IGNORE, 0.0)


@torch.no_grad()
def past_moved(model: GPT, batch: Batch) -> float:
    """Largest change of a log-probability before the first changed word, later words replaced."""
    lengths = (batch.targets != IGNORE).sum(dim=1)
    keep = (KEPT * lengths).long().clamp_min(1)
    place = torch.arange(batch.ids.shape[1], device=batch.ids.device)
    later = (place >= keep[:, None]) & (place < lengths[:, None])
    changed = torch.where(later, (batch.ids + 7) % model.config.vocab, batch.ids)
    other = Batch(changed, batch.targets, batch.key_padding_mask)
    moved = (_log_probabilities(model, other) - _log_probabilities(model, batch)).abs()
    return float(moved[place < keep[:, None]].max())


@torch.no_grad()
def neighbour_moved(model: GPT, batch: Batch) -> float:
    """Largest change of the first row's log-probabilities when all other rows are replaced."""
    ids = batch.ids.clone()
    ids[1:] = (ids[1:] + 7) % model.config.vocab
    other = Batch(ids, batch.targets, batch.key_padding_mask)
    moved = _log_probabilities(model, other) - _log_probabilities(model, batch)
    return float(moved[0].abs().max())


@torch.no_grad()
def twin_gap(model: GPT, batch: Batch) -> float | None:
    """Largest logit gap to concatenation with the output map's columns permuted; None otherwise."""
    merge = next(model.layers()).attention.merge
    drawn_once = isinstance(merge.config, Shuffle.Config) and merge.config.when == "once"
    if not isinstance(merge, Shift) and not drawn_once:
        return None
    config = GPTConfig.from_json({**model.config.to_json(), "merge": {"name": "concat"}})
    twin = GPT(config, torch.Generator())
    state = model.state_dict()
    heads, width = config.heads, config.d_model // config.heads
    for index, block in enumerate(model.layers()):
        marks = (
            torch.arange(heads, dtype=torch.float32).view(1, heads, 1, 1).expand(1, -1, 1, width)
        )
        order = block.attention.merge.arrange(marks.to(batch.ids.device))[0, :, 0, 0].long()
        name = f"blocks.{index}.attention.merge.out.weight"
        columns = state[name].unflatten(1, (heads, width))
        state[name] = columns[:, torch.argsort(order)].flatten(1)
    known = twin.state_dict().keys()
    twin.load_state_dict({k: v for k, v in state.items() if k in known})
    twin.to(batch.ids.device).eval()
    gap = (twin(batch.ids, batch.key_padding_mask) - model(batch.ids, batch.key_padding_mask)).abs()
    return float(gap[batch.targets != IGNORE].max())


def _switched_off(model: GPT, dev: Rows, batch: int, device: str) -> dict[str, float]:
    """Perplexity of the same weights with the re-weighting replaced by its mean."""
    from attnlab.measure.perplexity import score, token_nll

    merges: list[Any] = [block.attention.merge for block in model.layers()]
    for merge in merges:
        merge.off_at_inference = True
    found = score(
        token_nll(model), sequential_batches(spread_out(dev, 600), batch), device
    ).perplexity
    for merge in merges:
        merge.off_at_inference = False
    return {"off_dev_perplexity": found.corpus}
