"""What was checked so that nobody is fooled by an accuracy."""

from attnlab.audit.checks.attention_worth import attention_worth
from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.collapse import MOST
from attnlab.audit.checks.collapse import NAME as COLLAPSE
from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.finding import Finding
from attnlab.lab.table import Table
from attnlab.studies.hard_attention.arms import OFF, SOFT
from attnlab.studies.hard_attention.claims import LEARNT, claims
from attnlab.studies.hard_attention.evidence import BASELINES, Evidence
from attnlab.studies.hard_attention.settings import HardSettings


def audits(table: Table, settings: HardSettings) -> list[Finding]:
    """Over all models of the run."""
    e, found = Evidence(table.done()), claims(table, settings)
    decided = {c.name: c.runs for c in found if c.runs and c.verdict != "undecided"}
    known = {words: e.baseline(name) for name, words in BASELINES.items()}
    known = {words: value for words, value in known.items() if value == value}
    trained = e.estimate(OFF, "accuracy")
    if known and trained.n:
        known["the model with attention off"] = trained.value
    return [
        seeds_and_interval(decided),
        baselines(e.estimate(SOFT, "accuracy"), known, ceiling=1.0),
        attention_worth(e.differences((OFF, "nll"), (SOFT, "nll")), _log_perplexities(e)),
        _no_constant(e),
        small_sample(_counts(e, settings), 1 - LEARNT),
    ]


def _log_perplexities(e: Evidence) -> dict[str, float]:
    """Claims that compare two kinds of attention, as log ratios of the answers' perplexities."""
    from attnlab.studies.hard_attention.arms import COLD, HARD

    pairs = {"argmax-falls-short": HARD, "cold-from-the-start-is-worse": COLD}
    sizes = {name: e.differences((arm, "nll"), (SOFT, "nll")) for name, arm in pairs.items()}
    return {name: sum(runs) / len(runs) for name, runs in sizes.items() if runs}


def _no_constant(e: Evidence) -> Finding:
    """`collapse` ran on every model's test answers; one model that answers a constant fails it."""
    rows = e.table.where(kind="model").rows
    if not rows:
        return Finding(COLLAPSE, "not-applicable", None, MOST, "no model was trained")
    bad = [row for row in rows if str(row.get("collapse")).startswith("fail")]
    evidence = {"models": len(rows), "failing": [row.id for row in bad]}
    if bad:
        words = str(bad[0]["collapse"]).removeprefix("fail: ")
        why = f"{len(bad)} of {len(rows)} models, {bad[0]['arm']} first: {words}"
        return Finding(COLLAPSE, "fail", len(bad), 0, why, evidence)
    why = f"none of the {len(rows)} models answers a constant, not even where it finds nothing"
    return Finding(COLLAPSE, "pass", 0, 0, why, evidence)


def _counts(e: Evidence, settings: HardSettings) -> dict[str, tuple[int, int]]:
    """Right answers and test rows of each arm's least certain model."""
    found: dict[str, tuple[int, int]] = {}
    for arm in e.names():
        share = min(e.values(arm, "accuracy").values(), key=lambda a: abs(a - 0.5), default=None)
        if share is not None:
            found[arm] = (round(share * settings.scored), settings.scored)
    return found
