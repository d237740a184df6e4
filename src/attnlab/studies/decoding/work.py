"""One trial: a strategy writes one text after each prompt; or people's texts are read; or limits.

Arrays have one number a prompt, ours first, then the beginnings of real texts; what people's texts
do not have (nobody went on from our openings) is NaN.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.decode.generate import Generated, generate
from attnlab.decode.strategy import Strategy, parse_strategy
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.diversity import distinct_n, repetition_rate
from attnlab.measure.words import words
from attnlab.models.hub import HubModel
from attnlab.studies.decoding import checks
from attnlab.studies.decoding.material import Material, ends, material, model_of
from attnlab.studies.decoding.related import related
from attnlab.studies.decoding.settings import GREEDY_LIMITS, SAMPLE_LIMITS, DecodingSettings

NONE = -1  # at places after a text's end
PEOPLE, LIMITS, AUDITS = "people", "limits", "audits"


def work(s: DecodingSettings, trial: Trial, context: TrialContext) -> Outcome:
    """By its arm."""
    model, arm = model_of(s.model, context.device), trial.config["arm"]
    data = material(s, model)
    if arm == AUDITS:
        return Outcome(checks.of_model(model, data, s))
    if arm == LIMITS:
        return limits(s, trial, model, data)
    if arm == PEOPLE:
        return measured(s, people(model, data, s.batch), data, context.device, {})
    began = time.perf_counter()
    found = written(model, data.prompts, parse_strategy(arm), s.new_tokens, trial, s.batch)
    cost = {"generate_seconds": time.perf_counter() - began}
    return measured(s, found, data, context.device, cost)


def written(
    model: HubModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    most: int,
    trial: Trial,
    batch: int,
) -> list[Generated]:
    """One text a prompt, drawn from the streams of the trial's seed, which strategies share."""
    assert model.tokenizer is not None
    return generate(
        model,
        prompts,
        strategy,
        max_new_tokens=most,
        seed=trial.stream,
        stop_ids=ends(model),
        decode=model.tokenizer.decode,
        batch=batch,
    )


def people(model: HubModel, data: Material, batch: int) -> list[Generated]:
    """What people wrote after the real beginnings, with the model's log-probabilities of it."""
    starts = data.prompts[data.own :]
    each = checks.logprobs(model, starts, data.human, batch)
    rows = zip(data.human, each, data.human_texts, strict=True)
    return [Generated(ids, logprobs, "length", text) for ids, logprobs, text in rows]


def measured(
    s: DecodingSettings,
    found: Sequence[Generated],
    data: Material,
    device: str,
    cost: Mapping[str, float],
) -> Outcome:
    """What can be said of each text alone, and of one text a prompt together."""
    texts = [text.text or "" for text in found]
    said = [words(text) for text in texts]
    missing = len(data.prompts) - len(found)
    arrays: dict[str, NDArray] = {
        "nll": _placed([-text.logprob for text in found], missing),
        "tokens": _placed([len(text.ids) for text in found], missing),
        "ended": _placed([text.ended == "token" for text in found], missing),
        "repetition": _placed([_repeated(text, s.repeat) for text in said], missing),
        "ids": _padded([text.ids for text in found], missing, s.new_tokens),
        **related(texts, data, s.judge, device),
    }
    tokens = float(np.nansum(arrays["tokens"]))
    metrics = {
        "perplexity": math.exp(float(np.nansum(arrays["nll"])) / tokens) if tokens else None,
        "texts": len(found),
        "own_prompts": data.own,
        "words": float(np.mean([*map(len, said)])),
        "tokens": tokens / len(found),
        "ended": float(np.nanmean(arrays["ended"])),
        "repetition": float(np.nanmean(arrays["repetition"])),
        **{f"distinct_{n}": _number(distinct_n(said, n)) for n in (1, 2, 3)},
        **{key: float(np.nanmean(arrays[key])) for key in arrays if key.startswith("rank")},
    }
    reasons = {key: "no text has a token" for key, value in metrics.items() if value is None}
    shown = texts[:1] if missing == 0 else []
    held = {
        "texts.json": json.dumps([""] * missing + texts, ensure_ascii=False, indent=1),
        "prompts.json": json.dumps(data.texts, ensure_ascii=False, indent=1),
    }
    return Outcome(metrics, cost, arrays, samples=shown, documents=held, reasons=reasons)


def limits(s: DecodingSettings, trial: Trial, model: HubModel, data: Material) -> Outcome:
    """Share of equal tokens of every text at a limit and at what it is the limit of."""
    own = data.prompts[: data.own]
    known = (*SAMPLE_LIMITS, f"top-k:k={model.vocabulary}")
    metrics: dict[str, Any] = {"prompts": len(own)}
    for anchor, names in (("greedy", GREEDY_LIMITS), ("sample", known)):
        base = written(model, own, parse_strategy(anchor), s.limit_tokens, trial, s.batch)
        for name in names:
            other = written(model, own, parse_strategy(name), s.limit_tokens, trial, s.batch)
            pairs = zip(base, other, strict=True)
            metrics[f"{anchor} = {name}"] = min(agreement(a.ids, b.ids)[1] for a, b in pairs)
        metrics[f"{anchor} tokens"] = sum(len(text.ids) for text in base)
        if anchor == "greedy":
            gap, ties = checks.gaps(model, own, [text.ids for text in base])
            metrics |= {"smallest_gap": gap, "ties": ties}
    return Outcome(metrics)


def agreement(one: Sequence[int], other: Sequence[int]) -> tuple[float, float]:
    """Share of equal tokens until the first difference, and at all places; of the longer text."""
    longest = max(len(one), len(other))
    if longest == 0:
        return 1.0, 1.0
    same = [a == b for a, b in zip(one, other, strict=False)]
    first = same.index(False) if False in same else len(same)
    return first / longest, sum(same) / longest


def check(s: DecodingSettings) -> None:
    """Before a run: model, prompts and real texts are there and fit; and the judge."""
    data = material(s, model_of(s.model, "cpu"))
    related(data.texts, data, s.judge, "cpu")


def _repeated(said: Sequence[str], n: int) -> float:
    """A text too short for an n-gram repeats nothing."""
    rate = repetition_rate(said, n)
    return 0.0 if math.isnan(rate) else rate


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _placed(values: Sequence[float], missing: int) -> NDArray[np.float64]:
    return np.array([*[math.nan] * missing, *values], dtype=np.float64)


def _padded(rows: Sequence[Sequence[int]], missing: int, most: int) -> NDArray[np.int64]:
    found = np.full((missing + len(rows), most), NONE, dtype=np.int64)
    for place, row in enumerate(rows, missing):
        found[place, : len(row)] = row
    return found
