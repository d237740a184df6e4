"""What fine-tuning, optimizers and adapters conclude, from planted numbers, both ways."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table
from attnlab.studies.adapting.adapter_claims import answer as adapters_answer
from attnlab.studies.adapting.adapters import Adapters
from attnlab.studies.adapting.checks import findings
from attnlab.studies.adapting.evidence import Runs, at_the_edge
from attnlab.studies.adapting.fine_tuning import FineTuning
from attnlab.studies.adapting.fine_tuning_claims import answer, claims
from attnlab.studies.adapting.optimizers import Optimizers
from attnlab.studies.adapting.settings import CELLS, RIGHT, FineTuningSettings, rate_text


def cell(rate: float, dev: float) -> dict[str, Any]:
    return {"rate": rate, "batch": 32, "epochs": 1.0, "dev_accuracy": dev, "dev_loss": 1 - dev}


def planted(arm: str, seed: int, accuracy: float, cells: list[dict[str, Any]]) -> Row:
    """738 test rows, of which the majority is half."""
    best = max(cells, key=lambda c: c["dev_accuracy"])
    metrics = {
        "accuracy": accuracy,
        "right": round(738 * accuracy),
        "tested": 738,
        "majority": 0.5,
        "dev_majority": 0.5,
        "dev_rows": 872,
        "rate": best["rate"],
        "dev_accuracy": best["dev_accuracy"],
    }
    config = {"kind": "search", "arm": arm, "task": "texts"}
    right = (np.arange(738) < round(738 * accuracy)).astype(np.uint8)
    return Row(
        f"{arm}{seed}",
        seed,
        "done",
        config,
        metrics,
        load_arrays=lambda: {RIGHT: right},
        load_documents=lambda: {CELLS: json.dumps(cells)},
    )


def verdicts(found: list[Claim]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in found}


def optimizer_table(own: float) -> Table:
    """At one rate SGD is at half; at its own it reaches `own`."""
    rows = []
    for seed in range(3):
        tiny = 0.002 * seed
        rows.append(planted("adamw", seed, 0.84 + tiny, [cell(5e-5, 0.85 + tiny)]))
        rows.append(planted("sgd", seed, own - tiny, [cell(5e-5, 0.51 - tiny), cell(0.1, own)]))
    return Table(rows)


def test_one_rate_for_all_is_told_from_each_at_its_own() -> None:
    study = Optimizers.at("quick")
    level, worse = optimizer_table(0.84), optimizer_table(0.70)
    assert verdicts(study.claims(level)) == {
        "sgd-behind-at-one-rate": "holds",
        "sgd-level-at-its-own": "holds",
        "no-collapse": "holds",
    }
    assert study.answer(study.claims(level)).startswith("It was given the wrong rate: at 5e-5")
    assert verdicts(study.claims(worse))["sgd-level-at-its-own"] == "fails"
    assert study.answer(study.claims(worse)).startswith("Worse even at its own rate")


def collapse_rows(accuracy: float, share: float, first: str) -> list[Row]:
    """Three seeds at the high rate, three at the sane one, of 3,270 questions."""
    high = {
        "whole_accuracy": accuracy,
        "whole_majority": 2033 / 3270,
        "whole_top_share": share,
        "audit_collapse": "fail: constant" if share > 0.95 else "pass",
        "collapse_first_epoch": first,
    }
    sane = {
        "whole_majority": 2033 / 3270,
        "whole_top_share": 0.7,
        "audit_collapse": "pass",
        "collapse_first_epoch": "pass",
    }
    rows = []
    for seed in range(3):
        config = {"kind": "collapse", "arm": "rate 0.001", "learning_rate": 1e-3}
        rows.append(Row(f"h{seed}", seed, "done", config, high))
        own = {**sane, "whole_accuracy": 0.68 + seed / 1000}
        config = {"kind": "collapse", "arm": "rate 5e-05", "learning_rate": 5e-5}
        rows.append(Row(f"s{seed}", seed, "done", config, own))
    return rows


def test_a_collapse_is_claimed_only_where_it_is() -> None:
    few = FineTuningSettings(collapse_rates=(1e-3,))
    table = Table(collapse_rows(2033 / 3270, 1.0, "fail: step 3"))
    assert "sane-rate-learns" not in verdicts(claims(Runs(table), few)), "a subset is no result"
    s = few.model_copy(update={"collapse_rows": 0})
    yes = claims(Runs(Table(collapse_rows(2033 / 3270, 1.0, "fail: step 3"))), s)
    assert verdicts(yes) == {
        "collapses-at-0.001": "holds",
        "collapse-is-named": "holds",
        "sane-rate-learns": "holds",
    }
    late = claims(Runs(Table(collapse_rows(2033 / 3270, 1.0, "pass"))), s)
    assert verdicts(late)["collapse-is-named"] == "fails"
    no = claims(Runs(Table(collapse_rows(0.70, 0.66, "pass"))), s)
    assert verdicts(no)["collapses-at-0.001"] == "fails"
    assert verdicts(no)["collapse-is-named"] == "undecided"  # there is nothing to name
    assert answer(yes) == "Not settled: no search was run to its end."


def test_the_answer_tells_the_accuracy_and_which_rates_collapse() -> None:
    s = FineTuningSettings(collapse_rates=(1e-3,))
    chosen = [planted("search", i, 0.83 + i / 500, [cell(5e-5, 0.85)]) for i in range(3)]

    def said(first: str, share: float) -> str:
        return answer(claims(Runs(Table([*chosen, *collapse_rows(0.62, share, first)])), s))

    # ± 1.96 √(0.832 · 0.168 / 738) of the rows, and little of the seeds
    start = "83.2 % [80.5, 85.9] of the test rows are right, chosen by dev and tested once"
    shown = "; at a rate of 0.001 it collapses to one answer"
    assert said("fail: x", 1.0) == f"{start}{shown}, which the audit names within the first epoch."
    assert said("pass", 1.0) == f"{start}{shown}."
    assert said("pass", 0.6) == f"{start}; no rate tried here is shown to collapse it."


def test_an_audit_that_must_fail_and_passes_is_a_failure() -> None:
    study = FineTuning.at("quick", collapse_rates=[1e-3])
    assert isinstance(study, FineTuning)

    def collapse(share: float) -> Finding:
        table = Table(collapse_rows(0.62, share, "pass"))
        return next(f for f in study.audits(table) if f.name == "collapse")

    assert collapse(1.0).verdict == "pass" and "must be shown" in collapse(1.0).why
    assert collapse(0.6).verdict == "pass" and "fails" not in collapse(0.6).why
    rows = collapse_rows(0.62, 1.0, "pass")
    rows[0] = Row("h0", 0, "done", rows[0].config, {**rows[0].metrics, "audit_collapse": "pass"})
    blind = next(f for f in study.audits(Table(rows)) if f.name == "collapse")
    assert blind.verdict == "fail" and "must not" in blind.why


def test_a_choice_at_the_edge_of_its_grid_is_told() -> None:
    assert at_the_edge([0.2, 0.2], [0.1, 0.2, 0.3]) == "" == at_the_edge([0.1], [0.1])
    assert at_the_edge([0.3, 0.2], [0.1, 0.2, 0.3]).startswith("The largest rate tried")
    assert at_the_edge([0.3, 0.1], [0.1, 0.2, 0.3]).startswith("The largest or smallest rate")


def test_a_leak_leaves_the_claims_undecided() -> None:
    row = planted("adamw", 0, 0.84, [cell(5e-5, 0.85)])
    leaky = Row(
        row.id, 0, "done", row.config, {**row.metrics, "audit_split-overlap": "fail: 3 rows"}
    )
    claim = Optimizers.at("quick").claims(optimizer_table(0.84))[0]
    found = {f.name: f for f in findings(Table([leaky]), [claim])}
    assert found["split-overlap"].verdict == "fail"
    assert found["split-overlap"].undermines == (claim.name,)
    assert "adamw, seed 0 first: 3 rows" in found["split-overlap"].why


def test_methods_near_full_and_the_worth_of_pretraining() -> None:
    rows = []
    for seed in range(3):
        tiny = 0.002 * seed
        for arm, value in {"full": 0.84, "lora": 0.83, "head": 0.75, "full, random": 0.72}.items():
            rows.append(planted(arm, seed, value + tiny * (arm == "lora"), [cell(1e-4, 0.8)]))
    study = Adapters.at("quick")
    found = study.claims(Table(rows))
    assert verdicts(found) == {
        "texts-full-beats-majority": "holds",
        "texts-head-near-full": "fails",
        "texts-lora-near-full": "holds",
        "texts-beats-random": "holds",
        "no-collapse": "holds",
    }
    assert adapters_answer(found) == (
        "On sentiment, within five points of all of it: LoRA; further behind: head only; "
        "pretraining is worth 12 points."
    )


def test_a_collapse_is_told_in_the_first_line() -> None:
    """Of any study, whatever else its numbers say."""
    constant = {"audit_collapse": "fail: all 'yes'"}
    rows = [
        replace(r, metrics={**r.metrics, **constant}) if r.config["arm"] == "sgd" else r
        for r in optimizer_table(0.5)
    ]
    study = Optimizers.at("quick")
    said = study.answer(study.claims(Table(rows)))
    assert said.startswith(
        "Collapsed: 3 of 6 models answer as a constant: SGD (3 of 3). Worse even"
    )
    for kind in (FineTuning, Adapters):
        named = [replace(r, config={**r.config, "arm": "full"}) for r in rows[1::2]]
        other = kind.at("quick")
        assert other.answer(other.claims(Table(named))).startswith("Collapsed: 3 of 3 models")


@pytest.mark.parametrize(
    ("rate", "typed"),
    [
        (5e-5, "5e-5"),
        (1e-4, "1e-4"),
        (1.25e-4, "1.25e-4"),
        (9.99e-4, "9.99e-4"),
        (1e-3, "0.001"),
        (0.0125, "0.0125"),
        (1.0, "1"),
        (3e-10, "3e-10"),
    ],
)
def test_a_rate_is_written_as_one_types_it(rate: float, typed: str) -> None:
    assert rate_text(rate) == typed
    assert float(rate_text(rate)) == rate
