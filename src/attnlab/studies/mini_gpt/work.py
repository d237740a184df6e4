"""One trial: the same text, budget and order of batches for every arm; one part differs."""

import json
import math
from typing import Any

import numpy as np
import torch

from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.perplexity import EDGES, Scores, score, sentence_perplexity, token_nll
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.studies.audited import audit_metrics
from attnlab.studies.mini_gpt.data import Rows, Sentenced, sentenced, spread_out
from attnlab.studies.mini_gpt.probes import at_start, probes
from attnlab.tasks.batches import SentenceBatches, sequential_batches
from attnlab.tasks.ngram import NGram
from attnlab.train.loop import train
from attnlab.train.result import TrainResult
from attnlab.train.settings import TrainSettings

TENTHS = 10
ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}


def work(trial: Trial, context: TrialContext) -> Outcome:
    """A model, or a baseline."""
    c = trial.config
    data = sentenced(c["text"], c["min_count"], c["block"])
    return ngram(c, data) if c["kind"] == "ngram" else gpt(trial, data, context)


def ngram(c: Any, data: Sentenced) -> Outcome:
    """Counts over all training sentences, scored on the dev sentences every arm is scored on."""
    model = NGram.fit(data.train, ORDERS[c["order"]], data.tokenizer.size)
    nll, tokens = model.nll(spread_out(data.dev, c["scored"]))
    return Outcome({"dev_perplexity": math.exp(nll / tokens), "tokens": tokens})


def gpt(trial: Trial, data: Sentenced, context: TrialContext) -> Outcome:
    """Train one arm, then measure it every way the study asks for."""
    c, seed = trial.config, trial.stream
    model = build(c, data.tokenizer.size, seed.child("weights").torch_generator()).to(
        context.device
    )
    order = seed.child("order")
    batches = SentenceBatches(data.train, c["block"], c["batch"], order, by_length=c["by_length"])
    first = at_start(model, batches.batch(0).to(context.device)) | audit_metrics(model, "start")
    settings = TrainSettings(
        steps=c["steps"],
        batch=c["batch"],
        learning_rate=c["learning_rate"],
        warmup_fraction=c["warmup"],
    )
    done = train(model, batches, settings)
    if done.ending == "diverged":
        return Outcome({"dev_perplexity": math.nan}, reasons={"dev_perplexity": done.problem})
    metrics, curves = measured(model, c, data, context.device)
    metrics |= first | probes(model, data.dev, c["batch"], context.device)
    metrics |= audit_metrics(model, "end")
    metrics |= {
        "parameters": model.parameter_count(),
        "vocabulary": data.tokenizer.size,
        "train_sentences": len(data.train),
        "train_tokens": done.tokens,
        "last_loss": float(np.mean(done.losses[-max(1, c["steps"] // TENTHS) :])),
    }
    speed = done.tokens_per_second
    return Outcome(
        metrics,
        arrays=weights(model),
        curves=curves | losses(done),
        samples=samples(trial, model, data),
        documents={
            "tokenizer.json": data.tokenizer.to_json(),
            "model.json": json.dumps(model.config.to_json()),
        },
        cost={"tokens_per_second": speed} if speed else {},
    )


def build(c: Any, vocabulary: int, generator: torch.Generator) -> GPT:
    """The plain GPT of this size with the arm's parts in place of its own."""
    plain = GPTConfig.named(c["size"], vocab=vocabulary, block=c["block"]).to_json()
    return GPT(GPTConfig.from_json({**plain, **c["parts"]}), generator)


def measured(
    model: GPT, c: Any, data: Sentenced, device: str
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Perplexities of both splits, by length, of the three sentences."""
    nll = token_nll(model)

    def scores(rows: Rows, batch: int) -> Scores:
        return score(nll, sequential_batches(rows, batch), device)

    dev = scores(spread_out(data.dev, c["scored"]), c["batch"])
    found = dev.perplexity
    train_found = scores(spread_out(data.train, c["scored"]), c["batch"]).perplexity
    metrics: dict[str, Any] = {
        "train_perplexity": train_found.corpus,
        "train_sentence_mean": train_found.sentence_mean,
        "dev_perplexity": found.corpus,
        "dev_sentence_mean": found.sentence_mean,
        "dev_tokens": found.tokens,
    }
    few = spread_out(data.dev, c["singles"])
    batched, alone = scores(few, c["batch"]).perplexity, scores(few, 1).perplexity
    metrics |= {
        "batched_perplexity": batched.corpus,
        "alone_perplexity": alone.corpus,
        "log_alone_over_batched": (alone.nll - batched.nll) / batched.tokens,
    }
    for name in ("normal", "ungrammatical", "long"):
        row = data.tokenizer.row(c[name])[: c["block"] + 1]
        metrics[f"{name}_perplexity"] = sentence_perplexity(nll, row, device)
    return metrics, _by_length(dev)


def _by_length(dev: Scores) -> dict[str, list[float]]:
    """Every bin, so that arms and seeds line up; a bin without a sentence is NaN."""
    bins = {b.low: b for b in dev.by_length(EDGES)}
    middle = [
        math.sqrt(low * high) for low, high in zip(EDGES, [*EDGES[1:], 2 * EDGES[-1]], strict=True)
    ]
    values = [bins[low].perplexity.corpus if low in bins else math.nan for low in EDGES]
    return {"length": middle, "length_perplexity": values}


def losses(done: TrainResult) -> dict[str, list[float]]:
    """Mean training loss of each tenth of the steps."""
    parts = np.array_split(np.asarray(done.losses), min(TENTHS, len(done.losses)))
    ends = np.cumsum([len(part) for part in parts])
    return {"step": ends.astype(float).tolist(), "train_loss": [float(p.mean()) for p in parts]}


def weights(model: GPT) -> dict[str, np.ndarray]:
    """The model's tensors by name, so that a run's models can be used again."""
    return {f"model.{k}": v.detach().cpu().numpy() for k, v in model.state_dict().items()}


def samples(trial: Trial, model: GPT, data: Sentenced) -> list[str]:
    """Two texts from <START>, at temperature 0.8."""
    t = data.tokenizer
    texts = generate(
        model,
        [[t.start]],
        Strategy("temperature", {"t": 0.8}),
        n=2,
        stop_ids=[t.stop],
        max_new_tokens=trial.config["sample_tokens"],
        seed=trial.stream.child("sample"),
    )
    return [t.decode(text.ids) for text in texts]
