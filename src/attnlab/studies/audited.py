"""The audits of a model inside a study: on every trial, at the start and at the end of training.

    metrics |= audit_metrics(model, "start")   …   metrics |= audit_metrics(model, "end")
    study.audits(table): audit_findings(table, claims, declared)

An arm may declare an audit that it must fail; it is a failure of the study when it does not.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table

if TYPE_CHECKING:
    from torch import nn

AUDITED = (
    "non-finite",
    "eval-determinism",
    "causality",
    "mask-strength",
    "batch-independence",
    "padding",
)
WHEN = ("start", "end")
LENGTH = 23  # of the texts a model in training is tried on: seconds would be too long


def audit_metrics(model: "nn.Module", when: str) -> dict[str, Any]:
    """'pass', 'not-applicable' or 'fail: why' for every audit."""
    from attnlab.audit.catalogue import check

    found = check(model, only=AUDITED, length=LENGTH)
    return {
        f"audit_{f.name}_{when}": f"fail: {f.why}" if f.verdict == "fail" else f.verdict
        for f in found.findings
    }


def audit_findings(
    table: Table, claims: Sequence[Claim], declared: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """One finding an audit over all models; `declared` names for an arm the audits it must fail."""
    rows = [row for row in table if f"audit_{AUDITED[0]}_end" in row.metrics]
    return [_finding(name, rows, claims, declared) for name in AUDITED] if rows else []


def _finding(
    name: str, rows: list[Row], claims: Sequence[Claim], declared: Mapping[str, Sequence[str]]
) -> Finding:
    said = {row.id: [str(row.get(f"audit_{name}_{when}")) for when in WHEN] for row in rows}
    failing = {key for key, words in said.items() if any(w.startswith("fail") for w in words)}
    expected = {row.id for row in rows if name in declared.get(str(row.get("arm")), ())}
    wrong = failing ^ expected
    evidence = {"models": len(rows), "failing": sorted(failing), "declared": sorted(expected)}
    if not wrong:
        if all(w == "not-applicable" for words in said.values() for w in words):
            return Finding(name, "not-applicable", None, 0, "it applies to no model", evidence)
        why = f"all {len(rows) - len(expected)} models pass, at the start and after training"
        why += f"; the {len(expected)} declared to fail do fail" if expected else ""
        return Finding(name, "pass", 0, 0, why, evidence)
    first = next(row for row in rows if row.id in wrong)
    words = next((w for w in said[first.id] if w.startswith("fail")), "it passes, and must not")
    arm = first.get("arm") or f"seed {first.seed}"
    why = f"{len(wrong)} of {len(rows)} models, {arm} first: {words.removeprefix('fail: ')}"
    hit = tuple(claim.name for claim in claims if wrong & set(claim.trials))
    return Finding(name, "fail", len(wrong), 0, why, evidence, hit)
