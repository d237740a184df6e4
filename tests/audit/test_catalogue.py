"""The catalogue and the decorator: order, what an audit needs, errors inside a model."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnlab.audit.catalogue import AUDITED, NAMES, check, load_audit, model_findings, select_audits
from attnlab.audit.finding import REGISTRY, CannotJudge, Finding, NotApplicable, audit
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.parts.merge import Reweight, Shuffle


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(31, 31)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


def test_audits_run_in_the_order_of_the_catalogue_whatever_is_asked_first() -> None:
    wanted = ["padding", "non-finite", "causality"]
    assert [a.name for a in select_audits(wanted)] == ["non-finite", "causality", "padding"]
    assert tuple(a.name for a in select_audits([])) == NAMES
    heard: list[Finding] = []
    found = check(Table(), only=wanted, length=23, on_finding=heard.append)
    assert heard == list(found) and [f.name for f in found] == [
        "non-finite",
        "causality",
        "padding",
    ]
    assert all(load_audit(name).question.endswith("?") for name in NAMES)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown audit 'causalty': did you mean 'causality'"):
        check(Table(), only=["causalty"])


def test_skipped_audits_do_not_run() -> None:
    assert tuple(a.name for a in select_audits([], NAMES[2:])) == NAMES[:2]
    assert [f.name for f in check(Table(), only=NAMES[:2], skip=NAMES[:1], length=23)] == [NAMES[1]]
    with pytest.raises(UsageError, match="unknown audit 'coverag': did you mean 'coverage'"):
        select_audits([], ["coverag"])
    with pytest.raises(UsageError, match="no audit is left to run"):
        select_audits(["coverage"], ["coverage"])


def test_an_unmet_need_is_a_finding_with_its_reason() -> None:
    asked: list[int] = []

    @audit("odd", needs=(lambda n: "it is even" if n % 2 == 0 else None,), threshold=3)
    def odd(n: int) -> Finding:
        asked.append(n)
        if n < 0:
            raise NotApplicable("it is negative", number=n)
        if n > 100:
            raise CannotJudge("it is too large")
        return Finding("odd", "pass", n, 3, "")

    assert odd(1).verdict == "pass"
    assert odd(2) == Finding("odd", "not-applicable", None, 3, "it is even")
    assert odd(-1) == Finding("odd", "not-applicable", -1, 3, "it is negative")
    assert odd(101) == Finding.not_judged("odd", "it is too large", threshold=3)
    assert asked == [1, -1, 101] and "odd" not in REGISTRY


def test_a_model_that_raises_does_not_pass() -> None:
    class Raises(Table):
        def forward(self, ids: Tensor) -> Tensor:
            if ids.shape[0] > 1:
                raise RuntimeError("one row only")
            return super().forward(ids)

    found = check(Raises(), length=23)
    assert found.verdict == found["batch-independence"].verdict == "could-not-be-judged"
    assert "the model raised RuntimeError: one row only" in found.why
    assert found["random-token-floor"].verdict == "pass"  # it asks about one row at a time
    assert check(Table(), length=23).verdict == "pass"


def test_a_function_has_nothing_to_save_and_no_mask() -> None:
    table = torch.randn(31, 31)
    found = check(lambda ids: table[ids], only=["tying-and-save", "padding"], length=23)
    assert {f.verdict for f in found} == {"not-applicable"}
    assert "no padding mask" in found["padding"].why


def test_the_names_and_the_verdicts_need_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys, attnlab.audit\n"
        "from attnlab.audit.catalogue import NAMES\n"
        "from attnlab.audit.checks.score_scale import score_scale\n"
        "assert NAMES and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60)


@pytest.mark.parametrize(
    ("merge", "failing"),
    [
        (None, set()),
        (Reweight.Config(over="heads"), {"causality", "padding"}),
        (Shuffle.Config(when="forward"), {"eval-determinism"}),
    ],
)
def test_a_model_is_audited_and_left_as_it_was(merge: Any, failing: set[str]) -> None:
    """A study asks `model_findings` before and after its training."""
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
