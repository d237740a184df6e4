"""The audits of a model inside a study, at the start and at the end of its training.

findings = model_findings(model, "start")   …   findings += model_findings(model, "end")
return Outcome(metrics, findings=findings)
"""

from dataclasses import replace
from typing import Any

from attnlab.audit.finding import Finding

AUDITED = (
    "non-finite",
    "eval-determinism",
    "causality",
    "mask-strength",
    "batch-independence",
    "padding",
)
LENGTH = 23  # tokens of the probe texts: short, since every trial is audited twice


def model_findings(model: Any, when: str) -> list[Finding]:
    """What the six audits that take a moment each say of the model now."""
    from attnlab.audit.catalogue import check

    verdicts = check(model, only=AUDITED, length=LENGTH)
    return [replace(finding, when=when) for finding in verdicts.findings]
