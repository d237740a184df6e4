"""One training: tokenizer, model, loop with checkpoints, then both splits beside n-gram models."""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnlab.audit.catalogue import model_findings
from attnlab.core.errors import UsageError
from attnlab.lab.training import model_files, sample_texts, train_in_trial
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.perplexity import ScoringBatch, score, token_nll, windows
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.products.train_text.study import BASELINES, TextSettings, content_sha256
from attnlab.tasks.batches import PackedBatches, evenly_spaced
from attnlab.tasks.corpus import Corpus
from attnlab.tasks.ngram import NGram
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer
from attnlab.training.checkpoint import best_checkpoint
from attnlab.training.determinism import use_threads
from attnlab.training.ranks import current_ranks
from attnlab.training.result import Progress, TrainResult
from attnlab.training.settings import TrainSettings

if TYPE_CHECKING:
    from attnlab.products.train_text.study import TrainText


@dataclass(frozen=True)
class TokenizedText:
    """The splits as streams of token ids; the tokenizer was trained on the training split."""

    tokenizer: Tokenizer
    train: np.ndarray
    dev: np.ndarray


def check_text(study: "TrainText") -> None:
    """Raise UsageError before the run begins if the text or the model cannot be used."""
    model_config(study.settings, load_text(study.settings).tokenizer.size)


def run(study: "TrainText", trial: Trial, context: TrialContext) -> Outcome:
    """Train one model; the path of the text is in the study's settings, not in the trial."""
    with use_threads(study.settings.threads):
        return _train_and_measure(study.settings, trial, context)


def _train_and_measure(s: TextSettings, trial: Trial, context: TrialContext) -> Outcome:
    """The model of lowest dev loss and its perplexities, beside those of n-gram models."""
    text, ranks = load_text(s), current_ranks()
    model = _initial_model(s, text, trial)
    if ranks.shards == 1:
        model.to(context.device)  # a sharded one goes there block by block
    findings = model_findings(model, "start")
    result = _train(model, s, text, trial, context)
    if not ranks.is_main:
        return Outcome({})  # the first process measures and stores
    if result.ending == "diverged":
        return Outcome({"dev_perplexity": math.nan}, reasons={"dev_perplexity": result.problem})
    assert context.checkpoints is not None
    if ranks.shards > 1:  # whole again, on this process
        model = _initial_model(s, text, trial).to(context.device)
    best_checkpoint(context.checkpoints).load_model(model)
    model.eval()
    findings += model_findings(model, "end")
    metrics = {
        "train_perplexity": perplexity(model, text.train, s, context.device),
        "dev_perplexity": perplexity(model, text.dev, s, context.device),
        **{f"{name}_perplexity": value for name, value in ngram_perplexities(text, s).items()},
        "parameters": model.parameter_count(),
        "vocabulary": text.tokenizer.size,
        "train_tokens": len(text.train),
        "seen_tokens": result.tokens,
        "best_step": result.best_step,
    }
    at = trial.stream.child("sample")
    samples = sample_texts(model, text.tokenizer, at, s.sample_tokens, prompt=s.prompt)
    return Outcome(
        metrics,
        cost=result.cost,
        curves=result.curves(dev_loss="value"),
        samples=samples,
        findings=findings,
        **model_files(model, text.tokenizer),
    )


def _initial_model(s: TextSettings, text: TokenizedText, trial: Trial) -> GPT:
    generator = trial.stream.child("weights").torch_generator()
    return GPT(model_config(s, text.tokenizer.size), generator)


def load_text(s: TextSettings) -> TokenizedText:
    """The text in token ids; UsageError if it is no longer the one that the run began with."""
    return _load_text(s.text, s.text_sha256, s.tokenizer, s.min_count, s.vocabulary)


@lru_cache(maxsize=1)  # asked for before the run and inside it
def _load_text(text: str, sha256: str, kind: Any, min_count: int, vocabulary: int) -> TokenizedText:
    if text == "shakespeare":
        corpus = Corpus.shakespeare()
    else:
        path = Path(text)
        if sha256 and content_sha256(path) != sha256:
            raise UsageError(f"{path}: changed since this run was started")
        corpus = Corpus.read(path)
    splits, most = corpus.passages(), vocabulary or None
    tokenizer = train_tokenizer(kind, splits.train, min_count=min_count, vocabulary=most)
    return TokenizedText(tokenizer, tokenizer.stream(splits.train), tokenizer.stream(splits.dev))


def model_config(s: TextSettings, vocabulary: int) -> GPTConfig:
    """The configuration of the named size, then the given numbers, then the position part."""
    plain = GPTConfig.named(s.size, vocab=vocabulary, block=s.block).to_json()
    numbers = {k: v for k in ("layers", "heads", "d_model") if (v := getattr(s, k))}
    return GPTConfig.from_json({**plain, **numbers, "position": {"name": s.position}})


def perplexity(model: GPT, stream: np.ndarray, s: TextSettings, device: str) -> float:
    """exp(Σ NLL / Σ tokens) over evenly spaced windows, each token scored once."""
    return score(token_nll(model), scored_windows(stream, s), device).perplexity.corpus


def ngram_perplexities(text: TokenizedText, s: TextSettings) -> dict[str, float]:
    """n-gram models of the whole training split, on the dev windows the model is scored on."""
    rows = [
        np.concatenate([ids[0, :1], targets[0]]) for ids, targets, _ in scored_windows(text.dev, s)
    ]
    perplexities = {}
    for order, name in enumerate(BASELINES, start=1):
        nll, tokens = NGram.fit([text.train], order, text.tokenizer.size).nll(rows)
        perplexities[name] = math.exp(nll / tokens)
    return perplexities


def scored_windows(stream: np.ndarray, s: TextSettings) -> list[ScoringBatch]:
    """At most `scored` windows, evenly spaced over the stream."""
    return evenly_spaced(list(windows(stream, s.block)), s.scored)


def _train(
    model: GPT, s: TextSettings, text: TokenizedText, trial: Trial, context: TrialContext
) -> TrainResult:
    settings = TrainSettings(
        **s.model_dump(include=set(TrainSettings.model_fields)),  # those that both have
        evaluate_every=max(1, s.steps // s.evaluations),
        deterministic=context.device != "cpu",
    )

    def dev_loss(model: torch.nn.Module) -> float:
        assert isinstance(model, GPT)
        return math.log(perplexity(model, text.dev, s, context.device))

    return train_in_trial(
        context,
        _progress_text,
        model,
        PackedBatches(text.train, s.block, s.batch, trial.stream.child("order")),
        settings,
        evaluate=dev_loss,
        checkpoints=context.checkpoints,
        ranks=current_ranks(),
    )


def _progress_text(p: Progress) -> str:
    speed = f", {p.tokens_per_second:,.0f} tokens/s" if p.tokens_per_second else ""
    return f"loss {p.loss:.3f}{speed}"
