"""Every audit of a model, in the order they run; `check` runs those that apply.

    check(model)                          all of them
    check(model, only=["causality"])      some

An audit that cannot run says so and is not a pass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.audit.attention_matters import attention_matters
from attnlab.audit.batch_independence import batch_independence
from attnlab.audit.cache_parity import cache_parity
from attnlab.audit.causality import causality
from attnlab.audit.coverage import coverage
from attnlab.audit.eval_determinism import eval_determinism
from attnlab.audit.finding import Finding
from attnlab.audit.mask_strength import mask_strength
from attnlab.audit.non_finite import non_finite
from attnlab.audit.padding import padding
from attnlab.audit.probe import Probe
from attnlab.audit.random_token_floor import random_token_floor
from attnlab.audit.saturation import saturation
from attnlab.audit.subject import Subject
from attnlab.audit.tying_and_save import tying_and_save
from attnlab.audit.wrap import subject_of
from attnlab.core.config import suggest
from attnlab.core.errors import UsageError


@dataclass(frozen=True)
class Audit:
    """A name, the question a newcomer would ask, and the program that answers it."""

    name: str
    question: str
    run: Callable[[Subject, Probe], Finding]


MODEL_AUDITS: tuple[Audit, ...] = (
    Audit("non-finite", "Is every prediction a finite number?", non_finite),
    Audit("eval-determinism", "Asked twice, does it answer the same?", eval_determinism),
    Audit("causality", "Does it see the tokens it has to predict?", causality),
    Audit("random-token-floor", "Does it predict the unpredictable?", random_token_floor),
    Audit("mask-strength", "Can a score beat the mask?", mask_strength),
    Audit("batch-independence", "Do rows of a batch read each other?", batch_independence),
    Audit("padding", "Do pads change what is said about text?", padding),
    Audit("coverage", "Is it blind to some tokens?", coverage),
    Audit("cache-parity", "Does decoding agree with reading?", cache_parity),
    Audit("score-scale", "Is its softmax saturated?", saturation),
    Audit("attention-matters", "Would it say the same without attention?", attention_matters),
    Audit("tying-and-save", "Is the model on disk the one in memory?", tying_and_save),
)
NAMES = tuple(audit.name for audit in MODEL_AUDITS)


@dataclass(frozen=True)
class Verdicts:
    """What all audits said of one target."""

    target: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """`fail` when one fails; `pass` when one passes and none fails."""
        found = {finding.verdict for finding in self.findings}
        return next((v for v in ("fail", "pass") if v in found), "not-applicable")

    def __getitem__(self, name: str) -> Finding:
        return next(finding for finding in self.findings if finding.name == name)

    def as_json(self) -> dict[str, Any]:
        """The document of `attnlab audit --json`."""
        return {
            "target": self.target,
            "verdict": self.verdict,
            "audits": [finding.as_json() for finding in self.findings],
        }


def chosen(only: Iterable[str]) -> tuple[Audit, ...]:
    """The audits of these names, all without any; an unknown one raises with the nearest."""
    wanted = list(only)
    for name in wanted:
        if name not in NAMES:
            raise UsageError(f"unknown audit {name!r}: {suggest(name, NAMES)}")
    return tuple(audit for audit in MODEL_AUDITS if not wanted or audit.name in wanted)


def check(
    model: Any,
    *,
    only: Sequence[str] = (),
    seed: int = 0,
    length: int | None = None,
    name: str | None = None,
    heard: Callable[[Finding], None] = lambda finding: None,
) -> Verdicts:
    """Run the audits on a model of anyone's; `heard` is told of each finding as it comes."""
    audits = chosen(only)
    subject, probe = subject_of(model, name), Probe(seed, length)
    findings = []
    for audit in audits:
        findings.append(_ask(audit, subject, probe))
        heard(findings[-1])
    return Verdicts(subject.name, tuple(findings))


def _ask(audit: Audit, subject: Subject, probe: Probe) -> Finding:
    """A model that breaks under a question is not a pass."""
    try:
        return audit.run(subject, probe)
    except UsageError:
        raise
    except Exception as error:  # anyone's code
        why = f"the model broke off: {type(error).__name__}: {str(error)[:200]}"
        return Finding(audit.name, "not-applicable", None, None, why)
