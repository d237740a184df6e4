"""What the templates show of every study of small GPTs: perplexities, costs, sample texts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import Claim
from attnlab.report.prose import interval
from attnlab.report.text import number
from attnlab.studies.mini_gpt.study import GPTArms, MiniGPTStudy

SPLITS = {"train_perplexity": "train", "dev_perplexity": "dev", "test_perplexity": "test"}
SENTENCES = {
    "normal_perplexity": "normal sentence",
    "ungrammatical_perplexity": "weird sentence",
    "long_perplexity": "long sentence",
}
LOSS = {"last_loss": "last training loss"}


def facts(study: MiniGPTStudy, arms: GPTArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """The rows of `shared.md`, and what `budget.md` says of the training budget."""
    first = {arm: arms.rows(arm)[0] for arm in arms.names()}
    ratios = [
        arms.geometric(arm, "dev_sentence_mean").value / arms.geometric(arm, "dev_perplexity").value
        for arm in first
    ]
    return {
        "study": study.name,
        "added_at_full": study.added_at_full,
        "other_text": study.other_text,
        "reported_mean": study.reported_mean,
        "plain_perplexity": arms.geometric(study.plain, "dev_perplexity").value,
        "more_steps": type(study).at("full").settings_json()["steps"] > study.settings.steps,
        "ratios": [ratio for ratio in ratios if math.isfinite(ratio)],
        "first": next(iter(first.values()), None),
        "columns": ["arm", *SPLITS.values(), *SENTENCES.values(), *LOSS.values()],
        "perplexities": _perplexities(arms),
        "costs": [(arm, f"{row['parameters']:,}", _speed(arms, arm)) for arm, row in first.items()],
        "samples": {arm: row.samples for arm, row in first.items() if row.samples},
    }


def _perplexities(arms: GPTArms) -> list[list[str]]:
    """A row an arm, then the n-gram models, which are scored on dev and test only."""
    models = [
        [
            arm,
            *(interval(arms.geometric(arm, metric)) for metric in SPLITS | SENTENCES),
            *(interval(arms.estimate(arm, metric)) for metric in LOSS),
        ]
        for arm in arms.names()
    ]
    known = {metric: arms.baselines(metric) for metric in SPLITS | SENTENCES | LOSS}
    orders = arms.baselines()
    ngrams = [
        [order, *(number(by_order.get(order)) for by_order in known.values())] for order in orders
    ]
    return models + ngrams


def _speed(arms: GPTArms, arm: str) -> str:
    """Training tokens per second, mean over seeds."""
    speed = arms.mean_cost(arm, "tokens_per_second")
    return f"{speed:,.0f}" if math.isfinite(speed) else "not measured"
