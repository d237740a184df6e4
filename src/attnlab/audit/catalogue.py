"""Every audit of a model, in the order they run; `check` runs those that apply.

    check(model)                          all of them
    check(model, only=["causality"])      some
    check(model, skip=["coverage"])       all others

An audit that cannot run says so and is not a pass. In people's own tests:

    def test_my_model():
        assert_causal(MyModel())

raises AssertionError with the sentence of the finding; also for an audit that does not apply, or
inside which the model raises an error: a test that tested nothing must not pass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnlab.audit.finding import REGISTRY, Audit, Finding, Verdicts, describe_error
from attnlab.core.config import suggest
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.subject import Subject

# In the order they run; `some-name` is registered in checks/some_name.py, loaded when it is needed.
NAMES = (
    "non-finite",
    "eval-determinism",
    "causality",
    "random-token-floor",
    "mask-strength",
    "batch-independence",
    "padding",
    "coverage",
    "cache-parity",
    "score-scale",
    "attention-matters",
    "tying-and-save",
)
# Those that take a moment each: a study runs them on its model before and after its training.
AUDITED = (
    "non-finite",
    "eval-determinism",
    "causality",
    "mask-strength",
    "batch-independence",
    "padding",
)
LENGTH = 23  # tokens of the texts they probe a study's model with


def load_audit(name: str) -> Audit:
    """The audit of a name; an unknown name raises with the nearest one."""
    if name not in NAMES:
        raise UsageError(f"unknown audit {name!r}: {suggest(name, NAMES)}")
    import_module(f"attnlab.audit.checks.{name.replace('-', '_')}")
    return REGISTRY[name]


def select_audits(only: Iterable[str], skip: Iterable[str] = ()) -> tuple[Audit, ...]:
    """The audits of `only` (all, if it is empty) without those of `skip`, in the order they run."""
    wanted = {load_audit(name).name for name in only} or set(NAMES)
    wanted -= {load_audit(name).name for name in skip}
    if not wanted:
        raise UsageError("no audit is left to run: everything that was asked for is skipped")
    return tuple(load_audit(name) for name in NAMES if name in wanted)


def check(  # noqa: PLR0913  (what a person may choose)
    model: Any,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    seed: int = 0,
    length: int | None = None,
    name: str | None = None,
    on_finding: Callable[[Finding], None] = lambda finding: None,
) -> Verdicts:
    """Run the audits on any model; `on_finding` is called with each finding as it comes.

    `verdicts.verdict` is "fail" if one fails; "could-not-be-judged" if the model raised an error
    inside one, or none applies; else "pass".
    """
    from attnlab.audit.probing.isolation import set_mode
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.wrap import subject_of

    audits = select_audits(only, skip)
    subject, probe = subject_of(model, name), Probe(seed, length)
    findings = []
    with set_mode(subject.module, training=False):  # once, not again in every call of the model
        for audit in audits:
            findings.append(run_audit(audit, subject, probe))
            on_finding(findings[-1])
    return Verdicts(subject.name, tuple(findings))


def model_findings(model: Any, when: str) -> list[Finding]:
    """What the audits `AUDITED` say of a study's model at the `start` or the `end` of training."""
    verdicts = check(model, only=AUDITED, length=LENGTH)
    return [replace(finding, when=when) for finding in verdicts.findings]


def run_audit(audit: Audit, subject: "Subject", probe: "Probe") -> Finding:
    """The finding of one audit; one inside which the model raises an error could not be judged."""
    try:
        return audit.run(subject, probe)
    except UsageError:
        raise
    except Exception as error:  # anyone's code
        why = f"the model raised {describe_error(error, most=200)}"
        return Finding.not_judged(audit.name, why)


def assert_audit(model: Any, name: str, *, seed: int = 0, length: int | None = None) -> None:
    """Any audit of a model by its name."""
    __tracebackhide__ = True  # pytest shows the line of the test, not this one
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.wrap import subject_of

    finding = run_audit(load_audit(name), subject_of(model), Probe(seed, length))
    if finding.verdict == "fail":
        raise AssertionError(f"{name}: fail: {finding.why}")
    if finding.verdict != "pass":
        raise AssertionError(f"{name}: could not be judged: {finding.why}")


assert_causal = partial(assert_audit, name="causality")
assert_batch_independent = partial(assert_audit, name="batch-independence")
assert_pad_invariant = partial(assert_audit, name="padding")
assert_covers = partial(assert_audit, name="coverage")
assert_deterministic = partial(assert_audit, name="eval-determinism")
assert_cache_parity = partial(assert_audit, name="cache-parity")
assert_finite = partial(assert_audit, name="non-finite")
