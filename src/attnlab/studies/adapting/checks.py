"""The audits of a run: what each trial said of itself, and what is judged over all of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate

TOLD = ("split-overlap", "freeze", "collapse", "baselines", "adapter-effect", "metric-invariance")
UNDERMINING = ("split-overlap", "freeze", "adapter-effect", "metric-invariance")
SHOWN = 4  # arms that are named in the first line
Declared = Callable[[Row, str], bool | None]


def nothing_declared(row: Row, name: str) -> bool | None:
    """Every model must pass every audit."""
    return False


def findings(
    table: Table, claims: Sequence[Claim], declared: Declared = nothing_declared
) -> list[Finding]:
    """One finding an audit. `declared` says of a trial that it must fail one; None: it may."""
    decided = {c.name: c.runs for c in claims if any(c.runs) and c.verdict != "undecided"}
    return [seeds_and_interval(decided), *(_told(name, table, claims, declared) for name in TOLD)]


def enough_rows(rows: Mapping[str, Sequence[Row]], effect: float) -> Finding:
    """small-sample: are the test rows enough for the difference that is claimed?

    Seeds answer the same rows, so the rows of one seed count.
    """
    counts = {
        name: (round(sum(int(r["right"]) for r in found) / len(found)), int(found[0]["tested"]))
        for name, found in rows.items()
        if found
    }
    return small_sample(counts, effect if effect == effect else 0.0)


def _told(name: str, table: Table, claims: Sequence[Claim], declared: Declared) -> Finding:
    said = {
        row.id: (row, str(row[f"audit_{name}"]))
        for row in table
        if row.metrics.get(f"audit_{name}") is not None
    }
    if not said or all(words == "not-applicable" for _, words in said.values()):
        return Finding(name, "not-applicable", None, 0, "it applies to no model")
    failing = {key for key, (_, words) in said.items() if words.startswith("fail")}
    wanted = {key: declared(row, name) for key, (row, _) in said.items()}
    wrong = [key for key in said if wanted[key] is not None and (key in failing) != wanted[key]]
    evidence: dict[str, Any] = {"models": len(said), "failing": sorted(failing)}
    if wrong:
        row, words = said[wrong[0]]
        what = words.removeprefix("fail: ") if wrong[0] in failing else "it passes, and must not"
        hit = tuple(c.name for c in claims if set(wrong) & set(c.trials))
        hit = hit if name in UNDERMINING else ()
        why = f"{len(wrong)} of {len(said)} models, {label(row)} first: {what}"
        return Finding(name, "fail", len(wrong), 0, why, evidence, hit)
    why = f"{len(said) - len(failing)} of {len(said)} models pass"
    if failing:
        row, words = said[min(failing)]
        how = "as it must be shown to" if wanted[row.id] else "which is told"
        why += f"; {label(row)} fails, {how}: {words.removeprefix('fail: ')}"
    return Finding(name, "pass", 0, 0, why, evidence)


ALIVE = "no-collapse"


def alive(rows: Sequence[Row], named: Callable[[Row], str] = lambda row: str(row["arm"])) -> Claim:
    """Whether any of the models that dev chose answers as a constant would.

    `named` says in words what a trial trained.
    """
    bad = [row for row in rows if is_constant(row)]
    count = Estimate(float(len(bad)), n=len(rows), method="models counted", exact=True)
    times, of = Counter(named(row) for row in bad), Counter(named(row) for row in rows)
    which = ", ".join(f"{name} ({n} of {of[name]})" for name, n in sorted(times.items())[:SHOWN])
    which += f" and {len(times) - SHOWN} more" if len(times) > SHOWN else ""
    why = (
        f"{len(bad)} of {len(rows)} models answer as a constant: {which}"
        if bad
        else (f"none of {len(rows)} models does")
    )
    statement = "The models that dev chose do not answer as a constant would"
    verdict = "fails" if bad else "holds"
    ids = tuple(row.id for row in rows)
    return Claim(ALIVE, statement, verdict, count, why, "models collapsed", trials=ids)


def is_constant(row: Row) -> bool:
    """Whether the audit collapse found the model of this trial to answer as a constant."""
    return str(row.get("audit_collapse")).startswith("fail")


def first_line(claims: Sequence[Claim], rest: str) -> str:
    """A collapse comes first."""
    found = next((c for c in claims if c.name == ALIVE and c.verdict == "fails"), None)
    return rest if found is None else f"Collapsed: {found.why}. {rest}"


def label(row: Row) -> str:
    """What a trial is, in a few words."""
    return f"{row.get('arm')}, seed {row.seed}"
