"""The audits of a training step on our own loop as it runs: rates, batches, pieces, perplexity."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.audit.checks.freeze import freeze
from attnlab.audit.checks.gradient_accumulation import accumulated_step
from attnlab.audit.checks.metric_invariance import metric_invariance
from attnlab.audit.checks.schedule import schedule
from attnlab.core.seeds import Seed
from attnlab.measure.content import digest
from attnlab.measure.perplexity import score, token_nll
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.tasks.batches import Batch, SentenceBatches, sequential_batches
from attnlab.training.loop import train
from attnlab.training.settings import TrainSettings

VOCAB, BLOCK, BATCH = 19, 13, 6
RNG = Seed(3).numpy_generator()
ROWS = [RNG.integers(0, VOCAB, n) for n in RNG.integers(2, BLOCK, 66)]
STEPS = 3 * len(ROWS) // BATCH


def gpt(dtype: torch.dtype = torch.float32) -> GPT:
    config = GPTConfig(vocab=VOCAB, block=BLOCK, layers=1, heads=2, d_model=10)
    return GPT(config, Seed(5).torch_generator()).to(dtype)


class Noted:
    """Batches that remember what the loop asked for, in its order."""

    def __init__(self) -> None:
        self.inner, self.met = SentenceBatches(ROWS, BLOCK, BATCH, Seed(7)), list[Batch]()

    def batch(self, step: int) -> Batch:
        self.met.append(self.inner.batch(step))
        return self.met[-1]


def settings(**values: Any) -> TrainSettings:
    return TrainSettings(**{"steps": STEPS, "batch": BATCH, "learning_rate": 0.01} | values)


@pytest.fixture(scope="module")
def trained() -> tuple[GPT, list[dict[str, Any]]]:
    model = gpt()
    return model, list(train(model, Noted(), settings()).log)


def test_the_rates_the_loop_used(trained: tuple[GPT, list[dict[str, Any]]]) -> None:
    rates = [line["learning_rate"] for line in trained[1]]
    assert len(rates) == STEPS
    assert schedule(rates, peak=0.01, floor=0.001).verdict == "pass"


def test_the_batches_the_loop_met() -> None:
    def epochs() -> list[list[Batch]]:
        noted = Noted()
        train(gpt(), noted, settings())
        each = len(ROWS) // BATCH
        assert len(noted.met) == STEPS
        return [noted.met[start : start + each] for start in (0, each)]

    first, second = epochs()
    again, _ = epochs()
    assert digest(first) == digest(again) != digest(second)
    rows = [
        digest(row[~hide])
        for b in first
        if b.key_padding_mask is not None
        for row, hide in zip(b.ids, b.key_padding_mask, strict=True)
    ]
    assert len(rows) == len(ROWS)


def test_pieces_of_a_step_of_the_loop() -> None:
    """Plain descent at rate 1: what a step takes from the weights is the gradient it used."""
    batch = next(sequential_batches(sorted(ROWS, key=len)[::8], 8))

    class Fixed:
        def __init__(self, whole: Batch) -> None:
            self.whole = whole

        def batch(self, step: int) -> Batch:
            return self.whole

    def step(parts: Sequence[Any]) -> dict[str, Tensor]:
        model = gpt(torch.float64)
        before = copy.deepcopy(dict(model.named_parameters()))
        plain = settings(
            steps=1,
            optimizer="sgd",
            learning_rate=1.0,
            schedule="constant",
            warmup_fraction=0.0,
            weight_decay=0.0,
            clip=0.0,
            accumulate=len(parts),
        )
        train(model, Fixed(parts[0] if len(parts) == 1 else batch), plain)
        return {n: before[n].detach() - p.detach() for n, p in model.named_parameters()}

    lengths = (batch.targets != -100).sum(1).tolist()
    found = accumulated_step(step, batch, scored=lengths)
    assert found.verdict == "pass", found.why


def test_a_step_of_the_loop_moves_everything() -> None:
    model = gpt()
    found = freeze(
        model,
        lambda: train(model, Noted(), settings(steps=1)),
        lambda name: True,
        count=model.parameter_count(),
    )
    assert found.verdict == "pass", found.why


def test_perplexity_of_the_trained_model(trained: tuple[GPT, list[dict[str, Any]]]) -> None:
    nll = token_nll(trained[0])

    def metric(batch: int, pads: int) -> float:
        return score(nll, sequential_batches(ROWS, batch)).perplexity.corpus

    assert metric_invariance(metric, pads=(0,)).verdict == "pass"
