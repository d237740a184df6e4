"""A claim's verdict is computed from an estimate and a rule, never written by hand.

interval inside the claimed range   -> holds
interval outside it                 -> fails
anything else, or fewer than 3 runs -> undecided ("not a result")
no range is claimed                 -> not judged: a measurement

A claim that compares belongs to the study's family of comparisons: `correct` widens its interval
before the verdict counts.

A claim of the kind "check" is a theorem or an identity: the run can only show that the code obeys
it. Reports list checks apart from findings, which could have come out otherwise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from attnlab.audit.finding import Finding
from attnlab.core.plural import counted
from attnlab.measure.intervals import Estimate, exp_estimate, mean_interval

Verdict = Literal["holds", "fails", "undecided", "not judged"]
Kind = Literal["finding", "check"]
MARKS: dict[str, str] = {"holds": "✓", "fails": "✗", "undecided": "?", "not judged": "–"}
MIN_SEEDS = 3
ROUNDING = 1e-12  # of a number: runs that differ by less are equal
ERROR = 0.05  # chance of one wrong verdict or more in a family where no arm differs
LAW_LEVEL = 0.99  # of `judge_law`: one in a hundred correct laws fails by chance


@dataclass(frozen=True)
class Reported:
    """A published number beside ours. `comparable` is False when data or model differ."""

    value: float | None
    source: str
    comparable: bool = True
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A sentence that can be wrong, and what the trials say about it."""

    name: str
    statement: str
    verdict: Verdict
    estimate: Estimate
    why: str
    quantity: str = ""
    reported: Reported | None = None
    trials: tuple[str, ...] = ()
    above: float = -math.inf
    below: float = math.inf
    comparison: bool = False  # it belongs to the family that is corrected for
    kind: Kind = "finding"

    def at(self, level: float) -> "Claim":
        """The same claim, decided by its interval at another level."""
        estimate = self.estimate.at(level)
        verdict, why = _decide(estimate, self.above, self.below)
        return replace(self, estimate=estimate, verdict=verdict, why=why)

    def as_json(self) -> dict[str, Any]:
        """The form stored in results.json and printed by `attnlab run --json`."""
        e, r = self.estimate, self.reported
        return {
            "name": self.name,
            "kind": self.kind,
            "statement": self.statement,
            "verdict": self.verdict,
            "quantity": self.quantity,
            "effect": _number(e.value),
            "interval": None if not e.has_interval else [_number(e.low), _number(e.high)],
            "interval_method": e.method,
            "n": e.n,
            "exact": e.exact,
            "reported": None if r is None else r.value,
            "reported_source": None if r is None else r.source,
            "comparable": None if r is None else r.comparable,
            "reported_note": "" if r is None else r.note,
            "why": self.why,
            "trials": list(self.trials),
        }


def judge(  # noqa: PLR0913  (a claim has this many parts; each is named at the call)
    name: str,
    statement: str,
    estimate: Estimate,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    quantity: str = "",
    reported: Reported | None = None,
    trials: Sequence[str] = (),
    comparison: bool = False,
    kind: Kind = "finding",
) -> Claim:
    """The claim `above < quantity < below`, decided by where the estimate's interval lies.

    Without `above` and `below` nothing is claimed: the estimate is shown and not judged.
    `comparison`: the quantity sets one arm against another, or against a baseline. `kind`: "check"
    where theory has decided already and the run can only agree.
    """
    verdict, why = _decide(estimate, above, below)
    return Claim(
        name,
        statement,
        verdict,
        estimate,
        why,
        quantity,
        reported,
        tuple(trials),
        above,
        below,
        comparison,
        kind,
    )


def judge_difference(name: str, statement: str, gaps: Sequence[float], **rest: Any) -> Claim:
    """A comparison: the mean of paired differences lies in a range; `rest` as for `judge`."""
    return judge(name, statement, mean_interval(gaps), comparison=True, **rest)


def judge_ratio(name: str, statement: str, logs: Sequence[float], **rest: Any) -> Claim:
    """As `judge_difference`, of paired ratios, given as logarithms."""
    return judge(name, statement, exp_estimate(mean_interval(logs)), comparison=True, **rest)


def judge_check(name: str, statement: str, errors: ArrayLike, **rest: Any) -> Claim:
    """A theorem or identity: the largest of all errors lies in a range, usually `below` rounding.

    Every case counts and none is sampled, so one case outside the range refutes the check.
    """
    every = np.atleast_1d(np.asarray(errors, dtype=float))
    largest = float(every.max()) if every.size else math.nan
    estimate = Estimate(largest, n=every.size, method="largest of all cases", exact=True)
    return judge(name, statement, estimate, kind="check", **rest)


def judge_law(name: str, statement: str, measured: Estimate, exact: float, **rest: Any) -> Claim:
    """A check of an exact law by sampling: the interval of what was measured covers its value."""
    e = measured.at(LAW_LEVEL)
    claim = judge(name, statement, e, kind="check", **rest)
    if claim.verdict == "undecided":
        return claim
    if not math.isfinite(exact):
        return replace(claim, verdict="undecided", why="the exact law was not computed")
    covered = e.low <= exact <= e.high
    why = f"interval [{e.low:.4g}, {e.high:.4g}] {'covers' if covered else 'misses'} {exact:.4g}"
    return replace(claim, verdict="holds" if covered else "fails", why=why)


def correct(claims: Sequence[Claim]) -> list[Claim]:
    """The claims in their order, the comparisons among them judged by Holm's procedure (1979).

    With nine comparisons of arms that do not differ, nine intervals at 95 % find a "difference" in
    up to 37 % of all studies. Holm keeps that at 5 %, whatever the comparisons have to do with each
    other: with k comparisons open, each is judged by its interval at 1 − 0.05/k. Those that are
    decided leave, the others are judged again with the smaller k, until none is decided.

    The family is what the study's `claims` return for its settings, not what the data happen to
    show: a comparison that stays undecided, or whose trials crashed, counts like any other.
    """
    judged = dict(enumerate(claims))
    open_ = [i for i, claim in judged.items() if claim.comparison]
    size = len(open_)
    while open_:
        level = 1 - ERROR / len(open_)
        stage = {i: claims[i].at(level) for i in open_}
        judged |= stage
        still = [i for i in open_ if stage[i].verdict == "undecided"]
        if still == open_:
            break
        open_ = still
    return [_mention(claim, size) if claim.comparison else claim for claim in judged.values()]


def _mention(claim: Claim, size: int) -> Claim:
    """Say in the claim's reason that its interval is a wider one."""
    if size < 2 or not claim.estimate.has_interval or claim.estimate.exact:
        return claim
    return replace(claim, why=f"{claim.why} (Holm over {counted(size, 'comparison')})")


def apply_audits(claims: Sequence[Claim], findings: Sequence[Finding]) -> list[Claim]:
    """Claims that an audit names which did not pass are undecided, whatever their intervals say."""
    failed = [finding for finding in findings if finding.verdict != "pass"]
    against = {name: f"{f.name} ({f.why})" for f in failed for name in f.undermines}

    def applied(claim: Claim) -> Claim:
        if claim.name not in against:
            return claim
        why = f"undermined by the audit {against[claim.name]}; before it: {claim.why}"
        return replace(claim, verdict="undecided", why=why)

    return [applied(claim) for claim in claims]


def _decide(e: Estimate, above: float, below: float) -> tuple[Verdict, str]:
    wanted = _range_words(above, below)
    if not math.isfinite(e.value):
        return "undecided", "no estimate: " + (e.method or "nothing was measured")
    if not e.exact and (e.n < MIN_SEEDS or not e.has_interval):
        runs = "1 independent run" if e.n == 1 else f"{e.n} independent runs"
        return "undecided", f"not a result: {runs}, at least {MIN_SEEDS} needed"
    low, high = (e.low, e.high) if e.has_interval else (e.value, e.value)
    if not e.exact and high - low <= ROUNDING * max(abs(low), abs(high)):
        same = f"{e.n} equal runs ({low:.4g}) do not say how much others would vary"
        return "undecided", f"not a result: {same}"
    if math.isinf(above) and math.isinf(below):
        return "not judged", "measured: nothing was claimed of it"
    shown = f"interval [{low:.4g}, {high:.4g}]" if e.has_interval else f"{low:.4g}, computed,"
    if low > above and high < below:
        return "holds", f"{shown} lies inside {wanted}"
    if high <= above or low >= below:
        return "fails", f"{shown} lies outside {wanted}"
    return "undecided", f"{shown} crosses the edge of {wanted}"


def _range_words(above: float, below: float) -> str:
    if math.isinf(below):
        return f"the range above {above:.4g}"
    if math.isinf(above):
        return f"the range below {below:.4g}"
    return f"the range {above:.4g} to {below:.4g}"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
