"""metric-invariance: fires on means of means, scored pads, batch statistics; ours passes."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlab.audit.checks.metric_invariance import LIMIT, NAME, metric_invariance
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.measure.perplexity import corpus_perplexity, score, token_nll
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.studies.mini_gpt.head_merging import MERGING
from attnlab.studies.mini_gpt.study import Parts
from attnlab.tasks.batches import Batch, sequential_batches

VOCAB, BLOCK = 29, 23
RNG = Seed(3).numpy_generator()
ROWS = [RNG.integers(0, VOCAB, n) for n in RNG.integers(2, 17, 67)]


def gpt(parts: Parts | None = None) -> GPT:
    plain = GPTConfig(vocab=VOCAB, block=BLOCK, layers=1, heads=2, d_model=14).to_json()
    return GPT(GPTConfig.from_json({**plain, **(parts or {})}), Seed(5).torch_generator()).eval()


MODEL = gpt()


def padded(batch: int, pads: int) -> list[Batch]:
    """The rows in batches, each `pads` places wider than it need be."""
    found = []
    for ids, targets, hidden in sequential_batches(ROWS, batch):
        assert hidden is not None
        widen = torch.nn.functional.pad
        found.append(
            Batch(
                widen(ids, (0, pads), value=1),
                widen(targets, (0, pads), value=IGNORE),
                widen(hidden, (0, pads), value=True),
            )
        )
    return found


def corpus(model: GPT) -> Callable[[int, int], float]:
    return lambda batch, pads: score(token_nll(model), padded(batch, pads)).perplexity.corpus


def test_our_own_perplexities_pass() -> None:
    found = metric_invariance(corpus(MODEL))
    assert (found.name, found.verdict, found.threshold) == (NAME, "pass", LIMIT), found.why
    assert len(found.evidence["values"]) == 6
    by_sentence = metric_invariance(
        lambda b, p: score(token_nll(MODEL), padded(b, p)).perplexity.sentence_mean
    )
    assert by_sentence.verdict == "pass", by_sentence.why


def test_the_fast_path_of_training_passes() -> None:
    found = metric_invariance(lambda b, p: corpus_perplexity(MODEL.nll, padded(b, p)).corpus)
    assert found.verdict == "pass", found.why


def test_a_mean_of_batch_means_is_caught() -> None:
    def metric(batch: int, pads: int) -> float:
        losses = [corpus_perplexity(MODEL.nll, [b]) for b in padded(batch, pads)]
        return math.exp(float(np.mean([p.nll / p.tokens for p in losses])))

    found = metric_invariance(metric)
    assert found.verdict == "fail" and "a mean of batch means" in found.why


def test_pads_that_are_scored_are_caught() -> None:
    def metric(batch: int, pads: int) -> float:
        every = [(b.ids, b.targets.clamp_min(0), b.key_padding_mask) for b in padded(batch, pads)]
        return score(token_nll(MODEL), every).perplexity.corpus

    found = metric_invariance(metric)
    assert found.verdict == "fail" and "padding is scored" in found.why


def test_pads_in_the_denominator_are_caught() -> None:
    def metric(batch: int, pads: int) -> float:
        batches = padded(batch, pads)
        return corpus_perplexity(MODEL.nll, batches).nll / sum(b.ids.numel() for b in batches)

    assert metric_invariance(metric).verdict == "fail"


def test_pads_that_the_model_reads_are_caught() -> None:
    """Positions counted from the end: a right pad shifts them."""

    def logits(ids: Tensor, hidden: Tensor | None) -> Tensor:
        return MODEL(ids.flip(1))

    found = metric_invariance(lambda b, p: score(token_nll(logits), padded(b, p)).perplexity.corpus)
    assert found.verdict == "fail"


def test_the_reported_re_weighting_by_batch_is_caught() -> None:
    """Heads weighted by a norm over the batch: alone every weight is 1."""
    found = metric_invariance(corpus(gpt(MERGING["re-weight by batch"])))
    assert found.verdict == "fail" and "rows that read their neighbours" in found.why
    assert metric_invariance(corpus(gpt(MERGING["re-weight causal"]))).verdict == "pass"


def test_only_both_together() -> None:
    found = metric_invariance(lambda b, p: 1.0 + (b > 1 and p > 0))
    assert found.verdict == "fail" and "together" in found.why


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_is_no_number_is_caught(value: float) -> None:
    found = metric_invariance(lambda b, p: value if b == 7 else 1.0)
    assert found.verdict == "fail" and "batch 7, 0 pads" in found.why
    assert found.as_json()["number"] is None


def test_zero_is_a_metric() -> None:
    assert metric_invariance(lambda b, p: 0.0).verdict == "pass"
    assert metric_invariance(lambda b, p: 1e-3 * (b > 1)).verdict == "fail"


def test_not_applicable() -> None:
    assert metric_invariance(lambda b, p: 1.0, sizes=(1,), pads=(0,)).verdict == "not-applicable"
    assert metric_invariance(lambda b, p: 1.0, rows=1).verdict == "not-applicable"
