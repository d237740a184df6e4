"""When do a new tokenizer and new weights pay, and must tokenizer and model belong together?

A model for a target text, in three ways:

    continued  tokenizer and weights pretrained on news, trained further
    borrowed   the news tokenizer, new weights
    own        a tokenizer trained on the target, new weights

Each takes the same number of steps of the same number of tokens. They are compared by bits per
byte, −log₂ p of the text / its bytes: perplexity is per token, and tokenizers differ in what a
token is. Dev decides at which evaluation to stop; test is reported.

The same texts to a pretrained model in its own ids, and in those of another tokenizer: only an id
beyond the vocabulary raises an error. A GPT-2 that is given segment ids looks them up in its token
embeddings and adds them: segment 1 is the token of id 1.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from attnlab.audit.catalogue import model_findings
from attnlab.core.seeds import Seed
from attnlab.lab.training import train_in_trial
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.measure.perplexity import Perplexity, corpus_perplexity, score, token_nll, windows
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.trainable import open_trainable, redraw_weights
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.studies.concepts.texts import byte_count, gpt2_tokenizer, sample_bytes, text_splits
from attnlab.tasks.batches import PackedBatches, sequential_batches
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer
from attnlab.training.settings import TrainSettings

CHARACTERS = 6  # more than a token has on average: a piece of so many per token is long enough
MIN_COUNT = 2  # a pair that occurs only once is not merged
Log = list[dict[str, Any]]
Starts = dict[str, tuple[GPT, Tokenizer]]


@dataclass(frozen=True)
class HeldOut:
    """Dev and test texts of the target."""

    dev: list[str]
    test: list[str]

    def scores(self, tokenizer: Tokenizer, model: Any) -> dict[str, float]:
        """Bits per byte of both, and perplexity per token of test."""
        dev, test = (text_perplexity(model, tokenizer, part) for part in (self.dev, self.test))
        return {
            "value": bits_per_byte(dev, self.dev),
            "test_bits": bits_per_byte(test, self.test),
            "test_perplexity": test.corpus,
        }


def text_perplexity(model: Any, tokenizer: Tokenizer, texts: Sequence[str]) -> Perplexity:
    """Every token scored once, in rows of the context length; the first of a row is given."""
    stream, size = tokenizer.stream(texts), model.config.block
    rows = [stream[i : i + size + 1] for i in range(0, len(stream) - 1, size)]
    return corpus_perplexity(model.nll, sequential_batches(rows, 32))


def bits_per_byte(perplexity: Perplexity, texts: Sequence[str]) -> float:
    """Σ −log₂ p / bytes."""
    return perplexity.nll / math.log(2) / byte_count(texts)


def compare_starts(s: ConceptsSettings, trial: Trial, context: TrialContext) -> Outcome:
    """Pretrain on news once, then train from each start at each size."""
    seed, target = trial.stream, text_splits(trial.config["target"])
    held_out = HeldOut(
        sample_bytes(target.dev, s.scored_bytes, seed.child("dev")),
        sample_bytes(target.test, s.scored_bytes, seed.child("test")),
    )
    source = sample_bytes(text_splits("news").train, s.source_bytes, seed.child("source"))
    train_bpe = partial(train_tokenizer, "bpe", min_count=MIN_COUNT, vocabulary=s.vocabulary)
    borrowed = train_bpe(source)
    training = _Training(s, trial, context)
    pretrained = training.new_model("pretrained")
    training.fit(pretrained, borrowed, source)
    findings = model_findings(training.new_model("fresh"), "start")
    untouched = held_out.scores(borrowed, pretrained)
    metrics: dict[str, Scalar] = {"untouched_bits": untouched["test_bits"]}
    curves: dict[str, list[float]] = {}
    for size in s.sizes:
        texts = sample_bytes(target.train, size, seed.child("read"))
        own = train_bpe(texts)
        starts = {
            "continued": (copy.deepcopy(pretrained), borrowed),
            "borrowed": (training.new_model("fresh"), borrowed),
            "own": (training.new_model("fresh"), own),
        }
        for start, (model, tokenizer) in starts.items():
            log = training.fit(model, tokenizer, texts, held_out, pretrained=start == "continued")
            metrics |= {f"{start}_{size}_{key}": value for key, value in at_best(log).items()}
            curves[f"{start}_{size}"] = [line["value"] for line in log]
        if size == s.sizes[-1]:
            metrics |= token_lengths(held_out.test, own, borrowed)
            metrics |= swapped_tokenizers(starts, held_out)
            findings += model_findings(starts["own"][0], "end")
    return Outcome(metrics, curves=curves, findings=findings)


def at_best(log: Log) -> dict[str, float]:
    """Test scores at the first evaluation where dev is lowest."""
    best = min(log, key=lambda line: line["value"])
    return {"bits": best["test_bits"], "perplexity": best["test_perplexity"], "step": best["step"]}


def token_lengths(texts: Sequence[str], own: Tokenizer, borrowed: Tokenizer) -> dict[str, float]:
    """Tokens per word (fertility) and bytes per token of each tokenizer and of GPT-2's."""
    counts = {
        "own": sum(len(own.encode(text)) for text in texts),
        "borrowed": sum(len(borrowed.encode(text)) for text in texts),
        "gpt2": sum(len(e.ids) for e in gpt2_tokenizer().encode_batch(list(texts))),
    }
    words, size = sum(len(text.split()) for text in texts), byte_count(texts)
    fertility = {f"{name}_fertility": n / words for name, n in counts.items()}
    return fertility | {f"{name}_bytes": size / n for name, n in counts.items()}


def swapped_tokenizers(starts: Starts, held_out: HeldOut) -> dict[str, float]:
    """Perplexity per token with the model's own tokenizer, and with that of the other model."""
    metrics = {}
    for start, other in (("own", "borrowed"), ("borrowed", "own")):
        model, tokenizers = starts[start][0], (starts[start][1], starts[other][1])
        right, wrong = (text_perplexity(model, t, held_out.test).corpus for t in tokenizers)
        metrics |= {f"{start}_right": right, f"{start}_wrong": wrong}
        metrics[f"{start}_log_ratio"] = math.log(wrong / right)
    return metrics


class _Training:
    """New models of one trial, and their training."""

    def __init__(self, s: ConceptsSettings, trial: Trial, context: TrialContext) -> None:
        self.s, self.seed, self.context = s, trial.stream, context
        self.target = trial.config["target"]

    def new_model(self, name: str) -> GPT:
        s = self.s
        config = GPTConfig(s.vocabulary, s.block, s.layers, s.heads, s.width)
        return GPT(config, self.seed.child("weights", name).torch_generator())

    def fit(
        self,
        model: GPT,
        tokenizer: Tokenizer,
        texts: Sequence[str],
        held_out: HeldOut | None = None,
        *,
        pretrained: bool = False,
    ) -> Log:
        """Train on the texts, as pretraining without `held_out`; the log of the evaluations."""
        s, steps = self.s, self.s.steps if held_out else self.s.pretrain_steps
        settings = TrainSettings(
            steps=steps,
            batch=s.batch,
            evaluate_every=max(1, steps // s.evaluations),
            learning_rate=s.tune_rate if pretrained else s.learning_rate,
        )
        order = self.seed.child("order")
        batches = PackedBatches(tokenizer.stream(texts), s.block, s.batch, order)
        scores = partial(held_out.scores, tokenizer) if held_out else None
        result = train_in_trial(
            self.context, self.target, model, batches, settings, evaluate=scores
        )
        return [line for line in result.log if np.isfinite(line.get("value") or math.nan)]


def read_foreign_ids(s: ConceptsSettings, seed: Seed) -> Outcome:
    """Perplexity of the same texts in the model's own ids and in GPT-2's."""
    model, other, length = open_trainable(s.reader, "cpu"), gpt2_tokenizer(), s.foreign_tokens
    assert model.tokenizer is not None
    size = CHARACTERS * 2 * s.foreign * length
    texts = sample_bytes(text_splits("news").test, size, seed.child("texts"))
    rows: dict[str, list[list[int]]] = {"own": [], "foreign": []}
    refused = 0
    for piece in (piece for text in texts for piece in _pieces(text, CHARACTERS * length)):
        own, foreign = model.tokenizer.encode(piece)[:length], other.encode(piece).ids[:length]
        if min(len(own), len(foreign)) < length or len(rows["own"]) == s.foreign:
            continue
        if max(foreign) >= model.vocabulary:
            refused += 1
            continue
        rows["own"].append(own)
        rows["foreign"].append(foreign)
    nll = token_nll(model.logits)
    scores = {
        name: score(nll, [next(windows(ids, length - 1)) for ids in encoded])
        for name, encoded in rows.items()
    }
    own, foreign = (scores[name].perplexity.corpus for name in ("own", "foreign"))
    return Outcome(
        {
            "own_perplexity": own,
            "foreign_perplexity": foreign,
            "log_ratio": math.log(foreign / own),
            "log_over_uniform": math.log(foreign / model.vocabulary),
            "texts": len(rows["own"]),
            "refused": refused,
            "vocabulary": model.vocabulary,
            "segment_gap": segments_are_words(seed.child("words").number % 2**31),
        },
        arrays={name: scored.nll / scored.tokens for name, scored in scores.items()},
        samples=[model.tokenizer.decode(rows["foreign"][0])] if rows["foreign"] else [],
    )


def _pieces(text: str, size: int) -> list[str]:
    words = " ".join(text.split())
    return [words[i : i + size] for i in range(0, len(words) - size, size)]


@torch.no_grad()
def segments_are_words(number: int) -> float:
    """Largest relative difference of a GPT-2's states: segment ids given, or their token
    embeddings added to those of the text."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=29,
        n_positions=11,
        n_embd=12,
        n_layer=2,
        n_head=3,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: Any = GPT2Model(config).eval()
    redraw_weights(model, Seed(number))
    rng = Seed(number).child("ids").numpy_generator()
    ids = torch.from_numpy(rng.integers(0, 29, size=(2, 7)))
    segments = torch.from_numpy((np.arange(7) > 3).astype(np.int64)).expand(2, 7)
    given = model(input_ids=ids, token_type_ids=segments).last_hidden_state
    added = model(inputs_embeds=model.wte(ids) + model.wte(segments)).last_hidden_state
    plain = model(input_ids=ids).last_hidden_state
    assert not torch.allclose(given, plain), "segment ids had no effect on GPT-2"
    return float((given - added).abs().max() / plain.abs().max())
