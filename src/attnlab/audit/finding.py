"""The answer of an audit, a number, its threshold, a verdict, a plain sentence; and `@audit`.

`@audit(name, …)` makes a function that judges an audit, and registers it if it judges a model.

    @audit("causality", question="Does it see the tokens it has to predict?", needs=(causal,))
    def causality(subject: Subject, probe: Probe) -> Finding: ...

A need is a function of the same arguments that returns the reason why the audit does not apply, or
None. What is noticed only on the way is raised as `NotApplicable(reason)`. Both become the same
finding, here and nowhere else. `CannotJudge(reason)` says that the audit applies but that its
answer would mean nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, cast

if TYPE_CHECKING:
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.subject import Subject

P = ParamSpec("P")
Need = Callable[..., str | None]
AuditVerdict = Literal["fail", "could-not-be-judged", "pass", "not-applicable"]
NOT_JUDGED: AuditVerdict = "could-not-be-judged"
AUDIT_MARKS: dict[str, str] = {"fail": "✗", NOT_JUDGED: "?", "pass": "✓", "not-applicable": "–"}


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
        """The question makes no sense for this model; `fields` are any others that are known."""
        return cls(name, "not-applicable", fields.pop("number", None), threshold, reason, **fields)

    @classmethod
    def not_judged(cls, name: str, reason: str, **fields: Any) -> "Finding":
        """The question makes sense and could not be answered, which is not a pass."""
        return replace(cls.not_applicable(name, reason, **fields), verdict=NOT_JUDGED)

    @classmethod
    def judged(
        cls,
        name: str,
        problem: str,
        why: str,
        number: float | None,
        threshold: float | None,
        evidence: Mapping[str, Any],
    ) -> "Finding":
        """A failure that says `problem` if there is one, else a pass that says `why`."""
        verdict: AuditVerdict = "fail" if problem else "pass"
        return cls(name, verdict, number, threshold, problem or why, evidence)

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
        """`fail` if one fails; `pass` if one passes and no other fails or could not be judged."""
        found = {finding.verdict for finding in self.findings}
        if "fail" in found:
            return "fail"
        return NOT_JUDGED if NOT_JUDGED in found or "pass" not in found else "pass"

    @property
    def why(self) -> str:
        """The reason for the verdict, from the first finding that decides it."""
        for finding in self.findings:
            if finding.verdict == self.verdict != "pass":
                return f"{finding.name}: {finding.why}"
        if self.verdict == "pass":
            return "every audit that applies passes"
        first = next((f"{finding.name}: {finding.why}" for finding in self.findings), "none ran")
        return f"no audit that was asked for applies: {first}"

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
            "why": self.why,
            "audits": [finding.as_json() for finding in self.findings],
        }

    def summary(self) -> str:
        """The model's name and how many audits gave each verdict."""
        count = self.counts()
        judged = f"{self.target}: {count['pass']} pass, {count['fail']} fail, "
        open_ = f"{count[NOT_JUDGED]} could not be judged, " if count[NOT_JUDGED] else ""
        return f"{judged}{open_}{count['not-applicable']} not applicable"

    def __repr__(self) -> str:
        failed = [finding.name for finding in self.findings if finding.verdict == "fail"]
        return f"<Verdicts {self.summary()}{': ' if failed else ''}{', '.join(failed)}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.summary())}</p>{_html_table(self.findings)}"


def _html_table(findings: "list[Finding] | tuple[Finding, ...]") -> str:
    header = "".join(f"<th>{h}</th>" for h in ("", "audit", "number", "threshold", "finding"))
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in f.cells()) for f in findings)
    return f"<table><tr>{header}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


# ------------------------------------------------------------------------------- the decorator


@dataclass(frozen=True)
class Audit:
    """A name, the question a newcomer would ask, and the function that answers it for a model."""

    name: str
    question: str
    run: "Callable[[Subject, Probe], Finding]"


REGISTRY: dict[str, Audit] = {}


class NotApplicable(Exception):
    """Raised inside an audit that cannot run; `fields` are what its finding can still tell."""

    verdict: ClassVar[AuditVerdict] = "not-applicable"

    def __init__(self, reason: str, **fields: Any) -> None:
        super().__init__(reason)
        self.reason, self.fields = reason, fields


class CannotJudge(NotApplicable):
    """Raised inside an audit that applies and cannot be answered."""

    verdict = NOT_JUDGED


def describe_error(error: Exception, most: int = 120) -> str:
    """An error that anyone's code raised, in one short line."""
    return f"{type(error).__name__}: {str(error)[:most]}"


def audit(
    name: str, *, question: str = "", needs: Sequence[Need] = (), threshold: float | None = None
) -> Callable[[Callable[P, Finding]], Callable[P, Finding]]:
    """Decorate a function that judges; with a `question` it takes a subject and a probe."""

    def decorate(judge: Callable[P, Finding]) -> Callable[P, Finding]:
        @wraps(judge)
        def run(*args: P.args, **kwargs: P.kwargs) -> Finding:
            try:
                for need in needs:
                    if reason := need(*args, **kwargs):
                        raise NotApplicable(reason)
                return judge(*args, **kwargs)
            except NotApplicable as unmet:
                fields = {"number": None, "threshold": threshold} | unmet.fields
                return Finding(name, unmet.verdict, why=unmet.reason, **fields)

        if question:
            REGISTRY[name] = Audit(name, question, cast(Any, run))
        return run

    return decorate
