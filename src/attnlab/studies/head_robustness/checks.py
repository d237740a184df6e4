"""Audits: the exact law against the draws, the quadrature against itself, the ends of the β.

exact-and-simulation   |mean over N draws − exact| may be
                           t = L/3N + √((L/3N)² + 2 v L/N),    L = ln(2m/δ)
                       for m numbers in [0, 1] of exact variance v (Bernstein's inequality): a
                       correct pair passes with probability 1 − δ, however rare the events are;
                       √2L standard errors more where the exact number has an error of its own
two-quadratures        every moment with the step halved, and the limit β → ∞ likewise
"""

import math
from collections.abc import Iterator, Sequence

from attnlab.audit.checks.grid_edge import Choice, grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.studies.head_robustness.study import (
    ARMS,
    BETA,
    SWEPT,
    VARIES,
    Evidence,
    HeadRobustness,
)

AGREEMENT, QUADRATURE = "exact-and-simulation", "two-quadratures"
RISK = 0.01  # δ, of all the numbers together
LARGEST_GAP = 1e-9  # rounding, as for identities
UNDERMINED = ("large-beta-limit", "negative-score", "exact-agrees-one", "exact-agrees-two")


def audits(study: HeadRobustness, e: Evidence, claims: Sequence[Claim]) -> list[Finding]:
    """The exact law against the draws at every point; the quadrature against itself; the best β."""
    betas, claim = tuple(e.points(BETA)), ("no-beta-saves-one-head",)
    best = [
        Choice(f"{arm} head{'s' * (arm == 'two')}", "betas", beta, betas, claim)
        for arm in ARMS
        for _, beta in e.best_betas(arm).values()
    ]
    return [agreement(e), quadrature(e), grid_edge(best)]


def agreement(e: Evidence) -> Finding:
    """The largest difference at any point, as a share of what chance allows."""
    found = list(_compared(e))
    if not found:
        why = "no point has both an exact law and draws"
        return Finding.not_applicable(AGREEMENT, why, threshold=1.0)
    level = math.log(2 * len(found) / RISK)
    shares = {
        name: abs(drawn - exact) / (allowed(level, variance, n) + math.sqrt(2 * level) * error)
        for name, drawn, exact, variance, error, n in found
    }
    worst = max(shares, key=lambda name: shares[name])
    why = (
        f"of {len(found)} numbers the one furthest from the exact law, {worst}, is off by "
        f"{shares[worst]:.2f} of what chance allows (Bernstein, {RISK:.0%} for all together)"
    )
    return _judge(AGREEMENT, shares[worst], 1.0, why, len(found))


def _judge(name: str, worst: float, limit: float, why: str, numbers: int) -> Finding:
    """A pass where the worst of the numbers is within the limit."""
    verdict, hit = ("pass", ()) if worst <= limit else ("fail", UNDERMINED)
    return Finding(name, verdict, worst, limit, why, {"numbers": numbers}, hit)


def _compared(e: Evidence) -> Iterator[tuple[str, float, float, float, float, int]]:
    """(name, mean of all draws, exact, exact variance of a draw, error of exact, draws)."""
    for part, swept in SWEPT.items():
        line = e.line(part)
        for x in e.points(part):
            rows = e.drawn(part, x)
            n = sum(int(row["draws"]) for row in rows)
            for arm in ARMS:
                off = line.at(x, f"{arm}_off")
                table = {
                    "off": (off * (1 - off), line.at(x, f"{arm}_off_error")),
                    "mean_a": (line.at(x, f"{arm}_variance_a"), 0.0),
                    "mean_b": (line.at(x, f"{arm}_variance_b"), 0.0),
                }
                for name, (variance, error) in table.items():
                    drawn = float(rows.column(f"{arm}_{name}").mean())
                    exact = line.at(x, f"{arm}_{name}")
                    if math.isfinite(drawn + exact + variance):
                        words = f"{arm}_{name} at {swept} = {x:g} ({part})"
                        yield words, drawn, exact, variance, error, n


def allowed(level: float, variance: float, n: int) -> float:
    """Bernstein: how far the mean of n draws within [0, 1] strays, at this level."""
    linear = level / (3 * n)
    return linear + math.sqrt(linear**2 + 2 * max(variance, 0.0) * level / n)


def quadrature(e: Evidence) -> Finding:
    """The largest change of any exact number when the step is halved; sums that should be 1."""
    gaps = [e.exact(part, name) for part in SWEPT for name in ("quadrature_gap", "residual")]
    gaps += [abs(e.exact(VARIES, "limit") - e.exact(VARIES, "limit_coarse"))]
    gaps = [gap for gap in gaps if math.isfinite(gap)]
    if not gaps:
        return Finding(QUADRATURE, "not-applicable", None, LARGEST_GAP, "no exact law was computed")
    worst = max(gaps)
    why = (
        f"halving the step of the quadrature changes no mean, no second moment and not the limit "
        f"β → ∞ by more than {worst:.1e}; the weights sum to 1 as closely"
        if worst <= LARGEST_GAP
        else f"halving the step changes an exact number by {worst:.1e}: the quadrature is coarse"
    )
    return _judge(QUADRATURE, worst, LARGEST_GAP, why, len(gaps))
