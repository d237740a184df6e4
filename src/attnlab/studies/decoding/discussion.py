"""What it means, from the numbers: the table, limits, curves, people, samples side by side."""

import json
from collections.abc import Mapping, Sequence

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.measure.intervals import Estimate
from attnlab.studies.decoding.claims import limits_row, nearness
from attnlab.studies.decoding.compared import Beside, axes, beside
from attnlab.studies.decoding.evidence import PEOPLE, Evidence
from attnlab.studies.decoding.labels import label

HEADS = {"holds": "it holds that", "fails": "it is not so that", "undecided": "open is whether"}
SHORT = {
    "colder-likelier": "texts get likelier as T falls",
    "hotter-diverse": "texts of one prompt differ more as T rises",
    "greedy-repeats": "greedy repeats itself more than sampling",
    "greedy-too-likely": "greedy texts are likelier than people's",
    "sampling-too-odd": "sampled ones are odder than people's",
}
FEW = 51  # prompts, below which curves and people are hardly told apart


def answer(found: Mapping[str, Claim]) -> str:
    """What holds, what fails and what is open, in one sentence; '' where nothing was measured."""
    repeats = found.get("greedy-repeats")
    if repeats is None or repeats.estimate.n == 0:
        return ""
    exact = [found[name].verdict == "holds" for name in ("limits-greedy", "limits-sampling")]
    said = ["all limits are exact" if all(exact) else "not every limit was found exact"]
    for verdict, words in HEADS.items():
        texts = [
            text for name, text in SHORT.items() if name in found and found[name].verdict == verdict
        ]
        if texts:
            said.append(f"{words} {', '.join(texts)}")
    sentence = "; ".join(said)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def sections(e: Evidence, found: Mapping[str, Claim]) -> list[Section]:
    """In the order of the report."""
    if not e.names():
        return []
    near = beside(e)
    made = [
        Section("Which strategy is best", _best(e, near)),
        Section("Every strategy", _table(e)),
        Section("Which differences are real", _differences(e)),
        Section("Beside people", _people(e, near)),
        Section("The limits", _limits(e, found)),
        Section("What this run cannot decide", _open(e, found)),
        Section("How it was done", _how(e)),
        Section("The first prompt, side by side", _samples(e)),
    ]
    return [section for section in made if section.paragraphs]


def _best(e: Evidence, near: Beside | None) -> tuple[str, ...]:
    first = (
        "Best for what? The likeliest text is not the best one: by perplexity alone a text that "
        "repeats itself wins. Where people went on from the same prompts, a strategy is good on a "
        "measure as far as its texts lie where people's lie, neither above nor below."
    )
    if near is None:
        return (first, "No people's texts are part of this run: nothing here says which is best.")
    each = "; ".join(
        f"in {axis.words} {label(near.nearest(axis.measure))} "
        f"({_shown(near.differences[near.nearest(axis.measure), axis.measure], signed=True)} "
        f"{axis.unit})"
        for axis in axes(e)
    )
    return (
        first,
        f"Nearest to people, {len(e.real())} prompts: {each}. {_verdict(near)} (Intervals "
        f"corrected for {len(near.differences)} comparisons. Not told apart is not the same: with "
        "more prompts smaller differences show.)",
        "What these measures do not see: sense. A model that predicts people well gives its own "
        "samples the perplexity of people's texts, however they wander; whether readers prefer a "
        "narrower choice is a question for readers.",
    )


def _verdict(near: Beside) -> str:
    """As far as the measures carry."""
    rest = near.not_told()
    if not rest:
        return "Every strategy is told from people by at least one measure: none is best."
    if len(rest) == 1:
        return (
            f"No measure tells {label(rest[0])} from people, and every other strategy is told "
            "from them by at least one."
        )
    return f"No measure tells these from people: {', '.join(map(label, rest))}; none is preferred."


def _table(e: Evidence) -> tuple[str, ...]:
    by = "the encoder" if nearness(e.s) == "judge" else "shared words"
    lines = [
        "Over all prompts, 95 % intervals from prompts drawn again. Perplexity under the model; "
        f"distinct-1/2/3 and self-BLEU of a prompt's {e.s.seeds} texts, in words; repetition: "
        f"share of a text's {e.s.repeat}-grams of words said before; length in tokens and share "
        "ended by the model; tokens equal to the greedy text's, until the first difference / at "
        f"all; nearness to the prompt by {by}: cosine above other prompts', and the share of "
        "other prompts less like the text (chance 0.5)."
    ]
    for arm in e.names():
        near = nearness(e.s)
        d = "/".join(f"{e.estimate(arm, f'distinct_{n}').value:.2f}" for n in (1, 2, 3))
        lines.append(
            f"{label(arm)}: perplexity {_shown(e.perplexity(arm), digits=2)}; distinct {d}; "
            f"self-BLEU {_shown(e.estimate(arm, 'self_bleu'))}; "
            f"repetition {_shown(e.estimate(arm, 'repetition'))}; "
            f"length {e.estimate(arm, 'tokens').value:.1f}, ended "
            f"{e.estimate(arm, 'ended').value:.0%}; greedy {_shown(e.estimate(arm, 'prefix'))} / "
            f"{_shown(e.estimate(arm, 'agreement'))}; "
            f"nearness {_shown(e.estimate(arm, f'margin_{near}'))}, "
            f"{e.estimate(arm, f'rank_{near}').value:.2f}."
        )
    return tuple(lines)


def _people(e: Evidence, near: Beside | None) -> tuple[str, ...]:
    if near is None:
        return ()
    names = "; ".join(f"{axis.words} ({axis.unit})" for axis in axes(e))
    own = "; ".join(_shown(e.estimate(PEOPLE, axis.measure, real=True)) for axis in axes(e))
    lines = [
        f"The first {e.s.human_tokens} tokens of {len(e.real())} texts ({e.s.human}), and the "
        f"{e.s.new_tokens} tokens people wrote next. Order: {names}. People: {own}, perplexity "
        f"{_shown(e.perplexity(PEOPLE, real=True), digits=2)}. Then each strategy minus people on "
        "the same prompts; (told): the corrected interval leaves 0 out."
    ]
    return (*lines, *_lines(e.names(), near, [axis.measure for axis in axes(e)], "told"))


def _differences(e: Evidence) -> tuple[str, ...]:
    """Every strategy minus plain sampling, which is the model's own distribution."""
    found, measures = beside(e, "sample"), axes(e, people=False)
    if found is None:
        return ()
    names = "; ".join(f"{axis.words} ({axis.unit})" for axis in measures)
    first = (
        f"Each strategy minus plain sampling, all prompts, the same draws. Order: {names}. "
        f"(real): the interval leaves 0 out after correction for {len(found.differences)} "
        "comparisons; everything else is not a result."
    )
    arms = [arm for arm in e.names() if arm != "sample"]
    return (first, *_lines(arms, found, [axis.measure for axis in measures], "real"))


def _lines(names: Sequence[str], found: Beside, measures: Sequence[str], mark: str) -> list[str]:
    """One line a strategy: its differences, those that are told apart marked."""
    lines = []
    for arm in names:
        said = "; ".join(
            _shown(found.differences[arm, m], signed=True)
            + (f" ({mark})" if found.told(arm, m) else "")
            for m in measures
        )
        lines.append(f"{label(arm)}: {said}.")
    return lines


def _limits(e: Evidence, found: Mapping[str, Claim]) -> tuple[str, ...]:
    row = limits_row(e)
    if row is None:
        return ()
    lines = []
    for name, anchor in (("limits-greedy", "greedy"), ("limits-sampling", "sample")):
        shares = "; ".join(
            f"{key.removeprefix(f'{anchor} = ')} {float(str(value)):.4g}"
            for key, value in row.metrics.items()
            if key.startswith(f"{anchor} =")
        )
        lines.append(
            f"{found[name].statement}: {found[name].verdict}, over {row[f'{anchor} tokens']:,} "
            f"tokens of {row['prompts']} prompts. Smallest share of equal tokens of a text: "
            f"{shares}."
        )
    gap = float(row["smallest_gap"])
    lines.append(
        f"Greedy needs one likeliest token: {row['ties']} exact ties were met (the lowest id would "
        f"have it), and the smallest lead of the likeliest over the second was {gap:.2g} in "
        "logits. At temperature T a token with lead g is missed with probability at most (|V| − 1) "
        "exp(−g / T), so T → 0 is greedy as soon as T is small beside that lead."
    )
    return tuple(lines)


def _open(e: Evidence, found: Mapping[str, Claim]) -> tuple[str, ...]:
    lines = [f"{c.statement}: open ({c.why})." for c in found.values() if c.verdict == "undecided"]
    real = len(e.real())
    if 0 < real < FEW:
        lines.append(
            f"{real} real texts of {e.s.new_tokens} tokens leave wide intervals beside people, and "
            "loops that need more room to show do not: the full scale has more of both."
        )
    lines.append(
        "Whether a text makes sense is read by nobody here; perplexity is the model's own opinion, "
        "and nearness to the prompt grows when a text repeats it. Whether the model has read the "
        "real texts in its training cannot be checked; if so, people's perplexity is too low."
    )
    return tuple(lines)


def _how(e: Evidence) -> tuple[str, ...]:
    s = e.s
    return (
        f"Model {s.model}, prompts continued as plain text, {s.new_tokens} tokens at most. A text "
        "is drawn from a stream named by seed, prompt and number, which strategies share: "
        "differences between them are not differences between draws. Filters come in the order "
        "repetition → temperature → top-k → top-p → min-p → typical; ties: the lowest id. "
        "Perplexity is before any filter and leaves the end of the text out.",
    )


def _samples(e: Evidence) -> tuple[str, ...]:
    rows = e.rows(e.names()[0])
    if not e.s.shown or not rows or "prompts.json" not in rows[0].documents:
        return ()
    lines = [f"“{json.loads(rows[0].documents['prompts.json'])[0]}”"]
    for arm in e.names():
        texts = dict.fromkeys(text.strip() for row in e.rows(arm) for text in row.samples)
        said = " | ".join(f"“{text or '(nothing)'}”" for text in list(texts)[: e.s.shown])
        lines.append(f"{label(arm)}: {said}")
    return tuple(lines)


def _shown(e: Estimate, signed: bool = False, digits: int = 3) -> str:
    """0.123 [0.100, 0.150]; what rounds to 0 has no minus."""

    def one(value: float) -> str:
        return f"{round(value, digits) + 0.0:{'+' if signed else ''}.{digits}f}"

    ends = f" [{one(e.low)}, {one(e.high)}]" if e.has_interval else ""
    return f"{one(e.value)}{ends}".replace("-", "−")
