"""The answer and the interpretation, written from verdicts and numbers."""

import math
from collections.abc import Sequence

import numpy as np

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.lab.table import Table
from attnlab.measure.intervals import mean_interval, paired_difference
from attnlab.studies.phase_transition.claims import scale_audit
from attnlab.studies.phase_transition.evidence import Evidence, gap, size_crossings
from attnlab.studies.phase_transition.settings import PhaseSettings


def answer(claims: Sequence[Claim]) -> str:
    """'Above α_c = … samples per dimension …', or what is not settled."""
    found = {c.name: c for c in claims}
    theory, sim = found["alpha-c-theory"], found["alpha-c-simulation"]
    sides = [found["positional-wins-below"], found["semantic-wins-above"]]
    if theory.verdict != "holds":
        return f"Not settled: α_c of the theory is {theory.verdict} ({theory.why})."
    number = f"α_c = {theory.estimate.value:.3f} ± {theory.estimate.half_width:.3f}"
    if any(c.verdict == "fails" for c in sides):
        return f"Theory says {number}, but simulation contradicts it: see the failing claims."
    if any(c.verdict == "undecided" for c in sides):
        return f"Theory says {number}; simulation at this scale does not settle it."
    seen = ""
    if sim.estimate.has_interval:
        seen = f" (simulation: {sim.estimate.value:.3f} ± {sim.estimate.half_width:.3f})"
    return (
        f"Above {number} samples per dimension{seen} the semantic solution has the lower loss; "
        "below it attention reads positions."
    )


def discussion(table: Table, claims: Sequence[Claim], settings: PhaseSettings) -> list[Section]:
    """What it means; differences from the paper; the open questions; what was varied."""
    e = Evidence(table, settings)
    found = {c.name: c for c in claims}
    sections = [
        Section("What it means", (_meaning(found), _worth(found), _converged(e))),
        Section("Where this differs from the paper", _differences(e, found)),
        Section("Where theory and simulation part company", _open_questions(e, found)),
        Section("What happens when the model is changed", _variants(e, found)),
    ]
    return [Section(s.heading, tuple(p for p in s.paragraphs if p)) for s in sections]


def _meaning(found: dict[str, Claim]) -> str:
    below, above = found["positional-wins-below"], found["semantic-wins-above"]
    if below.verdict == above.verdict == "holds":
        return (
            "The same layer, the same data and the same loss have two very different good "
            "solutions. With little data the one that looks only at where a token stands is the "
            "better fit; with more, the one that looks at what it means. They exchange rank at "
            f"α_c: both exist on both sides of it. Measured: {below.why}; {above.why}."
        )
    return (
        "At this scale the exchange of the two solutions is not established on both sides of α_c: "
        f"below, {below.verdict} ({below.why}); above, {above.verdict} ({above.why})."
    )


def _worth(found: dict[str, Claim]) -> str:
    below, above = found["linear-wins-below"], found["linear-loses-above"]
    if below.verdict == above.verdict == "holds":
        return (
            "Attention is not worth its price everywhere: with few samples a plain L×L linear map, "
            "which sees no positions and computes no scores, predicts fresh data better; with many "
            f"it does not. {below.statement} ({below.why}); {above.statement} ({above.why}). In "
            "theory α_l lies above α_c: the semantic solution has the lower loss before it is "
            "useful."
        )
    return f"Against the linear baseline: {below.verdict} below α_l, {above.verdict} above it."


def _converged(e: Evidence) -> str:
    flags = [
        row[key]
        for row in e.table.where(kind="instance")
        if row["part"] != "scaling"
        for key in row.metrics
        if key.endswith("_converged")
    ]
    if not flags:
        return ""
    left = len(flags) - sum(map(bool, flags))
    if not left:
        return f"All {len(flags):,} students (the unscaled variant apart) reached the tolerance."
    return (
        f"Of {len(flags):,} students trained (the unscaled variant apart), {left} did not reach "
        "the tolerance on the gradient; they are counted like the others."
    )


def _differences(e: Evidence, found: dict[str, Claim]) -> tuple[str, ...]:
    lines = []
    for name, symbol in (("alpha-c-theory", "α_c"), ("alpha-l-theory", "α_l")):
        c = found[name]
        if c.reported is None or c.reported.value is None or not c.estimate.has_interval:
            continue
        off = c.estimate.value / c.reported.value - 1
        lines.append(
            f"{symbol}: {c.estimate.value:.4f} here, {c.reported.value} published ({off:+.1%}). "
            "The published value comes from a non-adaptive quadrature and one start of the inner "
            "minimisation. The inner problem is not convex and its minimiser jumps, so the "
            f"integrand is discontinuous; here several starts compete, and {c.estimate.n} point "
            f"sets differ by {2 * c.estimate.half_width:.4f} at most."
        )
    lines.append(
        "The linear baseline sees tokens without positions, as in the published code; the student "
        "sees both. Starts are unequal, as published: W* has norm √D, r_1 has norm 1." + _matched(e)
    )
    lines.append(
        "Errors are those that were optimised: ε_t = E/D with the sum over samples and the ridge, "
        "ε_g without the ridge. The published plots show raw W·W*/D beside the theory's θ/σ²; here "
        "m, θ and q have one definition for both."
    )
    lines.append(_course(e))
    return tuple(lines)


def _matched(e: Evidence) -> str:
    """The same instances with both norms of the positional start, paired."""
    rows = e.part("matched norms")
    plain = {r.seed: r for r in rows if r["positional_norm"] is None}
    long = {r.seed: r for r in rows if r["positional_norm"] is not None}
    seeds = sorted(plain.keys() & long.keys())
    if len(seeds) < 3:
        return ""
    name = "positional_train_error"
    change = paired_difference([long[s][name] for s in seeds], [plain[s][name] for s in seeds])
    base = float(np.mean([plain[s][name] for s in seeds]))
    return (
        f" A positional start of norm √D instead changes the loss it ends in by "
        f"{change.value / base:+.2%} ± {change.half_width / base:.2%} (α = 1.25, same instances)."
    )


def _course(e: Evidence) -> str:
    parts = []
    for (dim,), rows in e.part("course recipe").groups("dim").items():
        wide = np.mean(
            [2 * r["semantic_test_standard_error"] / r["semantic_test_error"] for r in rows]
        )
        parts.append(f"±{wide:.0%} at D = {dim:,}")
    if not parts:
        return ""
    return (
        "With the courses' recipe (2·D samples to train, 0.2·D to test) the test error of one "
        f"instance is uncertain by {', '.join(parts)} (two standard errors); the default test set "
        f"has {e.settings.test_samples:,} samples."
    )


def _open_questions(e: Evidence, found: dict[str, Claim]) -> tuple[str, ...]:
    lines = []
    sizes, (theory, _) = size_crossings(e), e.critical_at("alpha_c")
    if sizes and math.isfinite(theory.value):
        listed = "; ".join(
            f"D = {d:,}: {v.value:.3f} ± {v.half_width:.3f}" for d, v in sizes.items()
        )
        lines.append(
            f"Crossing of the losses in simulation: {listed}; theory {theory.value:.3f}. "
            + _crossing_words(e)
        )
    memory = found["start-is-remembered"]
    if memory.verdict == "holds":
        lines.append(
            f"{memory.statement}: measured {memory.estimate.value:.3f} ± "
            f"{memory.estimate.half_width:.3f}. It stops in a minimum near its start, which the "
            "theory of the best solution does not describe."
        )
    lines.append(_instability(e, found["positional-gap"]))
    return tuple(lines)


def _crossing_words(e: Evidence) -> str:
    sizes, (theory, _) = size_crossings(e), e.critical_at("alpha_c")
    last = sizes[max(sizes)]
    if not last.has_interval:
        return ""
    if last.low <= theory.value <= last.high:
        return "At the largest D the interval covers the theory's value."
    side = "below" if last.high < theory.value else "above"
    return (
        f"At the largest D simulation lies {abs(last.value / theory.value - 1):.1%} {side} theory."
    )


def _instability(e: Evidence, claim: Claim) -> str:
    """Does the gap between descent and theory follow the theory's own instability?"""
    points = [p for p in e.open_points() if math.isfinite(p.gap.value + p.separation)]
    if len(points) < 4:
        return ""
    listed = "; ".join(
        f"{p.branch} ω = {p.omega:g}, α = {p.alpha:g}: Δ*/q = {p.separation:.3f}, "
        f"{p.overlap.replace('theta', 'θ')} {p.gap.value:+.1%}"
        for p in sorted(points, key=lambda p: p.separation)
    )
    rank = _rank_correlation([p.separation for p in points], [p.gap.value for p in points])
    back = max(p.returned.value for p in points)
    text = (
        "Instability or finite D? At each point two replicas of the theory move apart to Δ*/q; "
        "beside it, how far the overlap of simulation at the largest D exceeds the theory's: "
        f"{listed}. Rank correlation {rank:.2f}. Trained students displaced by Δ/q = "
        f"{e.settings.displacement:g} fall back to within Δ/q = {back:.3f}: each minimum is "
        "robust, but descent need not reach the lowest. "
    )
    if claim.verdict == "holds" and rank > 0.5:
        return text + (
            "The gap is where the theory's own stability fails, which points to the instability of "
            "the replica-symmetric solution; D up to 30,000 (docs/results) shows that it does not "
            "close with D."
        )
    return text + f"At this scale that does not settle it (claim positional-gap: {claim.verdict})."


def _rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's ρ; ties share no rank here, which real numbers do not have."""
    x, y = (np.argsort(np.argsort(v)) - (len(v) - 1) / 2 for v in (a, b))
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def _variants(e: Evidence, found: dict[str, Claim]) -> tuple[str, ...]:
    lines = []
    rank = found["rank-two-does-both"]
    if rank.verdict == "holds":
        lines.append(
            f"Rank 2: one row can be positional and the other semantic at once ({rank.why}); the "
            "choice the rank-1 student has to make disappears."
        )
    other = e.table.where(kind="critical", mixing=[list(r) for r in e.settings.other_mixing]).rows
    own, _ = e.critical_at("alpha_c")
    if other and other[0]["alpha_c"] is not None and math.isfinite(own.value):
        lines.append(
            f"Another F, {e.settings.other_mixing}: in theory α_c moves from {own.value:.3f} to "
            f"{other[0]['alpha_c']:.3f}. " + _other_f(e)
        )
    lines.append(_unscaled(e))
    return tuple(lines)


def _other_f(e: Evidence) -> str:
    groups = e.part("other F").groups("alpha")
    signs = {key[0]: mean_interval([gap(r) for r in rows]) for key, rows in groups.items()}
    positional = [f"{a:g}" for a, g in signs.items() if g.high < 0]
    semantic = [f"{a:g}" for a, g in signs.items() if g.low > 0]
    return (
        f"In simulation the positional solution wins at α = {', '.join(positional) or 'none'}, the "
        f"semantic one at α = {', '.join(semantic) or 'none'}; elsewhere the interval covers zero."
    )


def _unscaled(e: Evidence) -> str:
    rows = e.part("scaling").where(scaling="unscaled")
    if not len(rows):
        return ""
    largest = rows.where(dim=max(r["dim"] for r in rows))
    audit = scale_audit(e, "unscaled")
    stuck = float(np.mean([1 - float(r["semantic_converged"]) for r in largest]))
    return (
        f"Without the factors 1/√D the audit score-scale says {audit.verdict}: {audit.why}. At D = "
        f"{int(largest.rows[0]['dim']):,} the student's largest attention weight at W* is "
        f"{float(np.mean(largest.column('largest_weight'))):.3f} on average, its loss ends at "
        f"{float(np.mean(largest.column('semantic_train_error'))):.3g} (with the factors: about "
        f"0.003), and {stuck:.0%} of the descents from W* did not reach the tolerance within 300 "
        "evaluations. Positions of size 1 enter the values at O(1) and pull attention to one half."
    )
