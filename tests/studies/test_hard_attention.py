"""The study of hard attention: task, model and slopes are what they say; verdicts can go wrong."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.api.conclude import draw_conclusions
from attnlab.construct.apply import jacobian_norms
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.hard_attention import trial as trial_file
from attnlab.studies.hard_attention.gradients import by_formula, given, query_slopes, turned_slope
from attnlab.studies.hard_attention.model import (
    Choice,
    Fresh,
    Lookup,
    Rows,
    draw,
    loss,
    nll,
    without_model,
)
from attnlab.studies.hard_attention.study import (
    ARMS,
    HARD,
    HARD_FIXED,
    OFF,
    SOFT,
    THROUGH,
    Evidence,
    HardAttention,
    HardSettings,
    choices,
)

SIZES = HardSettings(pairs=5, symbols=11, answers=7, width=13)


def lookup(seed: int = 3, **choice: Any) -> Lookup:
    return Lookup(SIZES, Choice(**choice), torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def rows() -> Rows:
    return draw(SIZES, 101, Seed(2))


def test_a_row_asks_for_a_key_it_shows(rows: Rows) -> None:
    for keys, values, asked, answer, place in zip(
        rows.keys.tolist(),
        rows.values.tolist(),
        rows.asked.tolist(),
        rows.answer.tolist(),
        rows.place.tolist(),
        strict=True,
    ):
        assert len(set(keys)) == 5 and set(keys) <= set(range(11)) and set(values) <= set(range(7))
        assert keys.index(asked) == place and values[place] == answer
    again = draw(SIZES, 101, Seed(2))
    assert torch.equal(again.keys, rows.keys) and torch.equal(again.answer, rows.answer)
    assert not torch.equal(draw(SIZES, 101, Seed(3)).keys, rows.keys)


def test_baselines_are_those_of_counting() -> None:
    """One item: 1/5 + 4/5 · 1/7, to four standard errors of 20,011 rows; the rest by a loop."""
    many = draw(SIZES, 20_011, Seed(5))
    found = without_model(many, SIZES.answers)
    one = 1 / 5 + 4 / 5 / 7
    assert abs(found["one_item"] - one) < 4 * math.sqrt(one * (1 - one) / 20_011)
    assert found["chance"] == 1 / 7
    right = 0
    for values, answer in zip(many.values.tolist(), many.answer.tolist(), strict=True):
        most = max(values.count(v) for v in values)
        right += answer == min(v for v in values if values.count(v) == most)
    assert found["most_frequent"] == right / 20_011
    assert 1 / 7 <= found["majority"] < found["one_item"] < found["most_frequent"]


def test_the_temperature_falls_by_one_factor() -> None:
    fresh = Fresh(SIZES, 3, 7, (1.0, 0.02), Seed(1))
    seen = [fresh.batch(step).temperature for step in range(7)]
    assert seen[0] == 1.0 and seen[-1] == pytest.approx(0.02, rel=1e-12)
    factors = [b / a for a, b in pairwise(seen)]
    assert max(factors) == pytest.approx(min(factors), rel=1e-12)
    assert torch.equal(fresh.batch(4).keys, fresh.batch(4).keys)
    assert not torch.equal(fresh.batch(4).keys, fresh.batch(5).keys)
    assert Fresh(SIZES, 3, 1, (1.0, 0.02), Seed(1)).batch(0).temperature == 1.0


def test_the_model_is_its_formula(rows: Rows) -> None:
    """softmax(q·k / (√d T)) by hand; float32 sums of 13 products of size 1: 1e-5 is generous."""
    made = lookup(temperature=[0.3, 0.3])
    w_q, w_k, w_v = made.maps.chunk(3)
    items = made.key[rows.keys] + made.value[rows.values]
    scores = torch.einsum("bd,bid->bi", made.asked[rows.asked] @ w_q.T, items @ w_k.T)
    weights = (scores / math.sqrt(13) / 0.3).softmax(dim=-1)
    heads = torch.einsum("bi,bid->bd", weights, items @ w_v.T)
    logits = heads @ made.attention.merge.out.weight.T @ made.read.T
    assert torch.allclose(made(rows), logits, atol=1e-5)


def test_scores_start_with_a_spread_near_one(rows: Rows) -> None:
    """E q_a² = E k_a² = 1 by the sizes of embeddings and maps, so E (q·k/√d)² = 1.

    A model's mean square varies by some √(2/13) relative, the mean of 31 by 0.07: ± 0.3 is 4 of it.
    """
    with torch.no_grad():
        squares = [float(lookup(seed).steps(rows).scores.square().mean()) for seed in range(31)]
    assert 0.7 < np.mean(squares) < 1.3


def test_arms_share_their_start_and_differ_in_their_choice(rows: Rows) -> None:
    plan = choices(HardSettings())
    made = {name: lookup(**choice) for name, choice in plan.items()}
    for other in made.values():
        assert torch.equal(other.maps, made[SOFT].maps)
        assert torch.equal(other.key, made[SOFT].key)
    with torch.no_grad():
        assert torch.equal(made[HARD](rows), made[THROUGH](rows)), "the same function forward"
        assert not torch.allclose(made[HARD](rows), made[SOFT](rows))
        first = replace(rows, keys=rows.keys.clone(), values=rows.values.clone())
        first.values[:, 1:] = 0
        assert torch.equal(made[OFF](first), made[OFF](rows)), "off sees the first item only"
        assert not torch.equal(made[SOFT](first), made[SOFT](rows))
    assert not any(getattr(made[HARD_FIXED], name).requires_grad for name in ("key", "value"))
    assert made[HARD].key.requires_grad


def test_reading_with_argmax_changes_the_reading_only(rows: Rows) -> None:
    made = lookup()
    before = trial_file.score(made, rows)
    hard = trial_file.score_with_argmax(made, rows)
    assert hard["found"] == before["found"], "the largest weight is the highest score"
    assert hard == trial_file.score(lookup(normalise="argmax"), rows)
    assert trial_file.score(made, rows) == before, "put back"


def test_first_gradients(rows: Rows) -> None:
    """Argmax: exactly 0 for queries and keys; the batch's own T counts, not the last one's."""
    fresh = Fresh(SIZES, 17, 7, (1.0, 1.0), Seed(1))
    hard = trial_file.first_gradient(lookup(normalise="argmax"), fresh)
    assert hard["gradient_query"] == hard["gradient_key"] == 0.0 and hard["log_noise"] is None
    value = hard["gradient_value"]
    assert isinstance(value, float) and value > 0
    for name in ("softmax", "straight-through"):
        found = trial_file.first_gradient(lookup(normalise=name), fresh)
        assert all(isinstance(v, float) and v != 0 for v in found.values())
    made = lookup()
    total, count = loss(made, replace(rows, temperature=0.5))
    assert made.temperature == 0.5 and int(count) == 101
    assert total.item() == pytest.approx(nll(made(rows), rows).item(), rel=1e-6)


def trained(arm: str, seed: int = 1, **changes: Any) -> Outcome:
    study = HardAttention.at(
        "smoke", pairs=5, symbols=11, answers=7, width=13, steps=23, scored=101, points=3, **changes
    )
    trial = next(t for t in study.trials() if t.config.get("arm") == arm and t.seed == seed)
    return study.run(trial, TrialContext())


def test_training_with_argmax_moves_values_and_nothing_else() -> None:
    fixed, free, soft = (trained(arm).metrics for arm in (HARD_FIXED, HARD, SOFT))
    for found in (fixed, free):
        assert found["moved_query"] == found["moved_key"] == 0.0
        assert found["moved_value"] > 1e-3  # type: ignore[operator]
    assert fixed["found"] == fixed["found_start"]
    assert soft["moved_query"] > 1e-3 < soft["moved_key"]  # type: ignore[operator]
    assert "pushed_wrong" not in soft and "pushed_wrong" in free


def test_a_trial_is_a_pure_function_of_itself() -> None:
    one, two = trained(THROUGH), trained(THROUGH)
    assert one.metrics == two.metrics and one.curves == two.curves
    assert one.curves["step"] == [7.0, 14.0, 21.0, 23.0]
    assert trained(THROUGH, seed=2).metrics != one.metrics


def test_errors_push_what_the_loss_says() -> None:
    """By hand, one row at a time: the gradient of −log p in the embedding of the picked item.

    The same float32 products in another order: 1e-4 is a thousand roundings.
    """
    rows, made = draw(SIZES, 307, Seed(2)), lookup(normalise="argmax")
    hard = Choice(normalise="argmax")
    sizes: dict[bool, list[float]] = {True: [], False: []}
    for at in range(307):
        row = Rows(
            *(getattr(rows, n)[at : at + 1] for n in ("keys", "values", "asked", "answer", "place"))
        )
        items = made.items(row).detach().requires_grad_(True)
        steps = made.steps(row, items)
        torch.nn.functional.cross_entropy(made.logits(steps), row.answer).backward()
        assert items.grad is not None
        picked = int(steps.weights[0, 0, 0].argmax())
        assert items.grad[0, [i for i in range(5) if i != picked]].abs().max() == 0
        sizes[picked == int(row.place)].append(float(items.grad[0, picked].norm()))
    assert min(map(len, sizes.values())) >= trial_file.ENOUGH
    wanted = np.mean(sizes[False]) / np.mean(sizes[True])
    assert trial_file.push_ratio(made, rows, hard)["pushed_wrong"] == pytest.approx(
        wanted, rel=1e-4
    )
    few = draw(SIZES, 7, Seed(1))
    assert trial_file.push_ratio(made, few, hard) == {"pushed_wrong": None}
    assert trial_file.push_ratio(made, rows, Choice()) == {}


@pytest.mark.parametrize("temperature", [2.0, 0.5, 0.1])
def test_the_formula_of_the_slope(temperature: float) -> None:
    """Against autograd through the parts, and against differences of a softmax written here.

    Both sum 7 · 5 · 3 products of doubles of size 1 / T: 1e-10 relative is far above rounding.
    Differences with step 1e-6: the error is of order (1e-6 / T)² relative, and rounding of outputs
    of size 1, 2e-16, over the step in 15 entries: below 1e-8.
    """
    rng = np.random.default_rng(7)
    keys, query, values = (rng.normal(size=s) for s in ((11, 7, 5), (11, 5), (11, 7, 3)))
    found = query_slopes(keys, query, values, temperature)

    def output(k: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        scores = k @ q / math.sqrt(5) / temperature
        weights = np.exp(scores - scores.max())
        return weights @ v / weights.sum()

    for k, q, v, slope in zip(keys, query, values, found, strict=True):
        assert slope == pytest.approx(
            jacobian_norms(k, q, v, "softmax", temperature, "sqrt").query, rel=1e-10
        )
        steps = 1e-6 * np.eye(5)
        jacobian = [(output(k, q + e, v) - output(k, q - e, v)) / 2e-6 for e in steps]
        assert slope == pytest.approx(float(np.linalg.norm(jacobian)), rel=1e-6, abs=1e-8)


def test_median_mean_and_who_carries_them() -> None:
    """The same instances drawn here, their slopes sorted by hand."""
    found = by_formula((5, 3, 2), [0.7, 0.05], 101, Seed(3))
    rng = Seed(3).numpy_generator()
    keys, query, values = (rng.normal(size=s) for s in ((101, 5, 3), (101, 3), (101, 5, 2)))
    for at, temperature in enumerate((0.7, 0.05)):
        sizes = sorted(query_slopes(keys, query, values, temperature), reverse=True)
        total, carrying, so_far = sum(s * s for s in sizes), 0, 0.0
        while so_far < total / 2:
            so_far, carrying = so_far + sizes[carrying] ** 2, carrying + 1
        assert found["formula_share"][at] == carrying / 101
        assert found["formula_median"][at] == sizes[50]
        assert found["formula_mean"][at] == pytest.approx(sum(sizes) / 101, rel=1e-12)
    assert found["formula_share"][1] < found["formula_share"][0]


def test_the_turned_query() -> None:
    """Slope a degree against differences of the output over a thousandth of a degree."""
    keys = np.array([[1.0, 0.1], [-0.6, 0.8], [0.4, -0.9]])
    values = np.array([1.0, 2.0, -0.5])

    def at(degrees: float) -> tuple[float, float]:
        angle = math.radians(degrees)
        query = 2.3 * np.array([math.cos(angle), math.sin(angle)])
        return turned_slope(keys, values, query, 0.4)

    for degrees in (-170, -31, 0, 44, 101):
        slope = (at(degrees + 5e-4)[0] - at(degrees - 5e-4)[0]) / 1e-3
        assert at(degrees)[1] == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_the_given_example_is_a_staircase() -> None:
    settings = {
        "keys": [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]],
        "values": [3.0, 5.0, 7.0],
        "query": [2.0, 1.0],
        "kind": "given",
    }
    out = given(Trial("hard-attention", 1, settings, 0))
    assert out.metrics["index"] == 0 and out.metrics["output"] == 3.0
    assert out.metrics["gap"] == pytest.approx(1.0)
    assert out.metrics["argmax_query"] == out.metrics["argmax_query_difference"] == 0.0
    assert out.metrics["straight-through_query"] == out.metrics["softmax_query"] != 0
    assert out.metrics["straight-through_query_difference"] == 0.0
    assert set(out.curves["argmax"]) == {3.0, 5.0, 7.0}
    jumps = np.flatnonzero(np.diff(out.curves["picked"]))
    # x = y, x = −2y on the left, y = −2x below: 45, about 153 and about −63 degrees
    wanted = [-math.degrees(math.atan(2)), 45.0, 180 - math.degrees(math.atan(0.5))]
    assert np.allclose(np.array(out.curves["angle"])[jumps], wanted, atol=0.51)
    flat = given(Trial("h", 1, {**settings, "query": [0.0, 0.0]}, 0))
    assert flat.metrics["gap"] is None and flat.reasons["gap"]


@pytest.mark.parametrize("scale", ["smoke", "quick", "full"])
def test_the_plan(scale: str) -> None:
    study = HardAttention.at(scale)
    trials = study.trials()
    assert len({t.id for t in trials}) == len(trials)
    models = [t for t in trials if t.config["kind"] == "model"]
    seeds = {t.seed for t in models}
    assert len(seeds) >= (3 if scale == "smoke" else 5)
    assert len(models) == len(seeds) * len(ARMS) * len(study.settings_json()["rates"])
    assert {t.config["kind"] for t in trials} == {"given", "slopes", "model", "baselines"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": 17},
        {"given_values": [1.0]},
        {"given_keys": []},
        {"temperatures": [1.0, 0.0]},
        {"temperatures": []},
        {"rates": [0.1, 0.1]},
        {"cold": 0.0},
        {"stepps": 3},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        HardAttention.at("quick", **wrong)


GOOD = {
    "accuracy": 0.999,
    "hard_accuracy": 1.0,
    "dev_accuracy": 1.0,
    "dev_nll": 0.01,
    "nll": 0.01,
    "found": 1.0,
    "found_start": 0.125,
    "moved_query": 0.5,
    "moved_key": 0.5,
    "log_noise": 0.0,
    "gradient_query": 0.1,
}
POOR = {
    **GOOD,
    "accuracy": 0.18,
    "hard_accuracy": 0.18,
    "dev_accuracy": 0.18,
    "dev_nll": 2.7,
    "nll": 2.7,
    "found": 0.125,
    "moved_query": 0.0,
    "moved_key": 0.0,
    "log_noise": None,
    "pushed_wrong": 1.5,
}


def model_row(arm: str, seed: int, rate: float = 0.01, **changes: Any) -> Row:
    jitter = 1e-4 * (seed - 2)
    metrics = {**(POOR if arm in (HARD, HARD_FIXED, OFF) else GOOD), **changes}
    metrics["accuracy"] += jitter
    metrics["nll"] += jitter
    order = list(ARMS).index(arm)
    config = {"kind": "model", "arm": arm, "rate": rate, "order": order, "scored": 2000}
    curves = {"step": [1.0], "accuracy": [0.5], "found": [0.5]}
    return Row(
        f"{arm}{seed}{rate}",
        seed,
        "done",
        config,
        metrics,
        load_curves=lambda: curves,
    )


def rules_row(seed: int) -> Row:
    """Rules without a model; the best of them is right in a quarter of the rows."""
    rules = {"chance": 0.06, "majority": 0.08, "one_item": 0.18, "most_frequent": 0.25}
    return Row(f"rules{seed}", seed, "done", {"kind": "baselines"}, rules)


def table_of(**planted: Mapping[str, Any]) -> Table:
    """Five seeds of every arm and of the rules; what is planted is given by arm."""
    models = [model_row(arm, seed, **planted.get(arm, {})) for arm in ARMS for seed in range(5)]
    return Table([*models, *(rules_row(seed) for seed in range(5))])


def judged(**changes: Mapping[str, Any]) -> tuple[HardAttention, Table, dict[str, Claim]]:
    """A table as planted: `changes` by arm, underscores for spaces."""
    planted = {name.replace("_", " "): values for name, values in changes.items()}
    study = HardAttention.at("quick")
    assert isinstance(study, HardAttention)
    table = table_of(**planted)
    return study, table, {c.name: c for c in study.claims(study.evidence(table))}


def test_verdicts_follow_the_table() -> None:
    _, _, found = judged()
    held = (
        "softmax-learns",
        "attention-matters",
        "argmax-falls-short",
        "straight-through-learns",
        "softmax-can-be-hardened",
        "argmax-maps-stay",
        "argmax-routing-stays",
        "annealing-learns",
    )
    assert {name: found[name].verdict for name in held} == dict.fromkeys(held, "holds")
    assert found["values-learn-the-rest"].verdict == "not judged", "a measurement"
    assert found["argmax-has-no-slope"].verdict == "undecided", "no slopes in this table"


@pytest.mark.parametrize(
    ("arm", "changes", "claim"),
    [
        ("argmax", {"accuracy": 0.999}, "argmax-falls-short"),
        ("argmax", {"moved_key": 1e-6}, "argmax-maps-stay"),
        ("argmax", {"found": 0.1}, "argmax-drifts-sideways"),
        ("argmax", {"pushed_wrong": 0.8}, "errors-push-harder"),
        ("softmax", {"accuracy": 0.2}, "softmax-learns"),
        ("straight-through", {"accuracy": 0.1}, "straight-through-learns"),
        ("softmax", {"hard_accuracy": 0.1}, "softmax-can-be-hardened"),
        ("softmax, annealed", {"hard_accuracy": 0.1}, "annealing-learns"),
        ("attention off", {"accuracy": 0.999}, "attention-matters"),
    ],
)
def test_a_planted_fault_turns_a_verdict(arm: str, changes: dict[str, Any], claim: str) -> None:
    study = HardAttention.at("quick")
    found = {c.name: c for c in study.claims(study.evidence(table_of(**{arm: changes})))}
    assert found[claim].verdict in ("fails", "undecided")


def test_the_rate_is_chosen_on_dev_rows_and_reported_on_test_rows() -> None:
    rows = [model_row(SOFT, seed, 0.01, dev_accuracy=0.7, accuracy=0.9) for seed in range(3)]
    rows += [model_row(SOFT, seed, 0.1, dev_accuracy=0.8, accuracy=0.6) for seed in range(3)]
    e = Evidence(Table(rows), {arm: arm for arm in ARMS})
    assert {row["rate"] for row in e.best(SOFT)} == {0.1}
    assert e.estimate(SOFT, "accuracy").value == pytest.approx(0.6, abs=1e-3)
    assert e.ids(SOFT) == [row.id for row in rows[3:]]


def test_equal_accuracies_are_told_apart_by_the_loss_and_a_diverged_rate_comes_last() -> None:
    rows = [model_row(SOFT, seed, 0.01, dev_nll=0.2) for seed in range(3)]
    rows += [model_row(SOFT, seed, 0.1, dev_nll=0.1) for seed in range(3)]
    rows += [model_row(SOFT, seed, 0.3, dev_accuracy=None) for seed in range(3)]
    e = Evidence(Table(rows), {arm: arm for arm in ARMS})
    assert {row["rate"] for row in e.best(SOFT)} == {0.1}


@pytest.mark.parametrize(
    ("best", "audited", "verdict"), [(0.01, "pass", "holds"), (0.1, "fail", "undecided")]
)
def test_a_rate_at_the_end_of_its_grid_settles_nothing(
    best: float, audited: str, verdict: str
) -> None:
    """Softmax prefers one rate; the claims that rest on it are open where it is the largest."""
    scores = {rate: 1.0 if rate == best else 0.9 for rate in (0.001, 0.01, 0.1)}
    rows = [
        model_row(SOFT, seed, rate, dev_accuracy=score)
        for rate, score in scores.items()
        for seed in range(5)
    ]
    others = [row for row in table_of() if row.get("arm") != SOFT]
    drawn = draw_conclusions(HardAttention.at("quick"), Table([*rows, *others]))
    finding = next(f for f in drawn.findings if f.name == "grid-edge")
    claims = {c.name: c.verdict for c in drawn.claims}
    assert finding.verdict == audited and claims["softmax-learns"] == verdict
    assert claims["argmax-maps-stay"] == "holds", "it holds at any rate"


def test_audits_name_what_is_wrong() -> None:
    study, table, _ = judged()
    found = {f.name: f for f in draw_conclusions(study, table).findings}
    assert found["collapse"].verdict == "pass" and found["attention-worth"].verdict == "pass"
    study, table, _ = judged(argmax={"collapsed": True})
    finding = {f.name: f for f in draw_conclusions(study, table).findings}["collapse"]
    assert finding.verdict == "fail" and finding.why.endswith("one answer: argmax")
    worse = [model_row(HARD, seed, 0.3, dev_accuracy=0.1, collapsed=True) for seed in range(5)]
    _, table, _ = judged()
    elsewhere = draw_conclusions(study, Table([*table, *worse])).findings
    assert {f.name: f for f in elsewhere}["collapse"].verdict == "pass", "that rate is not read"
    study, table, _ = judged(attention_off={"nll": 0.01})
    assert {f.name: f for f in draw_conclusions(study, table).findings}[
        "attention-worth"
    ].verdict == "fail"


def test_an_empty_table_breaks_nothing() -> None:
    study = HardAttention.at("smoke")
    drawn = draw_conclusions(study, Table([]))
    assert {c.verdict for c in drawn.claims} == {"undecided"}
    assert len({c.name for c in drawn.claims}) == 20
    assert drawn.answer.startswith("Not settled") and drawn.sections and drawn.findings
    assert study.figures(drawn.evidence) == []


def test_a_part_of_a_table_breaks_nothing() -> None:
    """Models alone: figures and paragraphs of what is there."""
    study, table, _ = judged()
    drawn = draw_conclusions(study, table)
    shown = study.figures(drawn.evidence)
    assert {figure.name for figure in shown} == {"learning", "accuracy", "rates"}
    for figure in shown:
        figure.draw()
    assert drawn.sections and "staircase" not in drawn.answer


def test_the_smoke_scale_runs_to_its_report(tmp_path: Path) -> None:
    from attnlab.api.running import run

    settings = {"device": "cpu", "steps": 20, "scored": 101, "many": 101}
    done = run(
        "hard-attention", scale="smoke", out=tmp_path / "runs", engine="inline", settings=settings
    )
    assert not done.failed and done.report.is_file()
    assert len(done.results["figures"]) == 6 and len(done.results["claims"]) == 20
    judged = HardAttention.at("smoke", **settings)  # as if it were no smoke run
    drawn = draw_conclusions(judged, done.table)
    claims = {c.name: c for c in drawn.claims}
    for name in (
        "argmax-has-no-slope",
        "argmax-maps-stay",
        "argmax-routing-stays",
        "straight-through-disagrees",
        "softmax-agrees",
    ):
        assert (claims[name].verdict, claims[name].kind) == ("holds", "check"), name
    assert drawn.answer.startswith("Its output is a staircase")
