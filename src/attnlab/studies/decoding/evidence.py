"""Measures of a strategy's texts: one number per prompt, averaged over seeds; then over prompts.

Every prompt has random streams of its own, so texts of different prompts are independent, and an
interval from resampled prompts covers the sampling of texts too. A strategy that samples has one
text per seed; a deterministic one writes the same text every time.

    log-perplexity    Σ NLL / Σ tokens of a prompt's texts; its mean over prompts; exp of that
    distinct, self-BLEU    of the texts of one prompt, in words
    across            distinct n-grams over one text of every prompt (jackknife over prompts)
    prefix, agreement equal tokens with the greedy text: before the first difference, and in all
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attnlab.lab.arms import Arms
from attnlab.lab.table import Row, Table
from attnlab.measure.diversity import distinct_n, self_bleu
from attnlab.measure.intervals import (
    LEVEL,
    Estimate,
    exp_estimate,
    item_interval,
    percent,
    t_quantile,
)
from attnlab.measure.words import words
from attnlab.studies.decoding.strategies import GREEDY, PEOPLE, is_deterministic, label
from attnlab.studies.decoding.study import Decoding, DecodingSettings

Values = NDArray[np.float64]
GRAM = 4  # longest n-gram of BLEU
SHARES = ("repetition", "prefix", "agreement", "ended", "distinct_", "across", "self_bleu", "rank_")
ACROSS = 2  # n of the n-grams counted over all prompts


def evidence(study: Decoding, table: Table) -> "TextArms":
    """The texts by strategy."""
    labels = {text: label(text) for text in study.settings.strategies()}
    return TextArms(table, labels, study.settings)


@dataclass(frozen=True)
class TextArms(Arms):
    """The texts of a run by strategy; "people" are an arm that `names` leaves out."""

    s: DecodingSettings
    _cache: dict[tuple[str, str], Values] = field(default_factory=dict, compare=False, repr=False)

    def label(self, arm: str) -> str:
        """The short name of a strategy, or "people"."""
        return label(arm)

    @property
    def judge(self) -> str:
        """What compares texts with prompts: the encoder ("judge"), or shared words without one."""
        return "words" if self.s.judge == "none" else "judge"

    def items(self, arm: str, measure: str, real: bool = False) -> Values:
        """One number per prompt (`real`: that begins a text by people); NaN where there is none."""
        if (arm, measure) not in self._cache:
            rows = self.rows(arm)
            self._cache[arm, measure] = self._items(rows, measure) if rows else np.empty(0)
        values = self._cache[arm, measure]
        return values[list(self.real())] if real and values.size and measure != "across" else values

    def _items(self, rows: list[Row], measure: str) -> Values:
        if measure == "nll":
            nll, tokens = (
                np.sum([row.arrays[k] for row in rows], axis=0) for k in ("nll", "tokens")
            )
            return np.divide(nll, tokens, out=np.full(len(nll), np.nan), where=tokens > 0)
        if measure in rows[0].arrays:
            return np.mean([row.arrays[measure] for row in rows], axis=0)
        if measure in ("prefix", "agreement"):
            return self._with_greedy(rows, measure == "prefix")
        return self._left_out(rows) if measure == "across" else self._between(rows, measure)

    def _with_greedy(self, rows: list[Row], prefix: bool) -> Values:
        greedy = self.first(GREEDY)
        if greedy is None:
            return np.full(len(rows[0].arrays["nll"]), np.nan)
        base, known = greedy.arrays["ids"], np.isfinite(rows[0].arrays["nll"])
        shares = np.mean([equal_tokens(row.arrays["ids"], base, prefix) for row in rows], axis=0)
        return np.where(known, shares, np.nan)

    def _between(self, rows: list[Row], measure: str) -> Values:
        """Diversity of one prompt's texts; a deterministic strategy repeats its text."""
        texts, arm = self.words(rows), rows[0]["arm"]
        if arm != PEOPLE and is_deterministic(arm):
            texts = texts[:1] * self.s.seeds
        if len(texts) < self.s.seeds:  # fewer texts would seem more diverse
            return np.full(len(texts[0]), np.nan)
        by_prompt = zip(*texts, strict=True)
        if measure == "self_bleu":
            return np.array([_self_bleu(same) for same in by_prompt])
        n = int(measure.removeprefix("distinct_"))
        return np.array([distinct_n(same, n) for same in by_prompt])

    def words(self, rows: list[Row]) -> list[list[list[str]]]:
        """Words of every text: [seed][prompt]."""
        return [[words(text) for text in json.loads(row.documents["texts.json"])] for row in rows]

    def real(self) -> range:
        """Indices of the prompts that begin texts by people; empty where there are none."""
        row = self.first(PEOPLE)
        return range(0) if row is None else range(row["own_prompts"], len(row.arrays["nll"]))

    def estimate(self, arm: str, metric: str, *, real: bool = False) -> Estimate:
        """Mean of a measure over prompts with its interval; `real`: texts by people only."""
        values = self.items(arm, metric, real)
        e = jackknife(values) if metric == "across" else _mean(values, f"{arm} {metric}")
        return e.clip() if metric.startswith(SHARES) else e

    def shown(self, arm: str, measure: str, *, real: bool = False) -> Estimate:
        """The estimate as figures show it: perplexity instead of its logarithm."""
        e = self.estimate(arm, measure, real=real)
        return exp_estimate(e) if measure == "nll" else e

    def gap(
        self, one: str, other: str, measure: str, *, real: bool = False, level: float = LEVEL
    ) -> Estimate:
        """Mean of one − other over the prompts that have both numbers."""
        a, b = (self.items(arm, measure, real) for arm in (one, other))
        gaps = a - b if a.size and b.size else np.empty(0)
        if measure == "across":
            return jackknife(gaps, level)
        e = _mean(gaps, f"{one} {other} {measure}", level)
        return e.transform(lambda e: replace(e, method=f"paired {e.method}")) if e.n else e

    def _left_out(self, rows: list[Row]) -> Values:
        """Distinct share over one text per prompt: of all prompts, then without each of them."""
        each = []
        for of_seed in self.words(rows):
            texts = [of_seed[i] for i in self.real()]
            fewer = (texts[:i] + texts[i + 1 :] for i in range(len(texts)))
            each.append([distinct_n(some, ACROSS) for some in (texts, *fewer)])
        return np.mean(each, axis=0) if self.real() else np.empty(0)


def jackknife(values: Values, level: float = LEVEL) -> Estimate:
    """θ ± t·s,  s² = (N−1)/N Σ (θ₍₋ᵢ₎ − mean)², from θ and its values without each prompt.

    Not a bootstrap: a prompt drawn twice would count its n-grams as repetition.
    """
    method = f"jackknife over prompts, {percent(level)}"
    if values.size < 3 or not np.isfinite(values).all():
        return Estimate(math.nan, method="too few texts")
    whole, each = float(values[0]), values[1:]
    spread = math.sqrt((each.size - 1) / each.size * float(((each - each.mean()) ** 2).sum()))
    half = t_quantile((1 + level) / 2, each.size - 1) * spread
    again = partial(jackknife, values)
    return Estimate(whole, whole - half, whole + half, int(each.size), method, recompute=again)


def _mean(values: Values, name: str, level: float = LEVEL) -> Estimate:
    known = values[np.isfinite(values)]
    if not known.size:
        return Estimate(math.nan, method="no prompt has a number")
    return item_interval(known, name, level).transform(
        lambda e: replace(e, method=e.method.replace("items", "prompts"))
    )


def equal_tokens(ids: NDArray[np.int64], base: NDArray[np.int64], prefix: bool) -> Values:
    """Share of the longer text that is equal: before the first difference, or anywhere."""
    longest = np.maximum((ids >= 0).sum(axis=1), (base >= 0).sum(axis=1))
    same = (ids == base) & (ids >= 0)
    if prefix:
        same = np.logical_and.accumulate(same, axis=1)
    # two empty texts are equal
    return np.where(longest > 0, same.sum(axis=1) / np.maximum(longest, 1), 1.0)


def _self_bleu(texts: Sequence[Sequence[str]]) -> float:
    """NaN where a text has no 4-gram: equal texts would not score 1."""
    return float(self_bleu(texts).mean()) if min(map(len, texts)) >= GRAM else math.nan


def weakest_step(steps: Sequence[Estimate]) -> int:
    """The step of a curve that speaks most clearly against a rise: the index of its difference."""
    lows = [e.high if e.high <= 0 else e.low for e in steps]
    behind = [i for i, e in enumerate(steps) if e.has_interval and e.high <= 0]
    return min(behind or range(len(steps)), key=lambda i: (math.isfinite(lows[i]), lows[i]))


def deciding_step(steps: Sequence[Estimate], level: float = LEVEL) -> tuple[int, Estimate]:
    """The weakest step and its index, with intervals corrected for so many steps (Bonferroni)."""
    wide = [step.at(1 - (1 - level) / len(steps)) for step in steps]
    weakest = weakest_step(wide)
    return weakest, replace(wide[weakest], recompute=lambda at: deciding_step(steps, at)[1])
