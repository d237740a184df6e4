"""Findings of trials: stored and read back, summed up, allowed and demanded failures."""

from collections.abc import Sequence

import pytest

from attnlab.audit.finding import Finding
from attnlab.core.errors import IntegrityError
from attnlab.lab.claim import Claim, apply_audits, judge
from attnlab.lab.findings import (
    finding_of,
    stored_finding,
    summarize,
)
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate

LEAK = "the prediction at position 3 moves by 0.5"


def row(name: str, arm: str, *verdicts: str, audit: str = "causality") -> Row:
    findings = [
        Finding(audit, verdict, 0.5, 0.1, LEAK if verdict == "fail" else "fine")  # type: ignore[arg-type]
        for verdict in verdicts
    ]
    return Row(name, 0, "done", {"arm": arm}, {}, findings=findings)


def claim(name: str, *trials: str) -> Claim:
    return judge(name, "a < b", Estimate(0.5, 0.4, 0.6, 5), below=1.0, trials=trials)


def summary(rows: Sequence[Row], **exceptions: dict[str, list[str]]) -> Finding:
    (finding,) = summarize(Table(rows), [], **exceptions)
    return finding


def test_a_failure_fails_the_run_and_the_claims_that_rest_on_it() -> None:
    table = Table([row("a1", "plain", "pass"), row("b1", "odd", "pass", "fail")])
    claims = [claim("rests-on-it", "a1", "b1"), claim("does-not", "a1")]
    (finding,) = summarize(table, claims)
    assert finding.verdict == "fail" and finding.number == 1
    assert "1 of 2 trials" in finding.why and "odd" in finding.why and LEAK in finding.why
    assert finding.undermines == ("rests-on-it",) and finding.evidence["failing"] == ["b1"]
    after = apply_audits(claims, [finding])
    assert [c.verdict for c in after] == ["undecided", "holds"]
    assert "causality" in after[0].why and after[0].estimate == claims[0].estimate


def test_what_speaks_of_the_result_undermines_no_claim() -> None:
    table = Table([row("a1", "plain", "fail", audit="collapse")])
    (finding,) = summarize(table, [claim("rests-on-it", "a1")])
    assert finding.verdict == "fail" and finding.undermines == ()


def test_a_failure_may_be_allowed_or_demanded() -> None:
    leaking = [row("a1", "plain", "pass"), row("b1", "odd", "fail", "pass")]
    sound = [row("a1", "plain", "pass"), row("b1", "odd", "pass")]
    demanded = {"must_fail": {"causality": ["odd"]}}
    assert summary(leaking, **demanded).verdict == "pass"
    assert (
        summary(leaking, **demanded).why
        == "1 trial passes; odd fails, as it must: the prediction at position 3 moves by 0.5"
    )
    missed = summary(sound, **demanded)
    assert missed.verdict == "fail" and "though it must fail" in missed.why
    allowed = {"may_fail": {"causality": ["odd"]}}
    assert summary(leaking, **allowed).verdict == "pass" and LEAK in summary(leaking, **allowed).why
    assert summary(sound, **allowed).why == "all 2 trials pass"
    assert summary(leaking, may_fail={"padding": ["odd"]}).verdict == "fail"
    assert summary(leaking, may_fail={"causality": ["o*"]}).verdict == "pass"
    assert summary(leaking, may_fail={"causality": ["x*"]}).verdict == "fail"


def test_no_findings_no_summary() -> None:
    assert summarize(Table([row("a1", "plain")]), []) == []
    nowhere = summary([row("a1", "plain", "not-applicable")])
    assert nowhere.verdict == "not-applicable" and nowhere.why == "fine"
    assert summary([row("a1", "plain", "not-applicable", "pass")]).verdict == "pass"


def test_a_finding_is_stored_and_read_back() -> None:
    finding = Finding("causality", "fail", 0.5, 0.1, LEAK, {"at": 3}, ("claim",), "end")
    read = finding_of(stored_finding(finding), "trial x")
    assert (read.name, read.verdict, read.number, read.when) == ("causality", "fail", 0.5, "end")
    assert read.evidence == {"at": 3}
    infinite = Finding("causality", "fail", float("inf"), None, LEAK)
    assert finding_of(stored_finding(infinite), "trial x").number is None


@pytest.mark.parametrize(
    ("column", "value"), [(0, 7), (2, "perhaps"), (3, "0.5"), (6, "{"), (6, "[]")]
)
def test_a_damaged_finding_is_refused(column: int, value: object) -> None:
    columns = list(stored_finding(Finding("causality", "pass", 0, 0, "fine")))
    columns[column] = value
    with pytest.raises(IntegrityError, match="trial x"):
        finding_of(columns, "trial x")
