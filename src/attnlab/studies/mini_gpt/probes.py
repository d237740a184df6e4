"""What a perplexity hides: dead scores, predictions that read the future or the other rows."""

import math
from typing import Any

import torch
from torch import Tensor

from attnlab.core.tokens import IGNORE
from attnlab.measure.perplexity import score, token_nll
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.parts.merge import Shift, Shuffle
from attnlab.studies.mini_gpt.data import Rows, sample_rows
from attnlab.tasks.batches import Batch, sequential_batches

KEPT = 0.5  # share of a sentence that stays as it is when its future is changed


def measure_start(model: GPT, batch: Batch) -> dict[str, float]:
    """Spread of the scores before the first step, and the gradient norm of the first layer of the
    query, key and value maps (the last layer has a gradient however deep it lies)."""
    model.train()
    total, count = model.nll(batch.ids, batch.targets, batch.key_padding_mask)
    (total / count).backward()
    first = [next(block.attention.project.parameters()) for block in model.layers()]
    squares = [float(p.grad.double().square().sum()) for p in first if p.grad is not None]
    model.zero_grad(set_to_none=True)
    model.eval()
    return {
        "initial_gradient": math.sqrt(sum(squares)),
        "initial_score_spread": score_spread(model, batch),
    }


@torch.no_grad()
def score_spread(model: GPT, batch: Batch) -> float:
    """Root mean square over layers, heads and queries of the scores' spread over allowed keys.

    A constant added to all scores of a query changes nothing, so only the spread is attention.
    """
    length = batch.ids.shape[1]
    allowed = torch.ones(length, length, dtype=torch.bool, device=batch.ids.device).tril()
    keys = allowed.sum(dim=1)
    padding = batch.key_padding_mask
    real = torch.ones_like(batch.ids, dtype=torch.bool) if padding is None else ~padding
    variances = []
    for step in model.steps(batch.ids, padding):
        scores = step.scores.double().masked_fill(~allowed, 0.0)
        mean = scores.sum(dim=3) / keys.double()
        squares = (scores - mean[..., None]).masked_fill(~allowed, 0.0).square()
        variance = squares.sum(dim=3) / keys.double()
        counted = (real & (keys > 1))[:, None].expand_as(variance)
        variances.append(variance[counted].mean())
    return float(torch.stack(variances).mean().sqrt())


def probe(model: GPT, dev: Rows, batch: int, device: str) -> dict[str, float]:
    """Spread of the scores; how far a changed future and changed neighbours move predictions."""
    rows = [row for row in sample_rows(dev, 8 * batch) if len(row) > 4][:batch]
    first = next(iter(sequential_batches(rows, len(rows)))).to(device)
    metrics = {
        "score_spread": score_spread(model, first),
        "past_moved": past_moved(model, first),
        "neighbour_moved": neighbour_moved(model, first),
    }
    gap = twin_gap(model, first)
    if gap is not None:
        metrics["twin_gap"] = gap
    if hasattr(next(model.layers()).attention.merge, "off_at_inference"):
        metrics["off_dev_perplexity"] = _perplexity_without_weights(model, dev, batch, device)
    return metrics


def _log_probabilities(model: GPT, batch: Batch) -> Tensor:
    """Of each target, 0 where nothing is scored; a merge that counts its calls is set back."""
    buffers = [buffer.clone() for buffer in model.buffers()]
    logs = torch.log_softmax(model(batch.ids, batch.key_padding_mask).double(), dim=-1)
    for buffer, before in zip(model.buffers(), buffers, strict=True):
        buffer.copy_(before)
    targets = batch.targets.clamp_min(0)[..., None]
    return logs.gather(2, targets)[..., 0].masked_fill(batch.targets == IGNORE, 0.0)


def _movement(model: GPT, batch: Batch, ids: Tensor) -> Tensor:
    """How far the log-probability of every target moves when the inputs become `ids`."""
    changed = Batch(ids, batch.targets, batch.key_padding_mask)
    return (_log_probabilities(model, changed) - _log_probabilities(model, batch)).abs()


@torch.no_grad()
def past_moved(model: GPT, batch: Batch) -> float:
    """Largest change of a log-probability before the first changed word, later words replaced."""
    lengths = (batch.targets != IGNORE).sum(dim=1)
    keep = (KEPT * lengths).long().clamp_min(1)
    place = torch.arange(batch.ids.shape[1], device=batch.ids.device)
    later = (place >= keep[:, None]) & (place < lengths[:, None])
    ids = torch.where(later, (batch.ids + 7) % model.config.vocab, batch.ids)
    return float(_movement(model, batch, ids)[place < keep[:, None]].max())


@torch.no_grad()
def neighbour_moved(model: GPT, batch: Batch) -> float:
    """Largest change of the first row's log-probabilities when all other rows are replaced."""
    ids = batch.ids.clone()
    ids[1:] = (ids[1:] + 7) % model.config.vocab
    return float(_movement(model, batch, ids)[0].max())


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
    numbers = torch.arange(heads, dtype=torch.float32, device=batch.ids.device)
    numbers = numbers.view(1, heads, 1, 1).expand(1, -1, 1, width)
    for index, block in enumerate(model.layers()):
        order = block.attention.merge.arrange(numbers)[0, :, 0, 0].long()
        name = f"blocks.{index}.attention.merge.out.weight"
        columns = state[name].unflatten(1, (heads, width))
        state[name] = columns[:, torch.argsort(order)].flatten(1)
    known = twin.state_dict().keys()
    twin.load_state_dict({k: v for k, v in state.items() if k in known})
    twin.to(batch.ids.device).eval()
    gap = (twin(batch.ids, batch.key_padding_mask) - model(batch.ids, batch.key_padding_mask)).abs()
    return float(gap[batch.targets != IGNORE].max())


def _perplexity_without_weights(model: GPT, dev: Rows, batch: int, device: str) -> float:
    """Dev perplexity of the same model with the re-weighting replaced by its mean in training."""
    merges: list[Any] = [block.attention.merge for block in model.layers()]
    for merge in merges:
        merge.off_at_inference = True
    scores = score(token_nll(model), sequential_batches(sample_rows(dev, 600), batch), device)
    for merge in merges:
        merge.off_at_inference = False
    return scores.perplexity.corpus
