"""Audits inside a study: declared failures, undeclared ones, and the claims that fall with them."""

from typing import Any

import pytest
import torch

from attnlab.audit.finding import Finding
from attnlab.core.seeds import Seed
from attnlab.lab.claim import Claim, apply_audits, judge
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.parts.merge import Reweight, Shuffle
from attnlab.studies.audited import AUDITED, audit_findings, audit_metrics

LEAK = "fail: the prediction at position 3 moves by 0.5"


def row(name: str, arm: str, **verdicts: str) -> Row:
    said = {f"audit_{audit}_{when}": "pass" for audit in AUDITED for when in ("start", "end")}
    metrics: dict[str, Any] = {**said, **{k.replace("__", "-"): v for k, v in verdicts.items()}}
    return Row(name, 0, "done", {"arm": arm}, metrics)


def claim(name: str, *trials: str) -> Claim:
    return judge(name, "a < b", Estimate(0.5, 0.4, 0.6, 5), below=1.0, trials=trials)


def found(findings: list[Finding], name: str) -> Finding:
    return next(f for f in findings if f.name == name)


def test_an_undeclared_failure_fails_the_study_and_its_claims() -> None:
    table = Table([row("a1", "plain"), row("b1", "odd", audit_causality_end=LEAK)])
    claims = [claim("rests-on-it", "a1", "b1"), claim("does-not", "a1")]
    findings = audit_findings(table, claims, {})
    finding = found(findings, "causality")
    assert finding.verdict == "fail" and "odd first" in finding.why and "0.5" in finding.why
    assert finding.undermines == ("rests-on-it",)
    assert [f.verdict for f in findings if f.name != "causality"] == ["pass"] * (len(AUDITED) - 1)
    after = apply_audits(claims, findings)
    assert [c.verdict for c in after] == ["undecided", "holds"]
    assert "causality" in after[0].why and after[0].estimate == claims[0].estimate


def test_a_declared_failure_must_come() -> None:
    leaking = Table([row("a1", "plain"), row("b1", "odd", audit_causality_start=LEAK)])
    sound = Table([row("a1", "plain"), row("b1", "odd")])
    declared = {"odd": ("causality",)}
    assert found(audit_findings(leaking, [], declared), "causality").verdict == "pass"
    missed = found(audit_findings(sound, [], declared), "causality")
    assert missed.verdict == "fail" and "must not" in missed.why


def test_no_models_no_findings() -> None:
    assert audit_findings(Table([Row("c", 0, "done", {}, {"x": 1.0})]), [], {}) == []


@pytest.mark.parametrize(
    ("merge", "failing"),
    [
        (None, set()),
        (Reweight.Config(over="heads"), {"causality", "padding"}),
        (Shuffle.Config(when="forward"), {"eval-determinism"}),
    ],
)
def test_a_model_is_audited_and_left_as_it_was(merge: Any, failing: set[str]) -> None:
    parts = {} if merge is None else {"merge": merge}
    config = GPTConfig.named("nano", vocab=37, block=29, **parts)
    model = GPT(config, Seed(1).torch_generator()).train()
    before = {k: v.clone() for k, v in model.state_dict().items() if "calls" not in k}
    said = audit_metrics(model, "end")
    assert {k.split("_")[1] for k, v in said.items() if v.startswith("fail")} == failing
    assert model.training
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())
