"""Rows and lists that the report's template shows: measures, differences, limits, sample texts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import Claim
from attnlab.report.prose import decimals
from attnlab.studies.decoding.claims import LIMITS, judge_of, limit_shares
from attnlab.studies.decoding.comparison import Comparison, compare_with, measures
from attnlab.studies.decoding.evidence import TextArms
from attnlab.studies.decoding.strategies import PEOPLE, SAMPLE, label
from attnlab.studies.decoding.study import Decoding

SHORT = {
    "colder-likelier": "texts get likelier as T falls",
    "hotter-diverse": "texts of one prompt differ more as T rises",
    "greedy-repeats": "greedy repeats itself more than sampling",
    "greedy-too-likely": "greedy texts are likelier than people's",
    "sampling-too-odd": "sampled texts are less likely than people's",
}
FEW = 51  # prompts: with fewer, curves and people are hardly told apart


def facts(study: Decoding, arms: TextArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """What the template needs besides the claims."""
    people, sampling, limits = compare_with(arms), compare_with(arms, SAMPLE), arms.first("limits")
    greedy = next((claim for claim in claims if claim.name == "greedy-repeats"), None)
    return {
        "counts": "" if greedy and greedy.estimate.n else study.answer(claims),
        "short": {
            verdict: [SHORT[c.name] for c in claims if c.name in SHORT and c.verdict == verdict]
            for verdict in ("holds", "fails", "undecided")
        },
        "label": label,
        "labels_of": lambda names: [label(arm) for arm in names],
        "judge": "the encoder" if judge_of(arms.s) == "judge" else "shared words",
        "people": people,
        "sampling": sampling,
        "measures": measures(arms),
        "between": measures(arms, people=False),
        "with_unit": lambda columns: [f"{m.words} ({m.unit})" for m in columns],
        "rows": [_measured(arms, arm) for arm in arms.names()],
        "people_rows": _differences(people, [m.name for m in measures(arms)]),
        "sampling_rows": _differences(sampling, [m.name for m in measures(arms, people=False)]),
        "human": [decimals(arms.estimate(PEOPLE, m.name, real=True)) for m in measures(arms)],
        "real": len(arms.real()),
        "few": FEW,
        "limits": limits,
        "limit_shares": {
            name: {"anchor": anchor, "shares": limit_shares(limits, anchor)}
            for name, anchor, _, _ in LIMITS
        },
        **_samples(arms),
    }


def _measured(arms: TextArms, arm: str) -> list[str]:
    """The row of a strategy in the table of all measures."""
    judge = judge_of(arms.s)
    distinct = "/".join(f"{arms.estimate(arm, f'distinct_{n}').value:.2f}" for n in (1, 2, 3))
    tokens, ended = (arms.estimate(arm, measure).value for measure in ("tokens", "ended"))
    rank = arms.estimate(arm, f"rank_{judge}").value
    return [
        label(arm),
        decimals(arms.shown(arm, "nll"), 2),
        distinct,
        decimals(arms.estimate(arm, "self_bleu")),
        decimals(arms.estimate(arm, "repetition")),
        f"{tokens:.1f}, {ended:.0%}",
        f"{decimals(arms.estimate(arm, 'prefix'))} / {decimals(arms.estimate(arm, 'agreement'))}",
        f"{decimals(arms.estimate(arm, f'margin_{judge}'))}, {rank:.2f}",
    ]


def _differences(comparison: Comparison | None, columns: Sequence[str]) -> list[list[str]]:
    """One row per strategy; (real) marks the differences whose corrected interval excludes 0."""
    if comparison is None:
        return []
    return [
        [
            label(arm),
            *(
                decimals(comparison.differences[arm, name], sign="+")
                + (" (real)" if comparison.tells_apart(arm, name) else "")
                for name in columns
            ),
        ]
        for arm in dict.fromkeys(arm for arm, _ in comparison.differences)
    ]


def _samples(arms: TextArms) -> dict[str, Any]:
    """The first prompt and the different texts that each strategy wrote after it."""
    names = arms.names()
    documents = arms.rows(names[0])[0].documents if names else {}
    if not arms.s.shown or "prompts.json" not in documents:
        return {"prompt": "", "samples": {}}
    samples = {}
    for arm in names:
        texts = dict.fromkeys(text.strip() for row in arms.rows(arm) for text in row.samples)
        samples[label(arm)] = [text or "(nothing)" for text in list(texts)[: arms.s.shown]]
    return {"prompt": json.loads(documents["prompts.json"])[0], "samples": samples}
