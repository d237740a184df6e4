"""The common form of an audit's answer: a number, its threshold, a verdict, a plain sentence."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
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
    when: str = ""  # the moment of training the audit ran at: "start" or "end"

    @classmethod
    def not_applicable(
        cls, name: str, reason: str, *, threshold: float | None = None, **fields: Any
    ) -> "Finding":
        """The audit could not run, which is not a pass; `fields` are any others that are known."""
        return cls(name, "not-applicable", fields.pop("number", None), threshold, reason, **fields)

    def as_json(self) -> dict[str, Any]:
        """The form stored in results.json and printed by `--json`."""
        number = self.number
        return {
            "name": self.name,
            **({"when": self.when} if self.when else {}),
            "verdict": self.verdict,
            "number": number if number is not None and math.isfinite(number) else None,
            "threshold": self.threshold,
            "why": self.why,
            "evidence": {
                **self.evidence,
                **({"undermines": list(self.undermines)} if self.undermines else {}),
            },
        }

    def cells(self) -> tuple[str, str, str, str, str]:
        """Mark, name, number, threshold and sentence, as every table of findings shows them."""
        name = f"{self.name} ({self.when})" if self.when else self.name
        number, threshold = ("" if n is None else f"{n:.3g}" for n in (self.number, self.threshold))
        return AUDIT_MARKS[self.verdict], name, number, threshold, self.why

    def __repr__(self) -> str:
        mark, name, number, threshold, why = self.cells()
        measured = f" {number}" + (f" (threshold {threshold})" if threshold else "")
        return f"<Finding {mark} {name}{measured if number else ''}: {why}>"

    def _repr_html_(self) -> str:
        return _html_table([self])


@dataclass(frozen=True, repr=False)
class Verdicts:
    """The findings of all audits of one model, in the order they ran."""

    target: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> AuditVerdict:
        """`fail` when one fails; `pass` when one passes and none fails."""
        verdicts = {finding.verdict for finding in self.findings}
        return "fail" if "fail" in verdicts else "pass" if "pass" in verdicts else "not-applicable"

    def counts(self) -> dict[str, int]:
        """How many audits gave each verdict."""
        return {v: sum(f.verdict == v for f in self.findings) for v in AUDIT_MARKS}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __contains__(self, name: object) -> bool:
        return any(finding.name == name for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        from attnlab.core.config import suggest

        for finding in self.findings:
            if finding.name == name:
                return finding
        known = [finding.name for finding in self.findings]
        raise KeyError(f"no audit {name!r} ran: {suggest(name, known)}")

    def as_json(self) -> dict[str, Any]:
        """The document of `attnlab audit --json`."""
        return {
            "target": self.target,
            "verdict": self.verdict,
            "audits": [finding.as_json() for finding in self.findings],
        }

    def summary(self) -> str:
        """The model's name and how many audits pass, fail, or do not apply."""
        count = self.counts()
        return (
            f"{self.target}: {count['pass']} pass, {count['fail']} fail, "
            f"{count['not-applicable']} not applicable"
        )

    def __repr__(self) -> str:
        failed = [finding.name for finding in self.findings if finding.verdict == "fail"]
        return f"<Verdicts {self.summary()}{': ' if failed else ''}{', '.join(failed)}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.summary())}</p>{_html_table(self.findings)}"


def _html_table(findings: "list[Finding] | tuple[Finding, ...]") -> str:
    header = "".join(f"<th>{h}</th>" for h in ("", "audit", "number", "threshold", "finding"))
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in f.cells()) for f in findings)
    return f"<table><tr>{header}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
