"""The study of counting: the task, the held starts, the parts of a score; verdicts can go wrong."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.api.conclude import draw_conclusions
from attnlab.audit.checks.baselines import answer_baselines
from attnlab.audit.finding import Finding
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.lab.claim import MIN_SEEDS, Claim
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, TrialContext
from attnlab.studies.counting import trial as trial_file
from attnlab.studies.counting.model import Counter, Fresh, Start, counts, draw, loss
from attnlab.studies.counting.study import TERMS, Counting, CountingSettings
from attnlab.training.loop import train
from attnlab.training.settings import TrainSettings

SIZES = CountingSettings(length=7, tokens=5, width=22, hidden=13)


def counter(start: Start, seed: int = 3) -> Counter:
    return Counter(SIZES, start, torch.Generator().manual_seed(seed))


def test_the_answer_is_the_count() -> None:
    rows = draw(SIZES, 101, Seed(2))
    for tokens, answer in zip(rows.tokens.tolist(), rows.answer.tolist(), strict=True):
        assert answer == [tokens.count(token) for token in tokens]
        assert set(tokens) <= set(range(5))
    assert torch.equal(draw(SIZES, 101, Seed(2)).tokens, rows.tokens)
    assert not torch.equal(draw(SIZES, 101, Seed(3)).tokens, rows.tokens)
    fresh = Fresh(SIZES, 3, Seed(1))
    assert torch.equal(fresh.batch(4).tokens, fresh.batch(4).tokens)
    assert not torch.equal(fresh.batch(4).tokens, fresh.batch(5).tokens)


def test_the_majority_is_that_of_the_binomial() -> None:
    """count − 1 of a place is Binomial(6, 1/5): its top is at 1, p = 6 · 0.2 · 0.8⁵.

    Places of a row depend on each other: at worst 7 equal ones, so 4 standard errors of 20,011 rows
    cover them.
    """
    answers = draw(SIZES, 20_011, Seed(5)).answer.flatten().tolist()
    found = answer_baselines(answers, classes=SIZES.length)
    top = 6 * 0.2 * 0.8**5
    assert abs(found["majority"] - top) < 4 * math.sqrt(top * (1 - top) / 20_011)
    assert found["chance"] == 1 / 7


def test_the_loss_is_that_of_counts_from_one() -> None:
    rows, model = draw(SIZES, 11, Seed(1)), counter("free")
    total, count = loss(model, rows)
    logs = model(rows.tokens).log_softmax(dim=-1)
    wanted = sum(-logs[r, i, rows.answer[r, i] - 1].item() for r in range(11) for i in range(7))
    assert total.item() == pytest.approx(wanted, rel=1e-5) and int(count) == 77


def test_four_terms_make_the_score() -> None:
    """Sums of 22 float32 products of size 1 in another order: 1e-5 is generous."""
    rows, model = draw(SIZES, 11, Seed(1)), counter("free")
    x = model.token[rows.tokens] + model.place
    terms = model.terms(rows.tokens)
    assert tuple(terms) == TERMS
    scores = model.attention.steps(x, x).scores[:, 0]
    assert torch.allclose(sum(terms.values(), torch.zeros(())), scores, atol=1e-5)
    assert torch.allclose(model.with_terms(rows.tokens, TERMS), model(rows.tokens), atol=1e-5)
    assert torch.allclose(model.weights(rows.tokens), scores.softmax(dim=-1), atol=1e-5)


@pytest.mark.parametrize("start", ["positional", "semantic"])
def test_a_start_looks_at_one_kind_only_while_it_is_held(start: Start) -> None:
    rows, model = draw(SIZES, 11, Seed(1)), counter(start)
    settings = TrainSettings(steps=5, batch=7, learning_rate=0.05, weight_decay=0.0)
    before = model.maps.detach().clone()
    train(model, Fresh(SIZES, 7, Seed(4)), settings, loss=loss)
    assert model.held() == 0.0 and not torch.equal(model.maps, before), "it did learn"
    own = "places" if start == "positional" else "tokens"
    terms = model.terms(rows.tokens)
    assert all((float(t.detach().abs().max()) > 0) == (name == own) for name, t in terms.items())
    maps = model.weights(rows.tokens)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    if start == "positional":
        assert torch.allclose(maps, maps[:1].expand_as(maps), atol=1e-6), "whatever stands there"
    else:
        moved = model.weights(rows.tokens[:, order])
        assert torch.allclose(moved, maps[:, order][:, :, order], atol=1e-6), "wherever it stands"
    model.release(0.001, torch.Generator().manual_seed(2))
    assert all(float(t.detach().abs().max()) > 0 for t in model.terms(rows.tokens).values())
    train(model, Fresh(SIZES, 7, Seed(4)), settings, loss=loss)
    shares = trial_file.measure(model, rows, "x")
    assert shares[f"x_share_{own}"] < 1  # type: ignore[operator]


def test_what_is_held_is_noticed_when_it_moves() -> None:
    model = counter("semantic")
    with torch.no_grad():
        model.maps[0, -1] = 0.25
    assert model.held() == 0.25


def test_attention_off_sees_its_own_place_only() -> None:
    rows, model = draw(SIZES, 11, Seed(1)), counter("off")
    other = rows.tokens.clone()
    other[:, 1:] = (other[:, 1:] + 1) % 5
    assert torch.equal(model(other)[:, 0], model(rows.tokens)[:, 0])
    full = counter("free")
    assert not torch.allclose(full(other)[:, 0], full(rows.tokens)[:, 0])
    assert torch.equal(full.token, model.token), "starts share their draws"


def test_where_a_place_looks() -> None:
    """Two rows of three places; by hand: itself 1+2+3+4+5+6, equal 7+8, the rest other."""
    tokens = torch.tensor([[0, 1, 0], [2, 3, 4]])
    weights = torch.zeros(2, 3, 3)
    weights[:, range(3), range(3)] = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    weights[0, 0, 2], weights[0, 2, 0], weights[1, 0, 1] = 7.0, 8.0, 5.0
    found = trial_file.mean_weights(weights, tokens)
    assert found == {"on_itself": 3.5, "on_equal": 7.5, "on_other": 0.5}


def test_counting_by_hand_is_right() -> None:
    """Scores of equal tokens 0, of others −∞ in effect: every place receives its own token."""
    rows = torch.tensor([[0, 1, 0, 2, 2, 2, 4]])
    assert counts(rows).tolist() == [[2, 1, 2, 3, 3, 3, 1]]


def trained(arm: str, seed: int = 1) -> Outcome:
    study = Counting.at(
        "smoke",
        length=7,
        tokens=5,
        width=22,
        hidden=13,
        steps=23,
        freed_steps=5,
        scored=101,
        points=3,
    )
    trial = next(t for t in study.trials() if t.config["arm"] == arm and t.seed == seed)
    return study.run(trial, TrialContext())


def test_a_trial_is_a_pure_function_of_itself() -> None:
    one, two = trained("positional"), trained("positional")
    assert one.metrics == two.metrics and one.curves == two.curves
    assert one.curves["step"] == [7.0, 14.0, 21.0, 23.0]
    assert np.array_equal(one.arrays["strong_maps"], two.arrays["strong_maps"])
    assert one.metrics["held"] == 0.0 and one.metrics["first_share_places"] == 1.0
    assert one.metrics["gentle_moved"] < one.metrics["strong_moved"]  # type: ignore[operator]
    assert trained("positional", seed=2).metrics != one.metrics
    free = trained("free").metrics
    assert "strong_accuracy" not in free and "first_accuracy" in free
    shares = [free[f"first_share_{term}"] for term in TERMS]
    assert sum(shares) == pytest.approx(1, abs=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", ["smoke", "quick", "full"])
def test_the_plan(scale: str) -> None:
    study = Counting.at(scale)
    trials = study.trials()
    assert len({t.id for t in trials}) == len(trials) == len(Counting.arms) * study.settings.seeds
    assert study.settings.seeds >= MIN_SEEDS
    more = Counting.at(scale, gentle_rate=0.07).trials()
    same = {t.id for t in trials} & {t.id for t in more}
    assert len(same) == 2 * study.settings.seeds, "what is not freed does not depend on it"


@pytest.mark.parametrize("wrong", [{"width": 7}, {"length": 1}, {"noise": -1}, {"stepps": 3}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Counting.at("quick", **wrong)


def metrics_of(arm: str, **changes: Any) -> dict[str, Any]:
    good, base = {"off": 0.53}.get(arm, 0.97), 0.53
    found: dict[str, Any] = {"majority": base, "held": 0.0}
    for phase in ("first",) if arm in ("free", "off") else ("first", "gentle", "strong"):
        own = {"positional": (good, base), "semantic": (base, good)}.get(arm, (base, base))
        found |= {
            f"{phase}_accuracy": good,
            f"{phase}_nll": 0.1 if good > 0.9 else 1.1,
            f"{phase}_by_places": own[0],
            f"{phase}_by_tokens": own[1],
            f"{phase}_moved": 0.3 if phase == "strong" else 0.002,
        }
        found |= {f"{phase}_share_{term}": 0.25 for term in TERMS}
    return found | changes


def table_of(**changes: dict[str, Any]) -> Table:
    """Three seeds of every start, apart by 0.001; `changes` by start."""
    rows = []
    for arm in Counting.arms:
        for seed in range(3):
            metrics = metrics_of(arm, **changes.get(arm, {}))
            metrics["first_accuracy"] += 0.001 * seed
            metrics["first_nll"] -= 0.001 * seed
            if "gentle_moved" in metrics:
                metrics["gentle_moved"] += 0.0001 * seed
            failing = metrics.pop("failing", None)
            findings = [
                Finding(name, "fail" if name == failing else "pass", 0, 0, f"{name} of {arm}")
                for name in ("collapse", "freeze")
            ]
            config = {"arm": arm, "scored": 2000}
            row = Row(f"{arm}{seed}", seed, "done", config, metrics, findings=findings)
            rows.append(row)
    return Table(rows)


def judged(table: Table) -> dict[str, Claim]:
    return {c.name: c for c in draw_conclusions(Counting.at("quick"), table).claims}


def test_verdicts_follow_the_table() -> None:
    found = judged(table_of())
    assert {c.verdict for c in found.values()} == {"holds"} and len(found) == 10
    drawn = draw_conclusions(Counting.at("quick"), table_of())
    assert drawn.answer.startswith(
        "Yes: 97.1 % of the counts are right with scores of positions and 97.1 %"
    )
    assert {f.verdict for f in drawn.findings} == {"pass"}
    assert drawn.sections[0].heading == "Two ways to count"


@pytest.mark.parametrize(
    ("arm", "changes", "claim", "verdict"),
    [
        ("positional", {"first_accuracy": 0.4}, "positional-solves", "fails"),
        ("positional", {"first_accuracy": 0.4}, "strong-keeps-positional", "undecided"),
        ("semantic", {"first_accuracy": 0.4}, "semantic-needs-attention", "fails"),
        ("positional", {"strong_by_places": 0.4}, "strong-keeps-positional", "fails"),
        ("semantic", {"gentle_by_tokens": 0.4}, "gentle-keeps-semantic", "fails"),
        ("semantic", {"gentle_moved": 0.5}, "gentle-is-no-trial", "fails"),
        ("free", {"first_by_tokens": 0.99}, "free-start-mixes", "fails"),
    ],
)
def test_a_planted_fault_turns_a_verdict(
    arm: str, changes: dict[str, Any], claim: str, verdict: str
) -> None:
    assert judged(table_of(**{arm: changes}))[claim].verdict == verdict


@pytest.mark.parametrize(
    ("arm", "changes", "audit"),
    [
        ("positional", {"failing": "freeze"}, "freeze"),
        ("semantic", {"failing": "collapse"}, "collapse"),
        ("semantic", {"first_accuracy": 0.53}, "baselines"),
        ("off", {"first_nll": 0.1}, "attention-worth"),
    ],
)
def test_audits_name_what_is_wrong(arm: str, changes: dict[str, Any], audit: str) -> None:
    table = table_of(**{arm: changes})
    findings = {f.name: f for f in draw_conclusions(Counting.at("quick"), table).findings}
    assert findings[audit].verdict == "fail"
    constant = draw_conclusions(Counting.at("quick"), table_of(off={"failing": "collapse"}))
    allowed = {f.name: f for f in constant.findings}["collapse"]
    assert allowed.verdict == "pass" and "collapse of off" in allowed.why


def test_an_empty_table_breaks_nothing() -> None:
    study = Counting.at("smoke")
    drawn = draw_conclusions(study, Table([]))
    assert {c.verdict for c in drawn.claims} == {"undecided"}
    assert drawn.answer.startswith("Not settled") and drawn.sections and drawn.findings
    assert study.figures(drawn.evidence) == [] and drawn.evidence.names() == []
    assert CountingSettings().seeds >= MIN_SEEDS


def test_held_entries_are_a_finding() -> None:
    assert trial_file.held_at_zero(0.0).verdict == "pass"
    assert trial_file.held_at_zero(1e-3).verdict == "fail"


def test_the_smoke_scale_runs_to_its_report(tmp_path: Path) -> None:
    from attnlab.api.running import run

    settings = {"device": "cpu", "steps": 20, "freed_steps": 5, "scored": 101}
    done = run("counting", scale="smoke", out=tmp_path / "runs", engine="inline", settings=settings)
    assert not done.failed and done.report.is_file()
    assert len(done.results["figures"]) == 3 and len(done.results["claims"]) == 10
