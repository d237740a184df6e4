"""What the templates show of every study of small GPTs: perplexities, costs, sample texts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import Claim
from attnlab.report.prose import interval
from attnlab.report.text import number
from attnlab.studies.mini_gpt.study import GPTArms, MiniGPTStudy

COLUMNS = {
    "train_perplexity": "train",
    "dev_perplexity": "dev",
    "test_perplexity": "test",
    "normal_perplexity": "normal sentence",
    "ungrammatical_perplexity": "scrambled sentence",
    "long_perplexity": "long sentence",
    "last_loss": "last training loss",
}
SPEED = "tokens_per_second"


def facts(study: MiniGPTStudy, arms: GPTArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """The rows of `shared.md`, and what `budget.md` says of the training budget."""
    ratios = [
        arms.geometric(arm, "dev_sentence_mean").value / arms.geometric(arm, "dev_perplexity").value
        for arm in arms.names()
    ]
    costs = []
    for arm in arms.names():
        parameters, speed = arms.rows(arm)[0]["parameters"], arms.mean_cost(arm, SPEED)
        costs.append((arm, f"{parameters:,}", f"{speed:,.0f}" if speed > 0 else "not measured"))
    return {
        "study": study,
        "more_steps": type(study).at("full").settings_json()["steps"] > study.settings.steps,
        "ratios": [ratio for ratio in ratios if math.isfinite(ratio)],
        "columns": ["arm", *COLUMNS.values()],
        "perplexities": _perplexities(arms),
        "costs": costs,
    }


def _perplexities(arms: GPTArms) -> list[list[str]]:
    """A row an arm, then the n-gram models, which are scored on dev and test only."""
    mean = {metric: arms.geometric for metric in COLUMNS} | {"last_loss": arms.estimate}
    models = [[arm, *(interval(mean[x](arm, x)) for x in COLUMNS)] for arm in arms.names()]
    known = [arms.baselines(metric) for metric in COLUMNS]
    ngrams = [[order, *(number(x.get(order)) for x in known)] for order in arms.baselines()]
    return models + ngrams
