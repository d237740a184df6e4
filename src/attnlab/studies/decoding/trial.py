"""One trial: a strategy continues every prompt; people's texts are read; limits are compared; or
the model that all strategies share, the sampler and the log-probabilities are audited.

Arrays have one number per prompt, ours first, then the beginnings of texts by people; our openings
have no continuation by people, so these numbers are NaN.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.audit.catalogue import AUDITED, LENGTH, check
from attnlab.audit.checks.sampler_table import sampler_table
from attnlab.audit.finding import Finding
from attnlab.audit.probing.noise import noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.wrap import subject_of
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.decode.draw import sample
from attnlab.decode.generate import Generated, generate
from attnlab.decode.strategy import parse_strategy
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.diversity import distinct_n, repetition_rate
from attnlab.measure.perplexity import token_nll
from attnlab.measure.words import words
from attnlab.models.hub import HubModel
from attnlab.models.trainable import end_ids
from attnlab.studies.decoding.claims import AUDITS
from attnlab.studies.decoding.data import Prompts, load_model, load_prompts
from attnlab.studies.decoding.prompt_similarity import prompt_similarity
from attnlab.studies.decoding.strategies import GREEDY_LIMITS, PEOPLE, SAMPLE_LIMITS
from attnlab.studies.decoding.study import Decoding, DecodingSettings
from attnlab.tasks.prompts import PromptExample, sequential_batches

NONE = -1  # id after the end of a text
OF_MODEL = (*AUDITED, "cache-parity")
RESCORED = 7  # texts that are read again, each alone
RESCORING = "rescoring"
Rows = Sequence[Sequence[int]]


def run(study: Decoding, trial: Trial, context: TrialContext) -> Outcome:
    """Write or read a text for every prompt and measure it; or run the limits or the audits."""
    s, arm = study.settings, trial.config["arm"]
    model = load_model(s.model, context.device)
    data = load_prompts(s, model)
    if arm == AUDITS:
        return Outcome({}, findings=shared_findings(model, data, s.new_tokens))
    if arm == "limits":
        return compare_limits(s, trial, model, data)
    if arm == PEOPLE:
        return measure(s, texts_by_people(model, data, s.batch), data, context.device)
    began = time.perf_counter()
    texts = continue_prompts(s, trial, model, data.prompts, arm, s.new_tokens)
    cost = {"generate_seconds": time.perf_counter() - began}
    return replace(measure(s, texts, data, context.device), cost=cost)


def continue_prompts(
    s: DecodingSettings, trial: Trial, model: HubModel, prompts: Rows, strategy: str, most: int
) -> list[Generated]:
    """One text per prompt, of `most` tokens; all strategies share the streams of a seed."""
    assert model.tokenizer is not None
    return generate(
        model,
        prompts,
        parse_strategy(strategy),
        max_new_tokens=most,
        seed=trial.stream,
        stop_ids=end_ids(model),
        decode=model.tokenizer.decode,
        batch=s.batch,
    )


def texts_by_people(model: HubModel, data: Prompts, batch: int) -> list[Generated]:
    """What people wrote after the real beginnings, with the model's log-probabilities of it."""
    each = logprobs(model, data.prompts[data.opening_count :], data.human, batch)
    rows = zip(data.human, each, data.human_texts, strict=True)
    return [Generated(ids, logprobs, "length", text) for ids, logprobs, text in rows]


def measure(
    s: DecodingSettings, generated: Sequence[Generated], data: Prompts, device: str
) -> Outcome:
    """Measures of each text alone, and of one text per prompt together."""
    texts = [text.text or "" for text in generated]
    in_words = [words(text) for text in texts]
    rates = [repetition_rate(text, s.repeat) for text in in_words]  # NaN: too short to repeat
    missing = len(data.prompts) - len(generated)
    values: dict[str, Sequence[float]] = {
        "nll": [-text.logprob for text in generated],
        "tokens": [len(text.ids) for text in generated],
        "ended": [text.ended == "token" for text in generated],
        "repetition": [0.0 if math.isnan(rate) else rate for rate in rates],
    }
    arrays: dict[str, NDArray] = {
        **{name: np.array([*[math.nan] * missing, *row], float) for name, row in values.items()},
        "ids": np.full((len(data.prompts), s.new_tokens), NONE, dtype=np.int64),
        **prompt_similarity(texts, data, s.judge, device),
    }
    for place, text in enumerate(generated, missing):
        arrays["ids"][place, : len(text.ids)] = text.ids
    tokens = float(np.nansum(arrays["tokens"]))
    distinct = {f"distinct_{n}": distinct_n(in_words, n) for n in (1, 2, 3)}
    metrics = {
        "perplexity": math.exp(float(np.nansum(arrays["nll"])) / tokens) if tokens else None,
        "texts": len(generated),
        "own_prompts": data.opening_count,
        "words": float(np.mean([*map(len, in_words)])),
        "tokens": tokens / len(generated),
        "ended": float(np.nanmean(arrays["ended"])),
        "repetition": float(np.nanmean(arrays["repetition"])),
        **{name: None if math.isnan(share) else share for name, share in distinct.items()},
        **{key: float(np.nanmean(arrays[key])) for key in arrays if key.startswith("rank")},
    }
    reasons = {key: "no text has a token" for key, value in metrics.items() if value is None}
    shown = texts[:1] if missing == 0 else []
    documents = {
        "texts.json": json.dumps([""] * missing + texts, ensure_ascii=False, indent=1),
        "prompts.json": json.dumps(data.texts, ensure_ascii=False, indent=1),
    }
    return Outcome(metrics, arrays=arrays, samples=shown, documents=documents, reasons=reasons)


def compare_limits(s: DecodingSettings, trial: Trial, model: HubModel, data: Prompts) -> Outcome:
    """Smallest share of equal tokens between each limit and the strategy that it must equal."""
    prompts = data.prompts[: data.opening_count]

    def write(strategy: str) -> list[tuple[int, ...]]:
        texts = continue_prompts(s, trial, model, prompts, strategy, s.limit_tokens)
        return [text.ids for text in texts]

    metrics: dict[str, Any] = {"prompts": len(prompts)}
    sampling = (*SAMPLE_LIMITS, f"top-k:k={model.vocabulary}")
    for anchor, limits in (("greedy", GREEDY_LIMITS), ("sample", sampling)):
        base = write(anchor)
        for limit in limits:
            pairs = zip(base, write(limit), strict=True)
            metrics[f"{anchor} = {limit}"] = min(equal_share(a, b) for a, b in pairs)
        metrics[f"{anchor} tokens"] = sum(map(len, base))
        if anchor == "greedy":
            gap, ties = smallest_lead(model, prompts, base)
            metrics |= {"smallest_gap": gap, "ties": ties}
    return Outcome(metrics)


def equal_share(one: Sequence[int], other: Sequence[int]) -> float:
    """Share of the longer text's positions at which both have the same token."""
    longest = max(len(one), len(other))
    return sum(a == b for a, b in zip(one, other, strict=False)) / longest if longest else 1.0


def shared_findings(model: HubModel, data: Prompts, new_tokens: int) -> list[Finding]:
    """What every strategy rests on: the sampler, the log-probabilities, the model."""
    return [
        sampler_table(sample),
        rescoring(model, data.prompts[:RESCORED], new_tokens),
        *check(model, only=OF_MODEL, length=LENGTH).findings,
    ]


def rescoring(model: HubModel, prompts: Rows, most: int) -> Finding:
    """Compare the log-probabilities that `generate` reports with those of the texts read whole.

    It generates in a batch with a cache and padding on the left; the texts are read alone. Fails
    above ten times the model's own noise.
    """
    texts = generate(
        model, prompts, parse_strategy("sample"), max_new_tokens=most, seed=Seed(0).child(RESCORING)
    )
    reported = np.concatenate([text.logprobs for text in texts])
    alone = np.concatenate(logprobs(model, prompts, [text.ids for text in texts], 1))
    gap = float(np.abs(reported - alone).max())
    noise = noise_of(subject_of(model), Probe(0, LENGTH))
    # −log p is a log-sum-exp of logits minus a logit: it moves by at most twice as much
    limit = 2 * max(noise.threshold, noise.rounding)
    evidence = {**noise.evidence(), "tokens": reported.size, "texts": len(texts)}
    if gap <= limit:
        why = f"read whole and alone, {reported.size} tokens have the same log-probabilities"
        return Finding(RESCORING, "pass", gap, limit, why, evidence)
    why = f"a token's log-probability differs by {gap:.2g} when its text is read whole and alone"
    return Finding(RESCORING, "fail", gap, limit, why, evidence)


@torch.no_grad()
def logprobs(model: HubModel, prompts: Rows, answers: Rows, batch: int) -> list[tuple[float, ...]]:
    """log p of every token of each answer after its prompt, read whole."""
    examples = [PromptExample(tuple(p), tuple(a)) for p, a in zip(prompts, answers, strict=True)]
    nll, logps = token_nll(model.logits), []
    for rows in sequential_batches(examples, batch):
        ids, targets, padding = rows.to(model.device)
        each, scored = -nll(ids, targets, padding).double().cpu(), (targets != IGNORE).cpu()
        logps += [tuple(row[kept].tolist()) for row, kept in zip(each, scored, strict=True)]
    return logps


@torch.no_grad()
def smallest_lead(model: HubModel, prompts: Rows, answers: Rows) -> tuple[float, int]:
    """The smallest lead in logits of the likeliest token over the second, and exact ties."""
    leads = []
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([[*prompt, *answer]], device=model.device)
        best = model.logits(ids)[0, len(prompt) - 1 :].topk(2, dim=-1).values
        leads.append((best[:, 0] - best[:, 1]).double().cpu())
    lead = torch.cat(leads)
    return float(lead.min()), int((lead == 0).sum())


def check_inputs(study: Decoding) -> None:
    """Before a run: model, prompts, texts by people and judge exist and fit each other."""
    s = study.settings
    data = load_prompts(s, load_model(s.model, "cpu"))
    prompt_similarity(data.texts, data, s.judge, "cpu")
