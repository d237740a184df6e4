"""The common form of an audit's answer: a number, its threshold, a verdict, a plain sentence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

AuditVerdict = Literal["pass", "fail", "not-applicable"]
AUDIT_MARKS: dict[str, str] = {"pass": "✓", "fail": "✗", "not-applicable": "–"}


@dataclass(frozen=True)
class Finding:
    """`number` against `threshold`; `why` is for a newcomer, `evidence` for whoever doubts it."""

    name: str
    verdict: AuditVerdict
    number: float | None
    threshold: float | None
    why: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    undermines: tuple[str, ...] = ()  # claims left undecided without a pass, by name
    when: str = ""  # moment of a training it speaks of: "start", "end"

    def as_json(self) -> dict[str, Any]:
        """The form stored in results.json and printed by `--json`."""
        number = self.number
        return {
            "name": self.name,
            "verdict": self.verdict,
            "number": number if number is not None and math.isfinite(number) else None,
            "threshold": self.threshold,
            "why": self.why,
            "evidence": {
                **self.evidence,
                **({"undermines": list(self.undermines)} if self.undermines else {}),
            },
        }
