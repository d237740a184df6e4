"""What every study of mini GPTs says: two perplexities, cost, and what the models write."""

import math

import numpy as np

from attnlab.lab.study import Section
from attnlab.studies.mini_gpt.evidence import Arms, first_seed
from attnlab.studies.mini_gpt.settings import MiniSettings
from attnlab.studies.mini_gpt.study import ORDERS


def shared_sections(arms: Arms, settings: MiniSettings) -> list[Section]:
    """How to read the numbers; what it cost; samples."""
    names = arms.names()
    if not names:
        return []
    return [
        Section("How to read the perplexities", _reading(arms, settings)),
        Section("What it cost", _cost(arms)),
        Section("What the models write", _samples(arms)),
    ]


def _reading(arms: Arms, settings: MiniSettings) -> tuple[str, ...]:
    found = [
        (arms.estimate(n, "dev_perplexity").value, arms.estimate(n, "dev_sentence_mean").value)
        for n in arms.names()
    ]
    ratios = [mean / corpus for corpus, mean in found if math.isfinite(mean / corpus)]
    base = ", ".join(
        f"{order} {arms.baseline(order):,.0f}"
        for order in ORDERS
        if math.isfinite(arms.baseline(order))
    )
    first = (
        "Two numbers are called perplexity. exp(Σ NLL / Σ tokens) is the perplexity of the text; "
        "the mean over sentences of exp(loss), which was reported (there 1.3 times as large), is "
        f"here {min(ratios):.2f} to {max(ratios):.2f} times as large. Both are stored; claims "
        "name theirs."
        if ratios
        else "No arm ended."
    )
    rows = arms.table.where(kind="gpt").rows
    words = (
        f"The text is {rows[0]['text']!s:.60}: {rows[0]['train_sentences']:,} training sentences, "
        f"vocabulary {rows[0]['vocabulary']:,}; {settings.steps:,} steps of {settings.batch} "
        "sentences. The reported numbers come from another corpus, so only ratios compare."
    )
    return (
        (first, words, f"Baselines on the same dev sentences: {base}.") if base else (first, words)
    )


def _cost(arms: Arms) -> tuple[str, ...]:
    lines = []
    for name in arms.names():
        rows = arms.rows(name).rows
        speed = np.mean([r.cost.get("tokens_per_second", math.nan) for r in rows])
        lines.append(f"{name}: {rows[0]['parameters']:,} parameters, {speed:,.0f} tokens/s")
    return ("Speed of training, one core a model, padding not counted. " + "; ".join(lines) + ".",)


def _samples(arms: Arms) -> tuple[str, ...]:
    found = []
    for row in sorted(first_seed(arms.table.where(kind="gpt")), key=lambda r: r["place"]):
        texts = " / ".join(f"“{text}”" for text in row.samples)
        if texts:
            found.append(f"{row['arm']}: {texts}")
    return tuple(found)
