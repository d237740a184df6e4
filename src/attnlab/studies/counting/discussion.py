"""The answer and the interpretation, written from verdicts and numbers."""

from collections.abc import Mapping, Sequence

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.report.text import with_interval
from attnlab.studies.counting.claims import KINDS
from attnlab.studies.counting.evidence import LABELS, OWN, PHASES, Starts
from attnlab.studies.counting.model import TERMS
from attnlab.studies.counting.settings import CountingSettings


def answer(claims: Sequence[Claim]) -> str:
    """Whether both exist, then which of them lasts."""
    found = {c.name: c for c in claims}
    solved = [found[f"{arm}-solves"] for arm in KINDS]
    if any(c.verdict != "holds" for c in solved):
        first = next(c for c in solved if c.verdict != "holds")
        start = "No" if first.verdict == "fails" else "Not settled"
        return f"{start}: {first.name} ({first.why})."
    shares = " and ".join(
        f"{100 * c.estimate.value:.1f} % by {kind}"
        for c, kind in zip(solved, KINDS.values(), strict=True)
    )
    lasts = {arm: found[f"strong-keeps-{arm}"].verdict for arm in KINDS}
    words = {
        "holds": "the {} solution stays",
        "fails": "the {} solution is left",
        "undecided": "whether the {} solution stays is not settled",
    }
    told = ", ".join(words[verdict].format(arm) for arm, verdict in lasts.items())
    return f"Yes: {shares} are counted right; once everything is free and trained on, {told}."


def discussion(starts: Starts, claims: Sequence[Claim], s: CountingSettings) -> list[Section]:
    """Two solutions; what they are worth; what becomes of them; how it was done."""
    if not starts.names():
        return [Section("What was found", ("No model ended.",))]
    found = {c.name: c for c in claims}
    return [
        Section("Two ways to count", _ways(starts, s)),
        Section("What becomes of them when all is free", _freed(starts, found)),
        Section("How it was measured, and what differs from the paper", _measured(s)),
    ]


def _share(starts: Starts, arm: str, metric: str) -> str:
    e = starts.estimate(arm, metric)
    return with_interval(e.value, [e.low, e.high] if e.has_interval else None)


def _ways(starts: Starts, s: CountingSettings) -> tuple[str, ...]:
    got = "; ".join(
        f"{LABELS[arm]} {_share(starts, arm, 'first_accuracy')}" for arm in starts.names()
    )
    return (
        f"A row has {s.length} tokens out of {s.tokens}; at every place the model says how often "
        "the token that stands there stands in the row. Test accuracy, mean over seeds with its "
        f"95 % interval: {got}. Always the most frequent answer: {starts.majority():.3f}.",
        "By tokens: equal tokens weigh alike and otherwise than the rest, so the share of its own "
        "token in what a place receives tells their number. By places: every place mixes the "
        "whole row in the same way, whatever stands there, with a weight of its own for itself; "
        "the mixture holds all counts at once, and the read-out finds the token that is its own. "
        "The attention maps show both: one follows the letters, the other does not.",
        "Mean weight of a place on itself, on an equal token elsewhere, on another token: "
        + "; ".join(f"{LABELS[arm]} {_looks(starts, arm)}" for arm in starts.names())
        + ". By places the last two are equal. By tokens a place weighs itself as any equal token "
        "of its row (the means differ because equal tokens share their weight). A start that is "
        "held nowhere may tell all three apart, which needs places and tokens together.",
    )


def _looks(starts: Starts, arm: str) -> str:
    kinds = ("itself", "equal", "other")
    return ", ".join(f"{starts.estimate(arm, f'first_on_{kind}').value:.3f}" for kind in kinds)


def _freed(starts: Starts, found: Mapping[str, Claim]) -> tuple[str, ...]:
    lines = [
        f"{LABELS[arm]}, {PHASES[phase]}: accuracy {_share(starts, arm, f'{phase}_accuracy')}, "
        f"by {KINDS[arm]} alone {_share(starts, arm, f'{phase}_{OWN[arm]}')}; the scores vary "
        + ", ".join(
            f"{100 * starts.estimate(arm, f'{phase}_share_{term}').value:.1f} % with {term}"
            for term in TERMS
        )
        + (
            f"; weights moved by {_share(starts, arm, f'{phase}_moved')} of their size."
            if phase != "first"
            else "."
        )
        for arm in KINDS
        for phase in starts.phases(arm)
    ]
    told = "; ".join(
        f"{name}: {found[name].verdict} ({found[name].why})"
        for name in (
            "gentle-is-no-trial",
            "strong-keeps-positional",
            "strong-keeps-semantic",
            "free-start-mixes",
        )
    )
    return (*lines, f"What follows: {told}.")


def _measured(s: CountingSettings) -> tuple[str, ...]:
    return (
        "The model is of the published kind: one attention layer with one head and no way around "
        "it, a norm, a read-out with one hidden layer. Tokens start in one half of the "
        "coordinates and places in the other; a start holds the query and key maps at 0 on one "
        "half. Values always see both. A score is then a sum of four terms (token and token, token "
        "and place, place and token, place and place), so that the part of places or of tokens can "
        "be taken alone, exactly.",
        f"Rows are drawn anew for every one of {s.steps:,} steps of {s.batch} rows; the paper has "
        "35,000 fixed rows and 200 epochs. The paper frees both starts and trains on by SGD at "
        "rate 0.001; here, from the same weights, also with the training that made the start. That "
        "a start is of one kind as trained is so by construction; what it becomes when freed is "
        "not.",
    )
