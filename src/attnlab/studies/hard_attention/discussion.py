"""The answer and the interpretation, written from verdicts and numbers."""

from collections.abc import Mapping, Sequence

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.lab.table import Table
from attnlab.report.text import with_interval
from attnlab.studies.hard_attention.arms import ANNEALED, COLD, HARD, HARD_FIXED, SOFT, THROUGH
from attnlab.studies.hard_attention.claims import LEARNT
from attnlab.studies.hard_attention.evidence import BASELINES, Evidence
from attnlab.studies.hard_attention.settings import HardSettings

HELP = {
    "softmax-can-be-hardened": "training with softmax and reading with argmax",
    "annealing-learns": "cooling the softmax while it trains",
    "straight-through-learns": "the straight-through estimate",
}


def answer(claims: Sequence[Claim]) -> str:
    """Why, then what helps, as far as both are settled."""
    found = {c.name: c for c in claims}
    flat, short = found["argmax-has-no-slope"], found["argmax-falls-short"]
    if flat.verdict != "holds":
        return f"Not settled: whether argmax has no slope ({said(flat)})."
    why = (
        "Its output is a staircase: a small change of query or keys changes nothing, so their "
        "gradient is exactly 0"
    )
    if short.verdict != "holds":
        return f"{why}; what that costs in the task is not settled ({said(short)})."
    soft = found["softmax-learns"].verdict == "holds"
    helps = [
        words
        for name, words in HELP.items()
        if found[name].verdict == "holds" and (soft or not name.startswith("softmax"))
    ]
    cost = f"and accuracy ends {-short.estimate.value:.2f} below softmax's"
    if not helps:
        return f"{why}, {cost}; nothing tried here was shown to help."
    listed = helps[0] if len(helps) == 1 else f"{', '.join(helps[:-1])} and {helps[-1]}"
    solve = "solves the task" if len(helps) == 1 else "all solve the task"
    return f"{why}, {cost}; {listed} {solve}."


def discussion(table: Table, claims: Sequence[Claim], settings: HardSettings) -> list[Section]:
    """The example, the slopes, the task, what is often said but not quite so, how to read it."""
    e, found = Evidence(table.done()), {c.name: c for c in claims}
    sections = [
        Section("The given example", (_example(e),)),
        Section("Why the gradient is zero", _slopes(e, found)),
        Section("What it does to learning", _learning(e, found, settings)),
        Section("What is often said and is not quite so", _sideways(e, found)),
        Section("How it was measured", _measured(e, settings)),
    ]
    return [Section(s.heading, tuple(p for p in s.paragraphs if p)) for s in sections]


def said(claim: Claim) -> str:
    """'holds; median query slope: 4.593 ± 0.053', or the verdict and why."""
    e = claim.estimate
    if claim.verdict != "holds":
        return f"{claim.verdict}: {claim.why}"
    return f"holds; {claim.quantity}: {with_interval(e.value, [e.low, e.high])}"


def _example(e: Evidence) -> str:
    rows = e.table.where(kind="given").rows
    if not rows:
        return "It was not run."
    r = rows[0]
    lead = "all scores are equal" if r.get("gap") is None else f"it leads by {r['gap']:.3g}"
    return (
        f"On the {len(r['keys'])} keys of the settings the query {tuple(r['query'])} has its "
        f"highest score with key {r['index']} ({lead}), so argmax attention returns that key's "
        f"value, {r['output']:g}. The slope with respect to the query, by autograd and by finite "
        f"differences: softmax (T = 1) {r['softmax_query']:.4g} and "
        f"{r['softmax_query_difference']:.4g}; argmax {r['argmax_query']:g} and "
        f"{r['argmax_query_difference']:g}; straight-through {r['straight-through_query']:.4g} and "
        f"{r['straight-through_query_difference']:g}. With respect to the values, argmax has the "
        f"slope {r['argmax_values']:g}: the value that was picked moves the output one to one."
    )


def _slopes(e: Evidence, found: Mapping[str, Claim]) -> tuple[str, ...]:
    grid = e.temperatures
    where = ""
    if grid:
        top, end = e.peak("formula_median"), grid.index(min(grid))
        share = e.curve("formula_share")[end].value
        where = (
            f" The typical slope is largest near T = {grid[top]:g}. At T = {grid[end]:g}, "
            f"{100 * share:.2f} % of the instances, those whose two highest scores nearly tie, "
            "carry half of the squared slope; the mean over instances tends to a constant, since a "
            "step of fixed height has the same area under its slope however steep it is."
        )
    return (
        "Argmax attention returns the value of one key. Move query or keys a little and the same "
        f"key wins: the output stays, its slope is 0 ({said(found['argmax-has-no-slope'])}). Only "
        "where two scores tie does it jump, and there it has no slope at all. The picked value "
        f"still moves the output ({said(found['argmax-values-have-one'])}).",
        "Softmax at temperature T is the smooth version; its slope is 1/(T√h) · Σ w (v − output) "
        "kᵀ. Cooling first makes the choice sharper "
        f"({said(found['cooling-first-helps'])}); then the losers' weights die like exp(−lead/T) "
        f"({said(found['then-it-vanishes'])}). That is the typical instance, not the mean "
        f"({said(found['the-mean-does-not-vanish'])}).{where}",
        "Straight-through computes the argmax forward and pretends backward that it was a softmax. "
        "Autograd then reports the softmax's slope, and finite differences of the same function "
        f"find none of it ({said(found['straight-through-disagrees'])}). Of softmax itself both "
        f"measurements agree ({said(found['softmax-agrees'])}).",
    )


def _learning(e: Evidence, found: Mapping[str, Claim], s: HardSettings) -> tuple[str, ...]:
    if not e.names():
        return ("No model ended.",)
    base = "; ".join(f"{words} {e.baseline(name):.3f}" for name, words in BASELINES.items())
    lines = "; ".join(f"{arm} {_accuracy(e, arm)}" for arm in e.names())
    return (
        f"The task: a row shows {s.pairs} pairs of a key and a value, then asks for one key; the "
        "answer is its value. Every row is new, so nothing can be learnt by heart: the item must "
        f"be found. Test accuracy, mean over seeds with its 95 % interval: {lines}. Without any "
        f"model: {base}.",
        f"Softmax learns it ({said(found['softmax-learns'])}); argmax stays behind "
        f"({said(found['argmax-falls-short'])}). What was tried against that: straight-through "
        f"({said(found['straight-through-learns'])}); training with softmax and reading with "
        f"argmax ({said(found['softmax-can-be-hardened'])}); cooling from T = 1 to "
        f"{s.anneal_to:g} while training ({said(found['annealing-learns'])}).{_points(found)}",
        f"Cold from the start, at T = {s.cold:g}, is another matter "
        f"({said(found['cold-from-the-start-is-worse'])}). Its gradient is not small: at the start "
        f"{_pull(e, COLD)} reaches the query map, against {_pull(e, SOFT)} with softmax at T = 1. "
        "But a few near-ties carry it, others in every batch "
        f"({said(found['cold-is-noisy'])}).",
    )


def _points(found: Mapping[str, Claim]) -> str:
    if found["straight-through-learns"].verdict != "holds":
        return ""
    return (
        " The made-up slope of straight-through points the right way here: raise the score of "
        "items whose value would have helped."
    )


def _pull(e: Evidence, arm: str) -> str:
    return f"{e.estimate(arm, 'gradient_query').value:.3g}"


def _accuracy(e: Evidence, arm: str) -> str:
    a = e.estimate(arm, "accuracy")
    return f"{a.value:.3f} [{a.low:.3f}, {a.high:.3f}]" if a.has_interval else f"{a.value:.3f}"


def _sideways(e: Evidence, found: Mapping[str, Claim]) -> tuple[str, ...]:
    if not len(e.best(HARD)) or not len(e.best(HARD_FIXED)):
        return ("The arms with argmax did not end.",)
    return (
        "“Argmax attention cannot be trained”: that is about the query and key maps "
        f"({said(found['argmax-maps-stay'])}). With the embeddings held fixed nothing else can "
        f"move the choice ({said(found['argmax-routing-stays'])}), and the accuracy is what a "
        f"random choice allows ({said(found['values-learn-the-rest'])}).",
        _drift(e, found),
    )


def _drift(e: Evidence, found: Mapping[str, Claim]) -> str:
    drift, harder = found["argmax-drifts-sideways"], found["errors-push-harder"]
    start = (
        "Of the layer as a whole it is another matter. Keys and values are computed from the same "
        "embeddings, and the embeddings of picked items do get a gradient, through their values; "
        "it moves their keys as a side effect. That more items are found after training "
        f"({said(drift)})"
    )
    if drift.verdict != "holds":
        return f"{start} is not settled here."
    before, after = (e.estimate(HARD, name).value for name in ("found_start", "found"))
    words = (
        f"{start} is therefore no contradiction: {before:.3f} of them before, {after:.3f} after, "
    )
    words += "and no gradient aimed at the right item. "
    if harder.verdict != "holds":
        return f"{words}How they are found is open ({said(harder)})."
    return (
        f"{words}A reading that fits: an item picked in error is pushed harder than one picked "
        f"rightly ({harder.estimate.value:.2f} times), so wrong choices are shaken loose and right "
        "ones stay. That would be a slow random search, not a descent."
    )


def _worst(e: Evidence) -> str:
    found = e.slopes.column("formula_gap")
    return f"{found.max():.1e}" if found.size else "an unknown part"


def _measured(e: Evidence, s: HardSettings) -> tuple[str, ...]:
    chosen = "; ".join(
        f"{arm} {e.best(arm).rows[0]['rate']:g}" for arm in e.names() if len(e.best(arm))
    )
    return (
        f"Slopes are norms of Jacobians, of {s.instances} random instances a set "
        f"({s.instance_keys} keys in {s.instance_dim} dimensions, all entries N(0, 1)), by "
        "autograd through the parts that the models are built from, and by central differences "
        f"of the forward pass; {s.many:,} more instances a set by the formula, for median and "
        f"mean. Formula and autograd differ by {_worst(e)} of the slope at most.",
        "Every arm starts from the same weights and sees the same rows at a seed, and has its own "
        f"learning rate, the best of {', '.join(f'{r:g}' for r in s.rates)} on dev rows"
        + (f": {chosen}." if chosen else ".")
        + _at_the_edge(e, s)
        + " Accuracy is measured on other rows. No weight decay, which would shrink even maps "
        "that get no gradient.",
    )


def _at_the_edge(e: Evidence, s: HardSettings) -> str:
    """An arm that is best at the largest or smallest rate might do better beyond it."""
    ends = {min(s.rates), max(s.rates)}
    arms = [
        arm
        for arm in (SOFT, ANNEALED, COLD, THROUGH, HARD)  # the others cannot learn more
        if len(e.best(arm))
        and e.best(arm).rows[0]["rate"] in ends
        and e.estimate(arm, "accuracy").value < LEARNT
    ]
    if not arms or len(s.rates) < 2:
        return ""
    return f" At an end of this range, so perhaps better beyond it: {', '.join(arms)}."
