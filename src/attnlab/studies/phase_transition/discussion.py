"""The answer and the interpretation, written from verdicts and numbers."""

import math
from collections.abc import Sequence

import numpy as np

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.lab.table import Table
from attnlab.measure.intervals import mean_interval
from attnlab.studies.phase_transition.evidence import Evidence, gap, size_crossings
from attnlab.studies.phase_transition.settings import PhaseSettings


def answer(claims: Sequence[Claim]) -> str:
    """'Above α_c = … samples per dimension …', or what is not settled."""
    found = {c.name: c for c in claims}
    theory, sim = found["alpha-c-theory"], found["alpha-c-simulation"]
    sides = [found["positional-wins-below"], found["semantic-wins-above"]]
    if theory.verdict != "holds":
        return f"Not settled: the theory's α_c is not where it was checked ({theory.why})."
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
        Section("What it means", (_meaning(found), _worth(found))),
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
            "better fit; with more, the one that looks at what it means. The two exchange rank at "
            f"α_c, as a first-order transition: neither disappears there. Measured: {below.why}; "
            f"{above.why}."
        )
    return (
        "At this scale the exchange of the two solutions is not established on both sides of α_c: "
        f"below, {below.verdict} ({below.why}); above, {above.verdict} ({above.why})."
    )


def _worth(found: dict[str, Claim]) -> str:
    below, above = found["linear-wins-below"], found["linear-loses-above"]
    if below.verdict == above.verdict == "holds":
        return (
            "Being semantic is not yet being useful: between α_c and α_l the semantic solution has "
            "the lower training loss, but a plain L×L linear map, which sees no positions and "
            "computes no scores, still predicts better on fresh data."
        )
    return f"Against the linear baseline: {below.verdict} below α_l, {above.verdict} above it."


def _differences(e: Evidence, found: dict[str, Claim]) -> tuple[str, ...]:
    lines = []
    for name, symbol in (("alpha-c-theory", "α_c"), ("alpha-l-theory", "α_l")):
        c = found[name]
        if c.reported is None or c.reported.value is None or not math.isfinite(c.estimate.value):
            continue
        off = c.estimate.value / c.reported.value - 1
        lines.append(
            f"{symbol}: {c.estimate.value:.4f} here, {c.reported.value} published ({off:+.1%}). "
            "The published value comes from a non-adaptive quadrature and one start of the inner "
            "minimisation. The inner problem is not convex and its minimiser jumps, so the "
            "integrand is discontinuous; here several starts compete and three point sets agree "
            f"to {2 * c.estimate.half_width:.4f}."
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
    rows = e.part("matched norms")
    if not len(rows):
        return ""
    found = mean_interval([gap(r) for r in rows])
    plain = e.part("finite size").where(dim=e.settings.side_dim)
    near = [gap(r) for r in plain if abs(r["alpha"] - 1.25) < 0.11]
    other = f", against {np.mean(near):.2e} with the published norms nearby" if near else ""
    return (
        f" With a positional start of norm √D instead the loss difference at α = 1.25 is "
        f"{found.value:.2e} ± {found.half_width:.1e}{other}."
    )


def _course(e: Evidence) -> str:
    parts = []
    for (dim,), rows in e.part("course recipe").groups("dim").items():
        wide = np.mean([2 * r["semantic_test_standard_error"] / r["semantic_test_error"]
                        for r in rows])  # fmt: skip
        parts.append(f"±{wide:.0%} at D = {dim:,}")
    if not parts:
        return ""
    return (
        "With the courses' recipe (2·D samples to train, 0.2·D to test) the test error of one "
        f"instance is uncertain by {', '.join(parts)} (two standard errors), which hides every "
        f"difference discussed here; the default test set has {e.settings.test_samples:,} samples."
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
            + _crossing_words(sizes[max(sizes)].value, theory.value)
        )
    memory = found["start-is-remembered"]
    weak, _ = e.critical_at("alpha_w")
    if memory.verdict == "holds" and math.isfinite(weak.value):
        lines.append(
            f"In theory the semantic solution ends at α_w = {weak.value:.3f}: below it the best "
            "solution without positions has θ = 0. Descent from W* nevertheless keeps θ = "
            f"{memory.estimate.value:.3f} ± {memory.estimate.half_width:.3f} at α = 0.457: "
            "it stops in a minimum near its start, which the theory of the best solution does not "
            "describe."
        )
    replicas = _replica_lines(e)
    if replicas:
        lines.append(
            "Instability or finite D? Two tests. First, the gap does not close as D grows "
            f"(claim 'positional-gap-stays': {found['positional-gap-stays'].verdict}). Second, two "
            "descents from nearby positional starts end apart, and the more so the farther the "
            f"theory says its two replicas go: {replicas}. So it is the instability of the "
            "replica-symmetric solution, not finite D: the landscape has many positional minima, "
            "descent stops in one that lies slightly above the lowest, and α_c of simulation is "
            "therefore below the theory's."
        )
    return tuple(lines)


def _crossing_words(simulated: float, theory: float) -> str:
    off = simulated / theory - 1
    if abs(off) < 0.005:
        return "At the largest D the two agree within half a per cent."
    side = "below" if off < 0 else "above"
    return f"At the largest D simulation lies {abs(off):.1%} {side} theory."


def _replica_lines(e: Evidence) -> str:
    parts = []
    for (omega, alpha), rows in e.part("open questions").groups("omega", "alpha").items():
        theory = e.table.where(kind="stability", omega=omega, alpha=alpha, branch="positional").rows
        if not theory or theory[0]["separation"] is None:
            continue
        largest = rows.where(dim=max(r["dim"] for r in rows))
        measured = mean_interval(largest.column("positional-2_separation"))
        parts.append((theory[0]["separation"],
                      f"ω = {omega:g}, α = {alpha:g}: predicted {theory[0]['separation']:.2f}, "
                      f"measured {measured.value:.2f}"))  # fmt: skip
    return "; ".join(text for _, text in sorted(parts))


def _variants(e: Evidence, found: dict[str, Claim]) -> tuple[str, ...]:
    lines = []
    rank = found["rank-two-does-both"]
    if math.isfinite(rank.estimate.value):
        lines.append(
            f"Rank 2: one row can be positional and the other semantic at once ({rank.verdict}: "
            f"{rank.why}); the choice the rank-1 student has to make disappears."
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
    semantic = [a for a, g in signs.items() if g.has_interval and g.low > 0]
    if not semantic:
        return f"In simulation the positional solution wins at every α up to {max(signs):g}."
    return f"In simulation the semantic solution wins from α = {min(semantic):g} on."


def _unscaled(e: Evidence) -> str:
    rows = e.part("scaling").where(scaling="unscaled")
    if not len(rows):
        return ""
    largest = rows.where(dim=max(r["dim"] for r in rows))
    weight = float(np.mean(largest.column("largest_weight")))
    stuck = float(np.mean([1 - float(r["semantic_converged"]) for r in largest]))
    return (
        "Without the factors 1/√D the scores grow with D, the teacher's softmax picks one token "
        f"(largest weight {weight:.3f} on average at D = {int(largest.rows[0]['dim']):,}), and "
        "positions of size 1 enter the values at O(1) and pull attention to one half. Descent from "
        f"W* did not reach a stationary point in {stuck:.0%} of the instances: the loss is flat "
        "almost everywhere. Nothing of the published figures survives this."
    )
