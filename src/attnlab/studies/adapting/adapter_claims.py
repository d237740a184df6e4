"""What may be concluded about methods, and the words around it."""

import math
from collections.abc import Sequence

from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.study import Section
from attnlab.lab.table import Row
from attnlab.measure.intervals import wilson
from attnlab.report.text import counted, number
from attnlab.studies.adapting.checks import alive, first_line, is_constant
from attnlab.studies.adapting.evidence import Runs, percent
from attnlab.studies.adapting.settings import AdapterSettings, rate_text

NEAR = 0.05
COSTS = {"milliseconds_a_step": "milliseconds a step", "gpu_peak_mb": "peak of GPU memory (MB)"}
TASKS = {"texts": "sentiment", "pairs": "question and passage"}
REPORTED = {"full": 0.9, "head": 0.6, "prefix": 0.8}
COURSE = "course report: another encoder, consistent with ten examples"
LABELS = {
    "full": "all of it",
    "head": "head only",
    "prefix": "prefix at the input",
    "prefix-layers": "prefix in every layer",
    "lora": "LoRA",
}


def claims(runs: Runs, s: AdapterSettings) -> list[Claim]:
    """A task at a time: each method against full, and full against the further encoders."""
    found = []
    for task in TASKS:
        if not runs.rows(task=task, arm="full"):
            continue
        found.append(_beats(runs, task))
        found += [
            _behind(runs, task, arm)
            for arm in s.methods
            if arm != "full" and runs.rows(task=task, arm=arm)
        ]
        found += [
            _pretraining(runs, task, name)
            for name in s.encoders
            if runs.rows(task=task, arm=f"full, {name}")
        ]
    return [*found, alive(runs.rows(), lambda row: TASKS[row["task"]])] if found else []


def _label(arm: str) -> str:
    """The words for a method, or for all of another encoder."""
    return LABELS.get(arm) or f"{LABELS['full']}, {arm.removeprefix('full, ')}"


def _beats(runs: Runs, task: str) -> Claim:
    where = {"task": task, "arm": "full"}
    share = runs.mean("majority", **where)
    return judge(
        f"{task}-full-beats-majority",
        f"{TASKS[task]}: fine-tuned whole, the encoder beats the most frequent answer",
        runs.accuracy(**where),
        above=share,
        quantity="test accuracy",
        trials=runs.ids(**where),
        runs=[v - share for v in runs.values("accuracy", **where).values()],
    )


def _behind(runs: Runs, task: str, arm: str) -> Claim:
    gap = runs.test_gap({"task": task, "arm": "full"}, {"task": task, "arm": arm})
    told = REPORTED.get(arm)
    return judge(
        f"{task}-{arm}-near-full",
        f"{TASKS[task]}: {LABELS[arm]} comes within five points of training all of it",
        gap,
        below=NEAR,
        quantity=f"test accuracy, full − {arm}",
        reported=None
        if told is None
        else Reported(REPORTED["full"] - told, COURSE, comparable=False, note=f"0.9 − {told:g}"),
        trials=[*runs.ids(task=task, arm="full"), *runs.ids(task=task, arm=arm)],
    )


def _pretraining(runs: Runs, task: str, name: str) -> Claim:
    pair = ({"task": task, "arm": "full"}, {"task": task, "arm": f"full, {name}"})
    gaps = runs.gaps("accuracy", *pair)
    words = (
        "weights from pretraining are worth more than random ones of the same architecture"
        if name == "random"
        else f"the encoder does better than {name}"
    )
    return judge(
        f"{task}-beats-{name.replace('/', '-')}",
        f"{TASKS[task]}: {words}",
        runs.test_gap(*pair),
        above=0.0,
        quantity=f"test accuracy, full − full, {name}",
        trials=[*runs.ids(**pair[0]), *runs.ids(**pair[1])],
        runs=gaps,
    )


def answer(claims: Sequence[Claim]) -> str:
    """The cheapest method that stays near full, and the worth of pretraining."""
    found = {c.name: c for c in claims}
    near = [
        arm
        for arm in ("head", "lora", "prefix", "prefix-layers")
        if (c := found.get(f"texts-{arm}-near-full")) and c.verdict == "holds"
    ]
    far = [
        arm
        for arm in ("head", "lora", "prefix", "prefix-layers")
        if (c := found.get(f"texts-{arm}-near-full")) and c.verdict == "fails"
    ]
    worth = found.get("texts-beats-random")
    if not near and not far:
        return ""
    first = f"within five points of all of it: {_names(near)}" if near else "nothing comes near"
    first += f"; further behind: {_names(far)}" if far else ""
    if worth is None or not math.isfinite(worth.estimate.value):
        return first_line(claims, f"On sentiment, {first}.")
    gain = f"{100 * worth.estimate.value:.0f} points"
    known = {
        "holds": f"pretraining is worth {gain}",
        "fails": "pretraining is worth nothing",
        "undecided": f"pretraining is worth {gain}, which is not settled",
    }
    return first_line(claims, f"On sentiment, {first}; {known[worth.verdict]}.")


def _names(arms: Sequence[str]) -> str:
    return ", ".join(LABELS[arm] for arm in arms)


def sections(runs: Runs, s: AdapterSettings) -> list[Section]:
    """A table for each task, and what was reported."""
    made = []
    for task, words in TASKS.items():
        table = _table(runs, task, _arms(s))
        if len(table) > 1:
            rows = runs.rows(task=task)
            base = (
                f"The most frequent answer gets {100 * rows[0]['majority']:.1f} % of the "
                f"{rows[0]['tested']:,} test rows."
            )
            few = ()
            if task == "pairs" and (s.pair_rows or s.pair_seeds < 3):
                seeds = counted(s.pair_seeds, "seed")
                few = (
                    f"{s.pair_rows or 'All'} rows, {seeds}: not a result, a demonstration that "
                    "every method runs.",
                )
            made.append(Section(f"Every method: {words}", (*few, base), table))
    if made:
        made.append(Section("Beside what was reported", _reported(s)))
    return made


def _reported(s: AdapterSettings) -> tuple[str, ...]:
    tenths = wilson(8, 10)
    report = (
        "Reported were 0.9 for full fine-tuning, 0.6 for the head, 0.8 for a prefix of 128, each "
        "the same on validation and test. Tenths that agree on two splits are what ten examples "
        f"give, and of ten examples 8 right mean {percent(tenths)}: all three lie within. Numbers "
        "that learn: head 2d + 2; prefix at the input 130d + 2; in every layer (256L + 2)d + 2, at "
        "length 128."
    )
    contrastive = (
        "all-MiniLM-L6-v2 was tuned on pairs of sentences after its pretraining, so that the mean "
        "of its token vectors sums up a text. What pretraining is worth here includes that."
    )
    return (report, contrastive) if s.model == "minilm-l6" else (report,)


def _arms(s: AdapterSettings) -> list[str]:
    return [*s.methods, *(f"full, {name}" for name in s.encoders)]


def _table(runs: Runs, task: str, arms: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """A row a method; costs that nobody measured have no column."""
    kinds = [kind for kind in COSTS if any(kind in row.cost for row in runs.rows(task=task))]
    head = (
        "what learns",
        "numbers",
        "test accuracy",
        "collapsed",
        "rates chosen, one a seed",
        *(COSTS[kind] for kind in kinds),
    )
    body = []
    for arm in arms:
        rows = runs.rows(task=task, arm=arm)
        if rows:
            share = percent(runs.accuracy(task=task, arm=arm))
            rates = ", ".join(rate_text(row["rate"]) for row in rows)
            bad = sum(is_constant(row) for row in rows)
            constant = f"{bad} of {len(rows)}" if bad else "none"
            costs = (number(float(f"{mean_cost(rows, kind):.3g}")) for kind in kinds)
            numbers = f"{rows[0]['trained']:,}"
            body.append((_label(arm), numbers, share, constant, rates, *costs))
    return (head, *body)


def mean_cost(rows: Sequence[Row], kind: str) -> float:
    """Over the trials in which it was measured; NaN where it was in none."""
    values = [row.cost[kind] for row in rows if kind in row.cost]
    return sum(values) / len(values) if values else math.nan
