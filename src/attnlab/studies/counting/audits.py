"""What was checked so that nobody is fooled by an accuracy or a map."""

from attnlab.audit.checks.attention_worth import attention_worth
from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.finding import Finding
from attnlab.studies.counting.claims import KINDS, LOST, claims
from attnlab.studies.counting.evidence import LABELS, Starts
from attnlab.studies.counting.settings import CountingSettings


def audits(starts: Starts, s: CountingSettings) -> list[Finding]:
    """Over all models of the run."""
    found = claims(starts)
    decided = {c.name: c.runs for c in found if c.runs and c.verdict != "undecided"}
    worse = min(KINDS, key=lambda arm: starts.estimate(arm, "first_accuracy").value)
    return [
        seeds_and_interval(decided),
        baselines(starts.estimate(worse, "first_accuracy"), _known(starts, s), ceiling=1.0),
        attention_worth(starts.gaps(("off", "first_nll"), (worse, "first_nll")), {}),
        _held(starts),
        _no_constant(starts),
        small_sample(_counts(starts, s), LOST),
    ]


def _known(starts: Starts, s: CountingSettings) -> dict[str, float]:
    """What needs no attention; nothing where no model ended."""
    known = {
        "the most frequent answer": starts.majority(),
        "chance": 1 / s.length,
        "the model with attention off": starts.estimate("off", "first_accuracy").value,
    }
    return (
        {name: value for name, value in known.items() if value == value} if starts.names() else {}
    )


def _held(starts: Starts) -> Finding:
    """`freeze`: what a start holds at 0 was 0 to the last bit when its training ended."""
    rows = [row for arm in KINDS for row in starts.rows(arm)]
    if not rows:
        return Finding("freeze", "not-applicable", None, 0, "no start that holds anything ended")
    largest = max(float(row["held"]) for row in rows)
    evidence = {"models": len(rows)}
    if largest:
        why = f"an entry held at 0 is {largest:.2g} after training: the start is of no pure kind"
        undermined = tuple(f"{arm}-solves" for arm in KINDS)
        return Finding("freeze", "fail", largest, 0, why, evidence, undermined)
    return Finding(
        "freeze", "pass", 0, 0, f"what is held stays 0 in all {len(rows)} models", evidence
    )


def _no_constant(starts: Starts) -> Finding:
    """`collapse` of every model; the one without attention may answer a constant, and is told."""
    rows = [(arm, row) for arm in starts.names() for row in starts.rows(arm)]
    failing = [
        (arm, str(row["collapse"]))
        for arm, row in rows
        if str(row.get("collapse")).startswith("fail")
    ]
    wrong = [pair for pair in failing if pair[0] != "off"]
    evidence = {"models": len(rows), "failing": [arm for arm, _ in failing]}
    if not rows:
        return Finding("collapse", "not-applicable", None, 0, "no model was trained", evidence)
    if wrong:
        arm, said = wrong[0]
        why = f"{len(wrong)} models, {LABELS[arm]} first: {said.removeprefix('fail: ')}"
        return Finding("collapse", "fail", len(wrong), 0, why, evidence)
    why = f"none of the {len(rows) - len(failing)} models that can look answers a constant"
    if failing:
        why += f"; attention off, it does: {failing[0][1].removeprefix('fail: ')}"
    return Finding("collapse", "pass", 0, 0, why, evidence)


def _counts(starts: Starts, s: CountingSettings) -> dict[str, tuple[int, int]]:
    """Rows, not places: the places of a row are not independent."""
    found: dict[str, tuple[int, int]] = {}
    for arm in starts.names():
        share = min(
            starts.values(arm, "first_accuracy").values(), key=lambda a: abs(a - 0.5), default=None
        )
        if share is not None:
            found[LABELS[arm]] = (round(share * s.scored), s.scored)
    return found
