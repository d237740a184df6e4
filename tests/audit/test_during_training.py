"""The audits of a model inside a study find planted faults and leave the model as it was."""

from typing import Any

import pytest
import torch

from attnlab.audit.during_training import AUDITED, model_findings
from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.parts.merge import Reweight, Shuffle


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
    findings = model_findings(model, "end")
    assert [finding.name for finding in findings] == list(AUDITED)
    assert {finding.name for finding in findings if finding.verdict == "fail"} == failing
    assert {finding.when for finding in findings} == {"end"}
    assert model.training
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())
