"""What it means, from the numbers: the table, what is real in it, cost, line ends, samples."""

import json
import math
from collections.abc import Mapping

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.measure.intervals import Estimate
from attnlab.studies.distillation.claims import PAIRS, REPORTED
from attnlab.studies.distillation.evidence import KINDS, LABELS, Arms, real
from attnlab.studies.distillation.settings import TRAINED, DistilSettings

CHOSEN = {
    "best": "Scored are the weights with the lowest loss on people's summaries of the dev "
    "articles, the same rule for every arm; the test articles choose nothing.",
    "last": "The last weights are used: nothing is chosen on any split.",
}
DIVERGENCES = {"forward": "forward KL", "reverse": "reverse KL", "jsd": "Jensen–Shannon"}
Grid = tuple[tuple[str, ...], ...]
ARTICLE = 240  # characters of an article that are shown


def sections(arms: Arms, found: Mapping[str, Claim], s: DistilSettings) -> list[Section]:
    """In the order of the report."""
    if not arms.names():
        return []
    made = [
        Section("ROUGE of every arm", _table(arms), _scores(arms)),
        Section("Which differences are real", _differences(arms), _compared(arms)),
        Section("What it means", _meaning(arms, found, s)),
        Section("What it cost", _cost(arms)),
        Section("Lsum and line ends", _line_ends(arms, found)),
        Section("How it was done", _how(arms, s)),
        Section("What they write", _samples(arms, s)),
    ]
    return [section for section in made if not section.empty]


def _scores(arms: Arms) -> Grid:
    rows = []
    for arm in arms.names():
        seeds = len(arms.rows(arm))
        n = f", {seeds} seeds" if arms.seeded(arm) and seeds > 1 else ""
        values = (_shown(arms.estimate(arm, kind)) for kind in KINDS)
        reported = "/".join(f"{v:.3f}" for v in REPORTED.get(arm, {}).values())
        rows.append((f"{LABELS[arm]}{n}", *values, reported))
    order = "/".join(kind.removeprefix("ROUGE-") for kind in KINDS.values())
    return (("arm", *KINDS.values(), f"reported {order}"), *rows)


def _table(arms: Arms) -> tuple[str, ...]:
    return (
        f"F by {_variant(arms)}, each with its 95 % interval. Reported figures are of another "
        "teacher, another student and other articles: not comparable.",
    )


def _compared(arms: Arms) -> Grid:
    """Every pair in all four columns; a word says whether it is a result."""
    here = set(arms.names())
    rows = [
        (
            f"{LABELS[one]} − {LABELS[other]}",
            *(_signed(arms.difference(one, other, kind)) for kind in KINDS),
        )
        for _, one, other, _ in PAIRS
        if {one, other} <= here
    ]
    return (("difference", *KINDS.values()), *rows)


def _differences(arms: Arms) -> tuple[str, ...]:
    if len(_compared(arms)) < 2:
        return ()
    return (
        "Differences of the same articles, with 95 % intervals. (real): the interval leaves "
        "0 out and rests on at least three seeds, or on the articles alone where nothing was "
        "trained; everything else is not a result. Intervals here are not corrected for being "
        "many; the verdicts above are (audit seeds-and-interval).",
    )


def _meaning(arms: Arms, found: Mapping[str, Claim], s: DistilSettings) -> tuple[str, ...]:
    lines = []
    if "texts-help" in found:
        others = "; ".join(
            f"{words}: {found[name].verdict}"
            for name, words in (
                ("logits-help", "on its logits"),
                ("people-help", "on people's summaries"),
                ("people-or-texts", "people's above the teacher's"),
                ("logits-or-texts", "logits above texts"),
            )
            if name in found
        )
        lines.append(
            "Does the student learn from its teacher? On its texts: "
            f"{found['texts-help'].verdict} ({found['texts-help'].why}). {others.capitalize()}."
        )
    if "teacher-best" in found:
        claim = found["teacher-best"]
        lines.append(
            f"Is the teacher best in every column? {claim.verdict.capitalize()}: {claim.quantity}, "
            f"{_shown(claim.estimate, signed=True)}. It was reported to be best, and was not in "
            "its own Lsum column."
        )
    lead = arms.first("lead")
    if lead is not None:
        reads = "; ".join(
            f"{LABELS[arm]} {arms.metric(arm, 'words'):.0f} words, "
            f"{arms.metric(arm, 'finished'):.0%} ended by the model"
            for arm in arms.names()
            if arm != "lead"
        )
        lines.append(
            "F rewards a text of the reference's length: people's summaries have "
            f"{lead['reference_words']:.0f} words in {lead['reference_sentences']:.1f} sentences, "
            f"the lead has {lead['words']:.0f}; {reads}."
        )
    if s.seeds < 3:
        lines.append(
            f"{s.seeds} {'seed is' if s.seeds == 1 else 'seeds are'} not enough to tell training "
            "from luck: what compares a trained arm is not a result here, whatever its interval."
        )
    return tuple(lines)


def _cost(arms: Arms) -> tuple[str, ...]:
    lines = []
    for arm in arms.names():
        row = arms.first(arm)
        if row is None or row.get("parameters") is None:
            lines.append(f"{LABELS[arm]}: no model, no time.")
            continue
        said = [f"{row['parameters']:,} parameters, {row['layers']} layers"]
        for name, words in (
            ("train_seconds", "training"),
            ("teacher_text_seconds", "the teacher's texts, written once for all"),
            ("generate_seconds", "writing the test summaries"),
        ):
            seconds = arms.cost(arm, name)
            if math.isfinite(seconds):
                said.append(f"{seconds:,.0f} s {words}")
        nll = arms.metric(arm, "test_nll")
        said.append(f"{nll:.2f} nats a token on people's test summaries")
        lines.append(f"{LABELS[arm]}: {', '.join(said)}.")
    return tuple(lines)


def _line_ends(arms: Arms, found: Mapping[str, Claim]) -> tuple[str, ...]:
    if "line-ends" not in found:
        return ()
    gain, turned, other = (found[n] for n in ("line-ends", "turned-round", "not-by-sentence"))
    turn = (
        "That is how a model can be best in ROUGE-1, -2 and -L and second in Lsum, as in the "
        "reported table."
        if turned.verdict == "holds" and other.verdict == "fails"
        else "In the reported table the teacher is best in ROUGE-1, -2 and -L and second in Lsum."
    )
    own = "; ".join(
        f"{LABELS[arm]} L {arms.metric(arm, 'rougeL'):.3f}, Lsum by newline "
        f"{arms.metric(arm, 'newline'):.3f}, by sentence {arms.metric(arm, 'rougeLsum'):.3f} "
        f"({arms.metric(arm, 'line_ends'):.0%} of its texts have line ends)"
        for arm in arms.names()
        if arm != "lead"
    )
    return (
        "ROUGE-Lsum compares sentence by sentence, and the package takes a line for a sentence: a "
        "text without line ends has Lsum = L. On summaries of several sentences, no model "
        f"involved, line ends alone are worth {_shown(gain.estimate, signed=True)}; three "
        "sentences with line ends against four without, the same people's summaries: "
        f"{_shown(turned.estimate, signed=True)} by newline ({turned.verdict}), "
        f"{_shown(other.estimate, signed=True)} by sentence ({other.verdict}). {turn}",
        f"The arms of this run: {own}." if own else "",
    )


def _how(arms: Arms, s: DistilSettings) -> tuple[str, ...]:
    student = arms.first("untuned") or arms.first("text")
    name = student.get("model") if student is not None else "the student"
    trained = [arm for arm in arms.names() if arm in TRAINED]
    lines = [
        f"Teacher: {s.teacher}. Student: {name}, begun from "
        f"{'its own weights' if s.student else f'{s.init} weights'}. Data: {s.data}, articles cut "
        f"to {s.article_tokens} tokens, summaries to {s.summary_tokens}; train, dev and test by "
        f"the hash of the article. Every model reads the same instruction, “{s.instruction}”, by "
        "its own chat template where it has one, and writes greedily.",
    ]
    if trained:
        lines.append(
            f"Training: {s.epochs} epochs of batches of {s.batch}, AdamW with peak "
            f"{s.learning_rate:g}; only the summary and its end are scored, and a summary that "
            f"was cut has no end. {CHOSEN[s.weights]} The seed changes the order of the articles"
            f"{' and the first weights' if s.init == 'random' and not s.student else ''}. On "
            f"logits: {DIVERGENCES[s.divergence]} at temperature {s.temperature:g}, at the "
            f"positions of {'the teacher' if s.logits_on == 'teacher' else 'people'}'s texts."
        )
    lines.append(
        "What the teacher read before cannot be checked here: where articles and summaries were "
        "part of its pretraining, its scores and those of a student made of it are too high."
    )
    return tuple(lines)


def _samples(arms: Arms, s: DistilSettings) -> tuple[str, ...]:
    lead = arms.first("lead")
    if lead is None or not s.shown:
        return ()
    people = json.loads(lead.documents["references.json"])
    articles = json.loads(lead.documents["articles.json"])
    lines = []
    for number, article in enumerate(articles):
        begin = article[:ARTICLE] + ("…" if len(article) > ARTICLE else "")
        lines.append(f"{number + 1}. The article: “{begin}” People: “{people[number]}”")
        for arm in arms.names():
            row = arms.first(arm)
            if row is not None and number < len(row.samples):
                lines.append(f"{LABELS[arm]}: “{row.samples[number] or '(nothing)'}”")
    return tuple(lines)


def _variant(arms: Arms) -> str:
    lead = arms.first("lead")
    return str(lead["rouge_variant"]) if lead is not None else "rouge-score"


def _shown(e: Estimate, signed: bool = False) -> str:
    sign = "+" if signed else ""
    ends = f" [{e.low:{sign}.3f}, {e.high:{sign}.3f}]" if e.has_interval else ""
    return f"{e.value:{sign}.3f}{ends}".replace("-", "−")


def _signed(e: Estimate) -> str:
    return f"{_shown(e, signed=True)}{' (real)' if real(e) else ''}"
