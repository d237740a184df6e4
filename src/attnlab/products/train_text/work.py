"""One training: tokenizer, model, loop with checkpoints, then both splits beside n-grams."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.core.errors import UsageError
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy
from attnlab.lab.trial import Outcome, Trial, TrialContext, TrialStopped
from attnlab.measure.perplexity import score, token_nll, windows
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.products.train_text.study import BASELINES, TextSettings, content_sha256
from attnlab.studies.audited import audit_metrics
from attnlab.tasks.batches import PackedBatches
from attnlab.tasks.corpus import Corpus
from attnlab.tasks.ngram import NGram
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer
from attnlab.train.checkpoint import CheckpointWarning, best_checkpoint
from attnlab.train.loop import train
from attnlab.train.ranks import current_ranks
from attnlab.train.result import Hooks, Progress, TrainResult
from attnlab.train.settings import TrainSettings

FIFTIETHS = 50


@dataclass(frozen=True)
class Text:
    """The splits as streams of ids."""

    tokenizer: Tokenizer
    train: np.ndarray
    dev: np.ndarray


def trained(s: TextSettings, trial: Trial, context: TrialContext) -> Outcome:
    """The model of lowest dev loss, what it scores, and what counting scores."""
    with _threads(s.threads):
        text, seed, ranks = prepared(s), trial.stream, current_ranks()
        model = _untrained(s, text, trial)
        if ranks.shards == 1:
            model.to(context.device)  # a sharded one goes there block by block
        batches = PackedBatches(text.train, s.block, s.batch, seed.child("order"))
        start = audit_metrics(model, "start")
        done = _train(model, batches, s, text, context)
        if not ranks.is_main:
            return Outcome({})  # the first process goes on alone, and tells
        if done.ending == "diverged":
            return Outcome({"dev_perplexity": math.nan}, reasons={"dev_perplexity": done.problem})
        assert context.checkpoints is not None
        if ranks.shards > 1:  # whole again, here
            model = _untrained(s, text, trial).to(context.device)
        best_checkpoint(context.checkpoints).load_model(model)
        model.eval()
        metrics = {
            **start,
            **audit_metrics(model, "end"),
            "train_perplexity": perplexity(model, text.train, s, context.device),
            "dev_perplexity": perplexity(model, text.dev, s, context.device),
            **{f"{name}_perplexity": value for name, value in counted(text, s).items()},
            "parameters": model.parameter_count(),
            "vocabulary": text.tokenizer.size,
            "train_tokens": len(text.train),
            "seen_tokens": done.tokens,
            "best_step": done.best_step,
        }
        speed = done.tokens_per_second
        return Outcome(
            metrics,
            arrays={f"model.{k}": v.cpu().numpy() for k, v in model.state_dict().items()},
            curves=_curves(done),
            samples=[sample(model, text.tokenizer, s, trial)],
            documents={"tokenizer.json": text.tokenizer.to_json(), "model.json": _json(model)},
            cost={"tokens_per_second": speed} if speed else {},
        )


def _untrained(s: TextSettings, text: Text, trial: Trial) -> GPT:
    generator = trial.stream.child("weights").torch_generator()
    return GPT(model_config(s, text.tokenizer.size), generator)


def prepared(s: TextSettings) -> Text:
    """The text, if it is still the one that was asked for; its tokenizer sees the train split."""
    key = s.text, s.text_sha256, s.tokenizer, s.min_count, s.vocabulary
    return _prepared(*key)


@lru_cache(maxsize=1)  # asked before the run and inside it
def _prepared(text: str, sha256: str, kind: Any, min_count: int, vocabulary: int) -> Text:
    if text == "shakespeare":
        corpus = Corpus.shakespeare()
    else:
        path = Path(text)
        if sha256 and content_sha256(path) != sha256:
            raise UsageError(f"{path}: changed since this run was started")
        corpus = Corpus.read(path)
    splits = corpus.passages()
    tokenizer = train_tokenizer(
        kind, splits.train, min_count=min_count, vocabulary=vocabulary or None
    )
    return Text(tokenizer, tokenizer.stream(splits.train), tokenizer.stream(splits.dev))


def model_config(s: TextSettings, vocabulary: int) -> GPTConfig:
    """By name, then by the numbers that were given, then the position part."""
    plain = GPTConfig.named(s.size, vocab=vocabulary, block=s.block).to_json()
    numbers = {k: v for k in ("layers", "heads", "d_model") if (v := getattr(s, k))}
    return GPTConfig.from_json({**plain, **numbers, "position": {"name": s.position}})


def perplexity(model: GPT, stream: np.ndarray, s: TextSettings, device: str) -> float:
    """exp(Σ NLL / Σ tokens) over evenly spaced windows, each token scored once."""
    rows = [(i, t, h) for i, t, h in _windows(stream, s)]
    return score(token_nll(model), rows, device).perplexity.corpus


def counted(text: Text, s: TextSettings) -> dict[str, float]:
    """n-gram models of the whole train split, on the dev windows the model is scored on."""
    rows = [np.concatenate([i[0, :1], t[0]]) for i, t, _ in _windows(text.dev, s)]
    found = {}
    for order, name in enumerate(BASELINES, start=1):
        nll, tokens = NGram.fit([text.train], order, text.tokenizer.size).nll(rows)
        found[name] = math.exp(nll / tokens)
    return found


def sample(model: GPT, tokenizer: Tokenizer, s: TextSettings, trial: Trial) -> str:
    """The prompt and what follows it at temperature 0.8."""
    start = [tokenizer.start, *tokenizer.encode(s.prompt)]
    (found,) = generate(
        model,
        [start],
        Strategy("temperature", {"t": 0.8}),
        max_new_tokens=s.sample_tokens,
        stop_ids=[tokenizer.stop],
        seed=trial.stream.child("sample"),
    )
    return tokenizer.decode([*start, *found.ids])


def _train(
    model: GPT, batches: PackedBatches, s: TextSettings, text: Text, context: TrialContext
) -> TrainResult:
    settings = TrainSettings(
        steps=s.steps,
        batch=s.batch,
        accumulate=s.accumulate,
        optimizer=s.optimizer,
        learning_rate=s.learning_rate,
        schedule=s.schedule,
        warmup_fraction=s.warmup_fraction,
        weight_decay=s.weight_decay,
        clip=s.clip,
        precision=s.precision,
        compile=s.compile,
        evaluate_every=max(1, s.steps // s.evaluations),
        checkpoint_every=s.checkpoint_every,
        deterministic=context.device != "cpu",
    )
    hooks = Hooks(
        evaluate=lambda m: math.log(perplexity(_gpt(m), text.dev, s, context.device)),
        progress=lambda p: context.step(p.step, p.steps, _words(p)),
        stop=context.stopping,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("default", CheckpointWarning)
        done = train(
            model,
            batches,
            settings,
            checkpoints=context.checkpoints,
            hooks=hooks,
            ranks=current_ranks(),
        )
    if done.ending == "stopped":
        raise TrialStopped
    return done


def _gpt(model: torch.nn.Module) -> GPT:
    assert isinstance(model, GPT)
    return model


def _words(p: Progress) -> str:
    speed = f", {p.tokens_per_second:,.0f} tokens/s" if p.tokens_per_second else ""
    return f"loss {p.loss:.3f}{speed}"


def _windows(stream: np.ndarray, s: TextSettings) -> Iterator[Any]:
    """At most `scored` windows, evenly spaced over the stream."""
    pieces = list(windows(stream, s.block))
    if len(pieces) <= s.scored:
        yield from pieces
        return
    for place in np.linspace(0, len(pieces) - 1, s.scored).round().astype(int):
        yield pieces[place]


def _curves(done: TrainResult) -> dict[str, list[float]]:
    parts = np.array_split(np.asarray(done.losses), min(FIFTIETHS, len(done.losses)))
    scored = [line for line in done.log if line.get("value") is not None]
    return {
        "step": np.cumsum([len(part) for part in parts]).astype(float).tolist(),
        "train_loss": [float(part.mean()) for part in parts],
        "dev_step": [float(line["step"]) for line in scored],
        "dev_loss": [float(line["value"]) for line in scored],
    }


def _json(model: GPT) -> str:
    import json

    return json.dumps(model.config.to_json())


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """The number of threads is a setting, for it changes bits; put back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
