"""One trial: train one arm and measure it, or count n-grams."""

import math

from attnlab.audit.catalogue import model_findings
from attnlab.lab.training import model_files, sample_texts
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.measure.perplexity import EDGES, Scores, score, sentence_perplexity, token_nll
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.studies.mini_gpt.data import Rows, Sentences, load_sentences, sample_rows
from attnlab.studies.mini_gpt.probes import measure_start, probe
from attnlab.studies.mini_gpt.study import ORDERS, MiniGPTSettings, MiniGPTStudy
from attnlab.tasks.batches import SentenceBatches, sequential_batches
from attnlab.tasks.ngram import NGram
from attnlab.training.loop import train
from attnlab.training.settings import TrainSettings

POINTS = 10  # of the curve of the training loss
SAMPLES = 3  # texts that each model writes


def run(study: MiniGPTStudy, trial: Trial, context: TrialContext) -> Outcome:
    """A trained GPT, or an n-gram model scored on the same dev sentences."""
    s: MiniGPTSettings = study.settings_of(trial)
    data = load_sentences(s.text, s.min_count, s.block)
    if trial.config["kind"] == "gpt":
        return run_gpt(s, trial, data, context)
    model = NGram.fit(data.train, ORDERS[trial.config["order"]], data.tokenizer.size)
    metrics: dict[str, Scalar] = {}
    for split, rows in (("dev", data.dev), ("test", data.test)):
        if rows:
            nll, tokens = model.nll(sample_rows(rows, s.scored))
            metrics |= {f"{split}_perplexity": math.exp(nll / tokens), f"{split}_tokens": tokens}
    return Outcome(metrics)


def run_gpt(s: MiniGPTSettings, trial: Trial, data: Sentences, context: TrialContext) -> Outcome:
    """Train one arm, then measure it in every way the studies ask for."""
    seed, device = trial.stream, context.device
    plain = GPTConfig.named(s.size, vocab=data.tokenizer.size, block=s.block).to_json()
    config = GPTConfig.from_json({**plain, **trial.config["parts"]})
    model = GPT(config, seed.child("weights").torch_generator()).to(device)
    batches = SentenceBatches(
        data.train, s.block, s.batch, seed.child("order"), by_length=s.by_length
    )
    start = measure_start(model, batches.batch(0).to(device))
    findings = model_findings(model, "start")
    settings = TrainSettings(
        steps=s.steps, batch=s.batch, learning_rate=s.learning_rate, warmup_fraction=s.warmup
    )
    result = train(model, batches, settings)
    if result.ending == "diverged":
        return Outcome({"dev_perplexity": math.nan}, reasons={"dev_perplexity": result.problem})
    metrics, curves = measure(model, s, data, device)
    metrics |= start | probe(model, data.dev, s.batch, device)
    findings += model_findings(model, "end")
    metrics |= {
        "parameters": model.parameter_count(),
        "vocabulary": data.tokenizer.size,
        "train_sentences": len(data.train),
        "train_tokens": result.tokens,
        "last_loss": result.last_loss,
        "last_batch_loss": result.losses[-1],
    }
    at = seed.child("sample")
    samples = sample_texts(model, data.tokenizer, at, s.sample_tokens, n=SAMPLES)
    return Outcome(
        metrics,
        cost=result.cost,
        curves=curves | result.loss_curve(POINTS),
        samples=samples,
        findings=findings,
        **model_files(model, data.tokenizer),
    )


def measure(
    model: GPT, s: MiniGPTSettings, data: Sentences, device: str
) -> tuple[dict[str, Scalar], dict[str, list[float]]]:
    """Perplexities of the splits, in batches and one at a time, by length, of three sentences."""
    nll = token_nll(model)

    def scores(rows: Rows, batch: int) -> Scores:
        return score(nll, sequential_batches(rows, batch), device)

    dev_scores = scores(sample_rows(data.dev, s.scored), s.batch)
    dev = dev_scores.perplexity
    train_split = scores(sample_rows(data.train, s.scored), s.batch).perplexity
    few = sample_rows(data.dev, s.singles)
    batched, alone = scores(few, s.batch).perplexity, scores(few, 1).perplexity
    metrics: dict[str, Scalar] = {
        "train_perplexity": train_split.corpus,
        "train_sentence_mean": train_split.sentence_mean,
        "dev_perplexity": dev.corpus,
        "dev_sentence_mean": dev.sentence_mean,
        "dev_tokens": dev.tokens,
        "batched_perplexity": batched.corpus,
        "alone_perplexity": alone.corpus,
        "log_alone_over_batched": (alone.nll - batched.nll) / batched.tokens,
    }
    if data.test:
        test = scores(sample_rows(data.test, s.scored), s.batch).perplexity
        metrics |= {"test_perplexity": test.corpus, "test_sentence_mean": test.sentence_mean}
    for name in ("normal", "ungrammatical", "long"):
        row = data.tokenizer.row(getattr(s, name))  # <STOP> is scored: `attnlab perplexity --stop`
        metrics[f"{name}_perplexity"] = sentence_perplexity(nll, row, device, s.block)
    return metrics, perplexity_by_length(dev_scores)


def perplexity_by_length(scores: Scores) -> dict[str, list[float]]:
    """Every bin, so that arms and seeds line up; a bin without a sentence is NaN."""
    bins = {b.low: b.perplexity.corpus for b in scores.by_length(EDGES)}
    ends = zip(EDGES, [*EDGES[1:], 2 * EDGES[-1]], strict=True)
    return {
        "length": [math.sqrt(low * high) for low, high in ends],
        "length_perplexity": [bins.get(low, math.nan) for low in EDGES],
    }
