"""A claim's verdict is computed from an estimate and a rule, never written by hand.

interval inside the claimed range   -> holds
interval outside it                 -> fails
anything else, or fewer than 3 runs -> undecided ("not a result")
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from attnlab.audit.finding import Finding
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.ratios import exp_estimate

Verdict = Literal["holds", "fails", "undecided"]
MARKS: dict[str, str] = {"holds": "✓", "fails": "✗", "undecided": "?"}
MIN_SEEDS = 3


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
    runs: tuple[float, ...] = ()  # paired differences behind it, for the audit of many comparisons

    def as_json(self) -> dict[str, Any]:
        """The form stored in results.json and printed by `attnlab run --json`."""
        e, r = self.estimate, self.reported
        return {
            "name": self.name,
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
    runs: Sequence[float] = (),
) -> Claim:
    """The claim `above < quantity < below`, decided by where the estimate's interval lies."""
    verdict, why = _decide(estimate, above, below)
    return Claim(
        name, statement, verdict, estimate, why, quantity, reported, tuple(trials), tuple(runs)
    )


def judge_difference(name: str, statement: str, gaps: Sequence[float], **rest: Any) -> Claim:
    """The claim that the mean of paired differences lies in a range; `rest` as for `judge`.

    A range that is open on one side and ends at 0 ("is better") is a comparison: it joins the
    family that the lab corrects for.
    """
    return judge(name, statement, mean_interval(gaps), **_runs_at(0.0, gaps, rest), **rest)


def judge_ratio(name: str, statement: str, logs: Sequence[float], **rest: Any) -> Claim:
    """As `judge_difference`, of paired ratios, given as logarithms; "is better" ends at 1."""
    estimate = exp_estimate(mean_interval(logs))
    return judge(name, statement, estimate, **_runs_at(1.0, logs, rest), **rest)


def _runs_at(equal: float, runs: Sequence[float], rest: Mapping[str, Any]) -> dict[str, Any]:
    """The runs of a comparison; none where the range does not end where both sides are equal."""
    ends = [rest[side] for side in ("above", "below") if math.isfinite(rest.get(side, math.inf))]
    return {"runs": runs} if ends == [equal] else {}


def apply_audits(claims: Sequence[Claim], findings: Sequence[Finding]) -> list[Claim]:
    """Claims that an audit names which did not pass are undecided, whatever their intervals say."""
    against = {
        name: finding
        for finding in findings
        if finding.verdict != "pass"
        for name in finding.undermines
    }
    return [
        replace(claim, verdict="undecided", why=_because(against[claim.name], claim))
        if claim.name in against
        else claim
        for claim in claims
    ]


def _because(finding: Finding, claim: Claim) -> str:
    return f"undermined by the audit {finding.name} ({finding.why}); before it: {claim.why}"


def _decide(e: Estimate, above: float, below: float) -> tuple[Verdict, str]:
    wanted = _range_words(above, below)
    if not math.isfinite(e.value):
        return "undecided", "no estimate: " + (e.method or "nothing was measured")
    if not e.exact and (e.n < MIN_SEEDS or not e.has_interval):
        runs = "1 independent run" if e.n == 1 else f"{e.n} independent runs"
        return "undecided", f"not a result: {runs}, at least {MIN_SEEDS} needed"
    low, high = (e.low, e.high) if e.has_interval else (e.value, e.value)
    shown = f"[{low:.4g}, {high:.4g}]"
    if low > above and high < below:
        return "holds", f"interval {shown} lies inside {wanted}"
    if high <= above or low >= below:
        return "fails", f"interval {shown} lies outside {wanted}"
    return "undecided", f"interval {shown} crosses the edge of {wanted}"


def _range_words(above: float, below: float) -> str:
    if math.isinf(below):
        return f"the range above {above:.4g}"
    if math.isinf(above):
        return f"the range below {below:.4g}"
    return f"the range {above:.4g} to {below:.4g}"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
