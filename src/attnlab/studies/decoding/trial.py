"""One trial: a strategy continues every prompt; or people's texts are read; or limits compared.

Arrays have one number per prompt, ours first, then the beginnings of texts by people; our openings
have no continuation by people, so these numbers are NaN.
"""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.decode.generate import Generated, generate
from attnlab.decode.strategy import parse_strategy
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.diversity import distinct_n, repetition_rate
from attnlab.measure.words import words
from attnlab.models.hub import HubModel
from attnlab.models.trainable import end_ids
from attnlab.studies.decoding import checks
from attnlab.studies.decoding.claims import AUDITS
from attnlab.studies.decoding.data import Prompts, load_model, load_prompts
from attnlab.studies.decoding.prompt_similarity import prompt_similarity
from attnlab.studies.decoding.strategies import GREEDY_LIMITS, PEOPLE, SAMPLE_LIMITS
from attnlab.studies.decoding.study import Decoding, DecodingSettings

NONE = -1  # id after the end of a text


def run(study: Decoding, trial: Trial, context: TrialContext) -> Outcome:
    """Write or read a text for every prompt and measure it; or run the limits or the audits."""
    s, arm = study.settings, trial.config["arm"]
    model = load_model(s.model, context.device)
    data = load_prompts(s, model)
    if arm == AUDITS:
        return Outcome({}, findings=checks.shared_findings(model, data, s.new_tokens))
    if arm == "limits":
        return compare_limits(s, trial, model, data)
    if arm == PEOPLE:
        return measure(s, texts_by_people(model, data, s.batch), data, context.device, {})
    began = time.perf_counter()
    texts = continue_prompts(s, trial, model, data.prompts, arm)
    cost = {"generate_seconds": time.perf_counter() - began}
    return measure(s, texts, data, context.device, cost)


def continue_prompts(
    s: DecodingSettings,
    trial: Trial,
    model: HubModel,
    prompts: Sequence[Sequence[int]],
    strategy: str,
    most: int = 0,
) -> list[Generated]:
    """One text per prompt, of `most` tokens; all strategies share the streams of a seed."""
    assert model.tokenizer is not None
    return generate(
        model,
        prompts,
        parse_strategy(strategy),
        max_new_tokens=most or s.new_tokens,
        seed=trial.stream,
        stop_ids=end_ids(model),
        decode=model.tokenizer.decode,
        batch=s.batch,
    )


def texts_by_people(model: HubModel, data: Prompts, batch: int) -> list[Generated]:
    """What people wrote after the real beginnings, with the model's log-probabilities of it."""
    each = checks.logprobs(model, data.prompts[data.opening_count :], data.human, batch)
    rows = zip(data.human, each, data.human_texts, strict=True)
    return [Generated(ids, logprobs, "length", text) for ids, logprobs, text in rows]


def measure(
    s: DecodingSettings,
    generated: Sequence[Generated],
    data: Prompts,
    device: str,
    cost: Mapping[str, float],
) -> Outcome:
    """Measures of each text alone, and of one text per prompt together."""
    texts = [text.text or "" for text in generated]
    in_words = [words(text) for text in texts]
    rates = [repetition_rate(text, s.repeat) for text in in_words]  # NaN: too short to repeat
    missing = len(data.prompts) - len(generated)
    arrays: dict[str, NDArray] = {
        "nll": _padded([-text.logprob for text in generated], missing),
        "tokens": _padded([len(text.ids) for text in generated], missing),
        "ended": _padded([text.ended == "token" for text in generated], missing),
        "repetition": _padded(np.nan_to_num(rates), missing),
        "ids": np.full((len(data.prompts), s.new_tokens), NONE, dtype=np.int64),
        **prompt_similarity(texts, data, s.judge, device),
    }
    for place, text in enumerate(generated, missing):
        arrays["ids"][place, : len(text.ids)] = text.ids
    tokens = float(np.nansum(arrays["tokens"]))
    metrics = {
        "perplexity": math.exp(float(np.nansum(arrays["nll"])) / tokens) if tokens else None,
        "texts": len(generated),
        "own_prompts": data.opening_count,
        "words": float(np.mean([*map(len, in_words)])),
        "tokens": tokens / len(generated),
        "ended": float(np.nanmean(arrays["ended"])),
        "repetition": float(np.nanmean(arrays["repetition"])),
        **{f"distinct_{n}": _number(distinct_n(in_words, n)) for n in (1, 2, 3)},
        **{key: float(np.nanmean(arrays[key])) for key in arrays if key.startswith("rank")},
    }
    reasons = {key: "no text has a token" for key, value in metrics.items() if value is None}
    shown = texts[:1] if missing == 0 else []
    documents = {
        "texts.json": json.dumps([""] * missing + texts, ensure_ascii=False, indent=1),
        "prompts.json": json.dumps(data.texts, ensure_ascii=False, indent=1),
    }
    return Outcome(metrics, cost, arrays, samples=shown, documents=documents, reasons=reasons)


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
            gap, ties = checks.smallest_lead(model, prompts, base)
            metrics |= {"smallest_gap": gap, "ties": ties}
    return Outcome(metrics)


def equal_share(one: Sequence[int], other: Sequence[int]) -> float:
    """Share of the longer text's positions at which both have the same token."""
    longest = max(len(one), len(other))
    return sum(a == b for a, b in zip(one, other, strict=False)) / longest if longest else 1.0


def check_inputs(study: Decoding) -> None:
    """Before a run: model, prompts, texts by people and judge exist and fit each other."""
    s = study.settings
    data = load_prompts(s, load_model(s.model, "cpu"))
    prompt_similarity(data.texts, data, s.judge, "cpu")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _padded(values: Iterable[float], missing: int) -> NDArray[np.float64]:
    """NaN for the prompts without a text, then the values."""
    return np.array([*[math.nan] * missing, *values], dtype=np.float64)
