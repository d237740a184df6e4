"""What audits said of single trials, stored row by row and summed up over a run.

A trial returns findings in its outcome (`Outcome(findings=[...])`). The lab stores each with its
number, threshold, verdict, sentence and evidence; `summarize` makes one finding per audit of them:

    fails           a trial fails that may not, or one passes that must fail
    passes          every other trial passes
    not applicable  the audit applies to no trial

A study declares exceptions as data: `may_fail = {"collapse": ["off"]}` (audit -> arms) for arms
whose failure is no news, `must_fail = {...}` for arms that show a fault and must be caught. An arm
may be a pattern: "rate *" stands for every arm that begins so, "*" for all.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, get_args

from attnlab.audit.finding import NOT_JUDGED, AuditVerdict, Finding
from attnlab.core.config import canonical_json
from attnlab.core.errors import IntegrityError
from attnlab.core.plural import counted
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table

VERDICTS: frozenset[str] = frozenset(get_args(AuditVerdict))
# these speak of the result itself, not of how it was measured: a failure leaves claims standing
ABOUT_RESULTS = frozenset(
    {"collapse", "baselines", "attention-worth", "seeds-and-interval", "grid-edge"}
)
Exceptions = Mapping[str, Collection[str]]  # audit -> arms


def stored_finding(f: Finding) -> tuple[Any, ...]:
    """The columns of the table `findings`, without trial and position; what a worker sends too."""
    evidence = canonical_json(dict(f.evidence))
    return (f.name, f.when, f.verdict, _finite(f.number), _finite(f.threshold), f.why, evidence)


def finding_of(columns: Sequence[Any], what: str) -> Finding:
    """The finding behind a row of the table `findings`; IntegrityError where it is none."""
    name, when, verdict, number, threshold, why, evidence = columns
    try:
        parsed = json.loads(evidence)
    except (ValueError, RecursionError, TypeError):
        parsed = None
    texts = all(isinstance(text, str) for text in (name, when, why))
    numbers = all(n is None or isinstance(n, int | float) for n in (number, threshold))
    if not (texts and numbers and verdict in VERDICTS and isinstance(parsed, dict)):
        raise IntegrityError(f"{what}: not a finding that an audit writes")
    return Finding(name, verdict, number, threshold, why, parsed, when=when)


def summarize(
    table: Table,
    claims: Sequence[Claim],
    may_fail: Exceptions | None = None,
    must_fail: Exceptions | None = None,
) -> list[Finding]:
    """One finding for every audit that any trial was given, in the order they first appear.

    A failure undermines the claims that rest on a failing trial, unless the audit speaks of the
    result itself.
    """
    names = dict.fromkeys(finding.name for row in table for finding in row.findings)
    return [
        _summary(
            name, table, claims, (may_fail or {}).get(name, ()), (must_fail or {}).get(name, ())
        )
        for name in names
    ]


def _summary(
    name: str,
    table: Table,
    claims: Sequence[Claim],
    may_fail: Collection[str],
    must_fail: Collection[str],
) -> Finding:
    rows = [row for row in table if any(f.name == name for f in row.findings)]
    failures = {row.id: first for row in rows if (first := row.failure(name))}
    expected = {row.id for row in rows if _is_one_of(row, must_fail)}
    allowed = {row.id for row in rows if _is_one_of(row, may_fail)}
    wrong = (failures.keys() - allowed) ^ expected
    evidence = {
        "trials": len(rows),
        "failing": sorted(failures),
        **({"must_fail": sorted(expected)} if expected else {}),
        **({"may_fail": sorted(allowed)} if allowed else {}),
    }
    if wrong:
        first = next(row for row in rows if row.id in wrong)
        why = f"{len(wrong)} of {counted(len(rows), 'trial')}; first, {_label(first)}: " + (
            failures[first.id].why if first.id in failures else "it passes, though it must fail"
        )
        hit = () if name in ABOUT_RESULTS else resting_on(claims, wrong)
        return Finding(name, "fail", len(wrong), 0, why, evidence, hit)
    single = [f for row in rows for f in row.findings if f.name == name]
    if unsettled := [f for f in single if f.verdict == NOT_JUDGED]:
        why = f"{len(unsettled)} of {len(single)} could not be judged; first: {unsettled[0].why}"
        open_ids = {row.id for row in rows if any(f in unsettled for f in row.findings)}
        hit = () if name in ABOUT_RESULTS else resting_on(claims, open_ids)
        return Finding.not_judged(name, why, threshold=0, evidence=evidence, undermines=hit)
    if all(f.verdict == "not-applicable" for f in single):
        return Finding(name, "not-applicable", None, 0, single[0].why, evidence)
    moments = " and at the ".join(dict.fromkeys(f.when for f in single if f.when))
    why = _passing(rows, failures) + (f", at the {moments}" if moments else "")
    for what, ids in (("as it must", expected), ("which is allowed", failures.keys() - expected)):
        first = next((row for row in rows if row.id in ids), None)
        if first is not None:
            why += f"; {_label(first)} fails, {what}: {failures[first.id].why}"
    return Finding(name, "pass", 0, 0, why, evidence)


def _passing(rows: Sequence[Row], failures: Mapping[str, Finding]) -> str:
    passing = len(rows) - len(failures)
    why = "1 trial passes" if passing == 1 else f"{passing} trials pass"
    return f"all {why}" if passing == len(rows) > 1 else why


def _is_one_of(row: Row, arms: Collection[str]) -> bool:
    return any(fnmatchcase(str(row.get("arm")), arm) for arm in arms)


def resting_on(claims: Sequence[Claim], trials: Collection[str]) -> tuple[str, ...]:
    """The names of the claims whose numbers come from any of these trials."""
    return tuple(claim.name for claim in claims if set(trials) & set(claim.trials))


def _label(row: Row) -> str:
    return str(row.get("arm") or f"seed {row.seed}")


def _finite(number: float | None) -> float | None:
    return float(number) if number is not None and math.isfinite(number) else None
