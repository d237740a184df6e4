"""`@audit(name, …)` makes a function that judges an audit, and registers it if it asks a model.

    @audit("causality", question="Does it see the tokens it has to predict?", needs=(causal,))
    def causality(subject: Subject, probe: Probe) -> Finding: ...

A need is a function of the same arguments that returns the reason why the audit does not apply, or
None. What is noticed only on the way is raised as `NotApplicable(reason)`. Both become the same
finding, here and nowhere else. `CannotJudge(reason)` says that the audit applies but that its
answer would mean nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, cast

from attnlab.audit.finding import NOT_JUDGED, AuditVerdict, Finding

if TYPE_CHECKING:
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.subject import Subject

P = ParamSpec("P")
Need = Callable[..., str | None]


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
