"""The audits of a whole run: what every trial said, and what is judged once."""

from collections.abc import Sequence

from torch import Tensor

from attnlab.audit.checks.distillation_identity import LIMIT, distillation_identity
from attnlab.audit.checks.freeze import NAME as FREEZE
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table
from attnlab.studies.audited import AUDITED
from attnlab.studies.distillation.checks import collected
from attnlab.studies.distillation.settings import DistilSettings
from attnlab.train.distillation import DIVERGENCES

TOLD = (
    "loss-mask",
    "label-shift",
    FREEZE,
    "gradient-accumulation",
    "split-overlap",
    "rouge",
    *AUDITED,
)
DATA = ("split-overlap", "rouge")  # what they find concerns every arm


def findings(table: Table, claims: Sequence[Claim], s: DistilSettings) -> list[Finding]:
    """One finding an audit; a failing one leaves the claims on its trials undecided."""
    found = []
    for name in TOLD:
        said = {
            row.id: (str(row.get("arm")), str(row.metrics[f"audit_{name}"]))
            for row in table
            if f"audit_{name}" in row.metrics
        }
        if said:
            found.append(_undermining(collected(name, said), said, claims))
    if "logits" in s.arms:
        found.append(_identity(table, claims, s))
    taught = [row for row in table if "teacher_unchanged" in row.metrics]
    if taught:
        found.append(_still(taught, claims))
    return found


def _undermining(
    finding: Finding, said: dict[str, tuple[str, str]], claims: Sequence[Claim]
) -> Finding:
    wrong = {key for key, (_, words) in said.items() if words.startswith("fail")}
    return _against(finding, wrong, claims, everywhere=finding.name in DATA)


def _against(
    finding: Finding, trials: set[str], claims: Sequence[Claim], everywhere: bool = False
) -> Finding:
    if finding.verdict != "fail":
        return finding
    hit = tuple(c.name for c in claims if everywhere or trials & set(c.trials))
    return Finding(
        finding.name, "fail", finding.number, finding.threshold, finding.why, finding.evidence, hit
    )


def _identity(table: Table, claims: Sequence[Claim], s: DistilSettings) -> Finding:
    """The divergence on logits, and the loss with the real teacher as its own student."""

    def loss(student: Tensor, teacher: Tensor) -> Tensor:
        return DIVERGENCES[s.divergence](student, teacher, s.temperature).mean()

    found = distillation_identity(loss)
    rows = [row for row in table if "identity_loss" in row.metrics]
    largest = max(
        (abs(float(row[key])) for row in rows for key in ("identity_loss", "identity_gradient")),
        default=0.0,
    )
    evidence = {**found.evidence, "teacher_as_student": largest, "trials": len(rows)}
    number = max(found.number or 0.0, largest)
    if found.verdict == "pass" and not largest <= LIMIT:
        why = f"the teacher as its own student has loss or gradient {largest:.3g}, not 0"
        made = Finding(found.name, "fail", largest, LIMIT, why, evidence)
        return _against(made, {row.id for row in rows}, claims)
    why = found.why + (f"; the teacher as its own student: {largest:.2g}" if rows else "")
    made = Finding(found.name, found.verdict, number, LIMIT, why, evidence)
    return _against(made, {row.id for row in rows}, claims)


def _still(taught: Sequence[Row], claims: Sequence[Claim]) -> Finding:
    """After the whole training, not only after one step."""
    moved = {row.id for row in taught if not (row["teacher_unchanged"] and row["teacher_in_eval"])}
    name, evidence = "teacher-unchanged", {"trials": len(taught), "moved": sorted(moved)}
    if not moved:
        why = f"after {len(taught)} trainings the teacher has every bit it had, in evaluation mode"
        return Finding(name, "pass", 0, 0, why, evidence)
    why = f"in {len(moved)} of {len(taught)} trainings the teacher changed, or was left training"
    return _against(Finding(name, "fail", len(moved), 0, why, evidence), moved, claims)
