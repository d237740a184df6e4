"""What the trials say of a strategy: one number a prompt, the mean over seeds; then over prompts.

Every prompt has random streams of its own, so texts of different prompts are independent, and an
interval from prompts drawn again covers the draws too. Of texts that are drawn there is one a seed;
a strategy that draws nothing writes the same every time.

    log-perplexity    Σ NLL / Σ tokens of a prompt's texts; its mean over prompts; exp of that
    distinct, self-BLEU    of the texts of one prompt, in words
    across            distinct n-grams over one text of every prompt (jackknife over prompts)
    prefix, agreement equal tokens with the greedy text: until the first difference, and at all
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from attnlab.lab.table import Row, Table
from attnlab.measure.diversity import distinct_n, self_bleu
from attnlab.measure.intervals import LEVEL, Estimate, t_quantile
from attnlab.measure.words import words
from attnlab.studies.decoding.settings import DecodingSettings, draws_nothing
from attnlab.studies.distillation.evidence import over_items

PEOPLE, GREEDY = "people", "greedy"
Values = NDArray[np.float64]
GRAM = 4  # longest n-gram of BLEU
ACROSS = 2  # n of the n-grams counted over all prompts
STORED = (
    "tokens",
    "ended",
    "repetition",
    "margin_words",
    "rank_words",
    "margin_judge",
    "rank_judge",
)


@dataclass(frozen=True)
class Evidence:
    """The trials of a run that ended, by strategy."""

    table: Table
    s: DecodingSettings
    _kept: dict[tuple[str, str], Values] = field(default_factory=dict, compare=False, repr=False)

    def names(self) -> list[str]:
        """Strategies that have a trial, in the order of the settings."""
        return [name for name in self.s.strategies() if self.rows(name)]

    def rows(self, arm: str) -> list[Row]:
        """One row a seed."""
        found = self.table.done().where(arm=arm)
        return sorted(found, key=lambda row: row.seed)

    def ids(self, *arms: str) -> list[str]:
        """The trials behind these strategies."""
        return [row.id for arm in arms for row in self.rows(arm)]

    def items(self, arm: str, measure: str) -> Values:
        """One number a prompt; NaN where there is none."""
        if (arm, measure) not in self._kept:
            rows = self.rows(arm)
            self._kept[arm, measure] = self._items(rows, measure) if rows else np.empty(0)
        return self._kept[arm, measure]

    def _items(self, rows: list[Row], measure: str) -> Values:
        if measure == "nll":
            nll, tokens = (
                np.sum([row.arrays[key] for row in rows], axis=0) for key in ("nll", "tokens")
            )
            return np.divide(nll, tokens, out=np.full(len(nll), np.nan), where=tokens > 0)
        if measure in STORED:
            return np.mean([row.arrays[measure] for row in rows], axis=0)
        if measure in ("prefix", "agreement"):
            return self._with_greedy(rows, measure == "prefix")
        return self._between(rows, measure)

    def _with_greedy(self, rows: list[Row], prefix: bool) -> Values:
        greedy = self.rows(GREEDY)[:1]
        if not greedy:
            return np.full(len(rows[0].arrays["nll"]), np.nan)
        base, known = greedy[0].arrays["ids"], np.isfinite(rows[0].arrays["nll"])
        found = np.mean([_equal(row.arrays["ids"], base, prefix) for row in rows], axis=0)
        return np.where(known, found, np.nan)

    def _between(self, rows: list[Row], measure: str) -> Values:
        """Diversity of one prompt's texts; the same text again where nothing is drawn."""
        said = self.said(rows)
        if rows[0]["arm"] != PEOPLE and draws_nothing(rows[0]["arm"]):
            said = said[:1] * self.s.seeds
        if len(said) < self.s.seeds:  # of fewer texts both would seem more diverse
            return np.full(len(said[0]), np.nan)
        prompts = zip(*said, strict=True)
        if measure == "self_bleu":
            found = [_self_bleu(texts) for texts in prompts]
        else:
            n = int(measure.removeprefix("distinct_"))
            found = [distinct_n(texts, n) for texts in prompts]
        return np.array(found)

    def said(self, rows: list[Row]) -> list[list[list[str]]]:
        """Words of every text: [seed][prompt]."""
        return [[words(text) for text in json.loads(row.documents["texts.json"])] for row in rows]

    def real(self) -> range:
        """Places of the prompts that people went on from; empty where there are none."""
        row = next(iter(self.rows(PEOPLE)), None)
        return range(0) if row is None else range(row["own_prompts"], len(row.arrays["nll"]))

    def places(self, real: bool) -> list[int] | slice:
        """The prompts that are looked at: all, or those people went on from."""
        return list(self.real()) if real else slice(None)

    def estimate(
        self, arm: str, measure: str, *, real: bool = False, level: float = LEVEL
    ) -> Estimate:
        """Mean over prompts with its interval."""
        if measure == "across":
            return jackknife(self._left_out(arm), level)
        values = self.items(arm, measure)
        return _mean(
            values[self.places(real)] if values.size else values, f"{arm} {measure}", level
        )

    def perplexity(self, arm: str, *, real: bool = False) -> Estimate:
        """exp of the mean over prompts of NLL a token."""
        e = self.estimate(arm, "nll", real=real)
        return replace(e, value=math.exp(e.value), low=math.exp(e.low), high=math.exp(e.high))

    def gaps(self, one: str, other: str, measure: str, *, real: bool = False) -> Values:
        """one − other of every prompt that both have a number for."""
        a, b = self.items(one, measure), self.items(other, measure)
        if not a.size or not b.size:
            return np.empty(0)
        found = (a - b)[self.places(real)]
        return found[np.isfinite(found)]

    def difference(
        self, one: str, other: str, measure: str, *, real: bool = False, level: float = LEVEL
    ) -> Estimate:
        """Mean over prompts of one − other."""
        if measure == "across":
            a, b = self._left_out(one), self._left_out(other)
            return jackknife(a - b if a.size and b.size else np.empty(0), level)
        e = _mean(self.gaps(one, other, measure, real=real), f"{one} {other} {measure}", level)
        return replace(e, method=f"paired {e.method}") if e.n else e

    def _left_out(self, arm: str) -> Values:
        """Distinct share over one text a prompt, all of them first, then without each."""
        rows, places = self.rows(arm), list(self.real())
        if not rows or not places:
            return np.empty(0)
        if (arm, "across") not in self._kept:
            said = [[texts[i] for i in places] for texts in self.said(rows)]
            each = [
                [distinct_n(texts, ACROSS)]
                + [distinct_n(texts[:i] + texts[i + 1 :], ACROSS) for i in range(len(texts))]
                for texts in said
            ]
            self._kept[arm, "across"] = np.mean(each, axis=0)
        return self._kept[arm, "across"]


def jackknife(values: Values, level: float = LEVEL) -> Estimate:
    """θ ± t·s,  s² = (N−1)/N Σ (θ₍₋ᵢ₎ − mean)², from θ and its values without each prompt.

    Not a bootstrap: a prompt drawn twice would count its n-grams as repetition.
    """
    method = f"jackknife over prompts, {100 * level:.4g} %"
    if values.size < 3 or not np.isfinite(values).all():
        return Estimate(math.nan, method="too few texts")
    whole, each = float(values[0]), values[1:]
    spread = math.sqrt((each.size - 1) / each.size * float(((each - each.mean()) ** 2).sum()))
    half = t_quantile((1 + level) / 2, each.size - 1) * spread
    return Estimate(whole, whole - half, whole + half, int(each.size), method)


def _mean(values: Values, name: str, level: float) -> Estimate:
    known = values[np.isfinite(values)]
    if not known.size:
        return Estimate(math.nan, method="no prompt has a number")
    e = over_items(known, name, level)
    return replace(e, method=e.method.replace("items", "prompts"))


def _equal(ids: NDArray[np.int64], base: NDArray[np.int64], prefix: bool) -> Values:
    """Share of equal tokens of the longer text: until the first difference, or anywhere."""
    longest = np.maximum((ids >= 0).sum(axis=1), (base >= 0).sum(axis=1))
    same = (ids == base) & (ids >= 0)
    if prefix:
        same = np.logical_and.accumulate(same, axis=1)
    # two empty texts are equal
    return np.where(longest > 0, same.sum(axis=1) / np.maximum(longest, 1), 1.0)


def _self_bleu(texts: Sequence[Sequence[str]]) -> float:
    """NaN where a text has no 4-gram: equal texts would not score 1."""
    return float(self_bleu(texts).mean()) if min(map(len, texts)) >= GRAM else math.nan


def steepest(found: Sequence[Estimate]) -> int:
    """Of differences that should all be positive, the one that speaks most clearly against it."""
    lows = [e.high if e.high <= 0 else e.low for e in found]
    behind = [i for i, e in enumerate(found) if e.has_interval and e.high <= 0]
    return min(behind or range(len(found)), key=lambda i: (math.isfinite(lows[i]), lows[i]))
