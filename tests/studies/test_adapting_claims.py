"""What fine-tuning, optimizers and adapters conclude, from planted numbers, both ways."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnlab.api.conclude import Conclusions, draw_conclusions
from attnlab.audit.finding import Finding
from attnlab.lab.table import Row, Table
from attnlab.studies.adapting.adapters import Adapters
from attnlab.studies.adapting.evidence import CELLS, RIGHT
from attnlab.studies.adapting.fine_tuning import FineTuning
from attnlab.studies.adapting.optimizers import Optimizers
from attnlab.studies.adapting.study import AdaptStudy, rate_text


def cell(rate: float, dev: float) -> dict[str, Any]:
    scores = {"dev_accuracy": dev, "last_dev_accuracy": dev, "dev_loss": 1 - dev}
    return {"rate": rate, "batch": 32, "epochs": 1.0, **scores}


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
        "chosen_batch": 32,
        "chosen_epochs": 1.0,
        "dev_accuracy": best["dev_accuracy"],
        "train_accuracy": 0.9,
        "cells": len(cells),
        "trained": 1000,
        "cut": "all texts fit into 128 tokens",
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


def conclude(kind: type[AdaptStudy], rows: list[Row], **settings: Any) -> Conclusions:
    return draw_conclusions(kind.at("quick", **settings), Table(rows))


def verdicts(drawn: Conclusions) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in drawn.claims}


def audit(drawn: Conclusions, name: str) -> Finding:
    return next(f for f in drawn.findings if f.name == name)


def optimizer_rows(own: float, inside: bool = True) -> list[Row]:
    """At one rate SGD is at half; at its own, inside its grid or at an end, it reaches `own`."""
    rows, beyond = (
        [],
        [cell(rate, 0.4) for rate in ((0.03, 0.3, 1e-5, 1e-4) if inside else (0.03,))],
    )
    for seed in range(3):
        tiny = 0.002 * seed
        rows.append(planted("adamw", seed, 0.84 + tiny, [cell(5e-5, 0.85 + tiny)]))
        rows.append(
            planted("sgd", seed, own - tiny, [cell(5e-5, 0.51 - tiny), cell(0.1, own), *beyond])
        )
    return rows


def test_one_rate_for_all_is_told_from_each_at_its_own() -> None:
    level, worse = (
        conclude(Optimizers, optimizer_rows(own), optimizers=("adamw", "sgd"))
        for own in (0.84, 0.70)
    )
    assert verdicts(level) == {
        "sgd-behind-at-one-rate": "holds",
        "sgd-behind-at-its-own": "undecided",
        "sgd-gains-by-its-own": "holds",
        "no-collapse": "holds",
    }
    assert level.answer.startswith("It was given the wrong learning rate: at 5e-5 for both")
    assert verdicts(worse)["sgd-behind-at-its-own"] == "holds"
    assert worse.answer.startswith("It is worse even at its own learning rate, though less so: at")


@pytest.mark.parametrize(("better", "verdict"), [(True, "holds"), (False, "fails")])
def test_what_generalises_is_judged_where_training_ends(better: bool, verdict: str) -> None:
    """Both have the same best evaluation, and one of them ends worse."""
    rows = []
    for seed in range(3):
        for name in ("adamw", "adagrad"):
            falls = 0.1 + 0.002 * seed if (name == "adamw") == better else 0.0
            curves = {"dev_step": [5.0, 9.0], "dev_loss": [0.4, 0.4 + falls]}
            one = cell(5e-5, 0.85) | {"last_dev_accuracy": 0.85 - falls, "curves": curves}
            rows.append(planted(name, seed, 0.84, [one]))
    drawn = verdicts(conclude(Optimizers, rows, optimizers=("adamw", "adagrad")))
    assert drawn["adagrad-ends-more-accurate"] == verdict
    assert drawn["adagrad-ends-with-lower-loss"] == verdict
    assert drawn["adagrad-behind-at-its-own"] == "undecided"


COLLAPSE: dict[str, Any] = {"collapse_rates": [1e-3], "long_epochs": 0, "sizes": ()}
HIGH, SANE = "rate 0.001, 2 epochs", "rate 5e-05, 2 epochs"


def collapse_finding(failed: bool, early: bool = False) -> Finding:
    """What the audit says after training, and at the end of the first epoch."""
    evidence = {"first_epoch": "collapsed at step 3" if early else None}
    return Finding("collapse", "fail" if failed else "pass", None, 0.95, "constant", evidence)


def collapse_rows(accuracy: float, share: float, early: bool) -> list[Row]:
    """Three seeds at the high rate, three at the sane one, of 3,270 questions."""
    shared = {"whole_majority": 2033 / 3270, "whole_rows": 3270}
    high = {**shared, "whole_accuracy": accuracy, "whole_top_share": share}
    sane = {**shared, "whole_top_share": 0.7}
    rows = []
    for seed in range(3):
        config = {"kind": "collapse", "arm": HIGH, "learning_rate": 1e-3}
        findings = [collapse_finding(share > 0.95, early)]
        rows.append(Row(f"h{seed}", seed, "done", config, high, findings=findings))
        metrics = {**sane, "whole_accuracy": 0.68 + seed / 1000}
        config = {"kind": "collapse", "arm": SANE, "learning_rate": 5e-5}
        findings = [collapse_finding(False)]
        rows.append(Row(f"s{seed}", seed, "done", config, metrics, findings=findings))
    return rows


def test_a_collapse_is_claimed_only_where_it_is() -> None:
    def drawn(accuracy: float, share: float, early: bool, rows: int = 0) -> Conclusions:
        table = collapse_rows(accuracy, share, early)
        return conclude(FineTuning, table, **COLLAPSE, collapse_rows=rows)

    few = drawn(2033 / 3270, 1.0, True, rows=192)
    assert "sane-rate-learns" not in verdicts(few), "a subset is no result"
    yes = drawn(2033 / 3270, 1.0, True)
    expected = {
        "collapses-at-0.001-2-epochs": "holds",
        "collapse-is-named": "holds",
        "sane-rate-learns": "holds",
    }
    assert {name: verdicts(yes)[name] for name in expected} == expected
    others = verdicts(yes).keys() - expected.keys()
    assert others == {"beats-majority", "no-collapse", "dev-flatters"}
    assert {verdicts(yes)[name] for name in others} == {"undecided"}, "no search has ended"
    assert verdicts(drawn(2033 / 3270, 1.0, False))["collapse-is-named"] == "fails"
    no = drawn(0.70, 0.66, False)
    assert verdicts(no)["collapses-at-0.001-2-epochs"] == "fails"
    assert verdicts(no)["collapse-is-named"] == "undecided"  # there is nothing to name
    assert yes.answer.startswith("Not settled: no search has finished. With 200 training rows; ")


def test_the_answer_tells_the_accuracy_and_which_rates_collapse() -> None:
    chosen = [planted("search", i, 0.83 + i / 500, [cell(5e-5, 0.85)]) for i in range(3)]

    def answer(early: bool, share: float) -> str:
        rows = [*chosen, *collapse_rows(0.62, share, early)]
        return conclude(FineTuning, rows, **COLLAPSE).answer.partition(" With 200 ")[0]

    # ± 2.24 √(0.832 · 0.168 / 738) of the rows, and little of the seeds; two comparisons
    start = (
        "83.2 % [80.1, 86.3] of the test rows are classified correctly by the cell chosen on dev, "
        "which was tested once"
    )
    shown = "; at learning rate 0.001 (2 epochs) the model collapses to one answer"
    assert answer(True, 1.0) == f"{start}{shown}, which the audit finds within the first epoch."
    assert answer(False, 1.0) == f"{start}{shown}."
    assert answer(False, 0.6) == f"{start}; no learning rate tried here is shown to collapse it."


def test_a_collapse_may_fail_its_audit_only_at_the_rates_tried_for_it() -> None:
    drawn = conclude(FineTuning, collapse_rows(0.62, 1.0, True), collapse_rates=[1e-3])
    assert audit(drawn, "collapse").verdict == "pass"
    assert "fails, which is allowed" in audit(drawn, "collapse").why
    chosen = [
        replace(planted("search", i, 0.5, [cell(5e-5, 0.5)]), findings=[collapse_finding(True)])
        for i in range(3)
    ]
    assert audit(conclude(FineTuning, chosen), "collapse").verdict == "fail"


def test_an_audit_that_misses_a_collapse_is_found_out() -> None:
    """One class makes up all predictions, and the audit passes: the claim about it fails."""
    rows = collapse_rows(0.62, 1.0, True)
    rows[0] = replace(rows[0], findings=[collapse_finding(False)])
    blind = conclude(FineTuning, rows, collapse_rates=[1e-3])
    assert verdicts(blind)["collapse-is-named"] == "fails"
    seeing = conclude(FineTuning, collapse_rows(0.62, 1.0, True), collapse_rates=[1e-3])
    assert verdicts(seeing)["collapse-is-named"] == "holds"


def test_a_choice_at_the_edge_of_its_grid_leaves_what_rests_on_it_open() -> None:
    """The comparison at one rate for all rests on no choice and stands."""
    clean, faulty = (conclude(Optimizers, optimizer_rows(0.7, inside)) for inside in (True, False))
    assert audit(clean, "grid-edge").verdict == "pass"
    found = audit(faulty, "grid-edge")
    assert (found.verdict, found.number) == ("fail", 3)
    assert found.why == (
        "SGD chose 0.1, the largest value tried, in 3 of 3 searches (widen sgd_rates upwards)"
    )
    assert verdicts(clean)["sgd-behind-at-its-own"] == "holds"
    assert verdicts(clean)["sgd-gains-by-its-own"] == "holds"
    assert verdicts(faulty) == {
        "adagrad-behind-at-one-rate": "undecided",
        "adagrad-behind-at-its-own": "undecided",
        "adagrad-gains-by-its-own": "undecided",
        "adagrad-ends-more-accurate": "undecided",
        "adagrad-ends-with-lower-loss": "undecided",
        "sgd-behind-at-one-rate": "holds",
        "sgd-behind-at-its-own": "undecided",
        "sgd-gains-by-its-own": "undecided",
        "no-collapse": "holds",
    }
    assert faulty.answer.startswith("Not settled")


@pytest.mark.parametrize(
    ("kind", "arm", "setting"), [(FineTuning, "search", "rates"), (Adapters, "lora", "factors")]
)
def test_every_search_is_asked_whether_it_ended_at_an_edge(
    kind: type[AdaptStudy], arm: str, setting: str
) -> None:
    def drawn(best: float) -> Finding:
        cells = [cell(rate, 0.9 if rate == best else 0.8) for rate in (1e-5, 1e-4, 1e-3)]
        settings = {"methods": [arm]} if kind is Adapters else {}
        rows = [planted(arm, i, 0.8, cells) for i in range(3)]
        return audit(conclude(kind, rows, **settings), "grid-edge")

    assert drawn(1e-4).verdict == "pass"
    assert drawn(1e-3).verdict == "fail" and f"widen {setting} upwards" in drawn(1e-3).why


def test_a_leak_leaves_the_claims_undecided() -> None:
    rows = optimizer_rows(0.84)
    leak = Finding("split-overlap", "fail", 3, 0, "3 rows are in dev and in test")
    rows[0] = replace(rows[0], findings=[leak])
    drawn = conclude(Optimizers, rows)
    assert audit(drawn, "split-overlap").verdict == "fail"
    assert "3 rows" in audit(drawn, "split-overlap").why
    assert verdicts(drawn)["sgd-behind-at-one-rate"] == "undecided"


def test_methods_against_full_and_the_worth_of_pretraining() -> None:
    rows = []
    for seed in range(3):
        tiny = 0.002 * seed
        for arm, value in {"full": 0.84, "lora": 0.838, "head": 0.75, "full, random": 0.72}.items():
            rows.append(planted(arm, seed, value + tiny * (arm == "lora"), [cell(1e-4, 0.8)]))
    methods = {"methods": ("full", "head", "lora"), "encoders": ("random",), "pair_data": ""}
    drawn = conclude(Adapters, rows, **methods)
    assert verdicts(drawn) == {
        "texts-full-beats-majority": "holds",
        "texts-full-beats-head": "holds",
        "texts-full-beats-lora": "undecided",
        "texts-beats-random": "holds",
        "no-collapse": "holds",
    }
    assert drawn.answer.startswith(
        "On sentiment, full fine-tuning is more accurate than head only (by 8.9 ["
    )
    assert "whether it is more accurate than LoRA is not settled; pretraining is worth 12 [" in (
        drawn.answer
    )


def test_a_collapse_comes_first_in_the_answer() -> None:
    """Of any study, whatever else its numbers say."""
    rows = [
        replace(r, findings=[collapse_finding(True)]) if r.config["arm"] == "sgd" else r
        for r in optimizer_rows(0.5)
    ]
    assert conclude(Optimizers, rows).answer.startswith(
        "Collapsed: 3 of 6 models predict no better than a constant: SGD (3 of 3). It is worse even"
    )
    for kind, arm in ((FineTuning, "search"), (Adapters, "full")):
        one_arm = [replace(r, config={**r.config, "arm": arm}) for r in rows[1::2]]
        assert conclude(kind, one_arm).answer.startswith("Collapsed: 3 of 3 models")


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
