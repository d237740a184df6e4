"""Parts of the study of knowledge: sentences, answers together, surnames, what is told of both."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.core.seeds import Seed
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table
from attnlab.models.build import model_from_json
from attnlab.models.config import GPTConfig
from attnlab.report.prose import study_prose
from attnlab.studies.knowledge import checks
from attnlab.studies.knowledge.arms import changes
from attnlab.studies.knowledge.bias import Agreement, agreement, crossed
from attnlab.studies.knowledge.scoring import said, together, told
from attnlab.studies.knowledge.search import search_rate
from attnlab.studies.knowledge.study import COURSE_FILES, Knowledge
from attnlab.studies.knowledge.trial import arm_model
from attnlab.tasks.birthplaces import Question


def verdicts(found: Sequence[Claim]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in found}


def test_the_report_tells_memorised_from_extracted_and_names_what_decides() -> None:
    """Planted: of 80 memorised 20 are answered; the surname decides in one world of three."""
    rows = []
    for seed in range(3):
        metrics = {
            "read_accuracy": 0.3 + 0.001 * seed,  # all alike would be no certainty
            "read_right": 30,
            "read_n": 100,
            "majority": 0.2,
            "ceiling": 1.0,
            "recalled_right": 80,
            "recalled_n": 100,
            "memorised_n": 80,
            "memorised_right": 20,
            "forgotten_n": 20,
            "forgotten_right": 10,
            "surname_agreement": 0.5,
            "surname_shuffled": 0.3,
            "surname_excess": 0.2 + 0.01 * seed,
            "surname_p": 0.01 if seed == 1 else 0.4,
        }
        rows.append(Row(f"p{seed}", seed, "done", {"arm": "pretrained"}, metrics))
    study = Knowledge.at("quick", arms=["pretrained"])
    evidence = study.evidence(Table(rows))
    claims = study.claims(evidence)
    assert verdicts(claims)["surname-decides"] == verdicts(claims)["memorised-not-extracted"]
    assert verdicts(claims)["surname-decides"] == "holds"
    sections = {s.heading: s for s in study_prose(study, evidence, claims)[1]}
    _, row = sections["Why a memorised fact is not always given when asked for"].table
    assert [cell.split(" %")[0] for cell in row[1:]] == ["80.0", "25.0", "50.0"]
    text = " ".join(sections["What it makes up"].paragraphs)
    assert "not in every world more than chance" in text
    plain = Knowledge.at("quick", arms=["pretrained"], crossed=0)
    assert "surname-decides" not in verdicts(plain.claims(evidence))


def test_a_sentence_is_told_of_whole_names_up_to_the_place_after_them() -> None:
    ed, al = (Question("?", name, "Houston") for name in ("Ed Cox", "Al Houston"))
    assert told(ed, "Ed Cox was born in Houston.") == "Ed Cox was born in "
    assert told(ed, "Ted Cox was born in Houston.") == told(ed, "Houston is where Ed Cox is.") == ""
    assert told(ed, "Ed Cox left Houstonia for Houston.") == "Ed Cox left Houstonia for "
    assert told(al, "Al Houston was born in Houston.") == "Al Houston was born in "
    assert told(al, "Al Houston played.") == told(Question("?", "Al", None), "Al played.") == ""


def test_memorised_and_asked_are_counted_together() -> None:
    kept, right = np.array([1, 1, 1, 0, 0, -1, -1]), np.array([1, 0, 1, 1, 0, 1, 0], dtype=bool)
    assert together(kept, right) == {
        "recalled_right": 3,
        "recalled_n": 5,
        "memorised_n": 3,
        "memorised_right": 2,
        "forgotten_n": 2,
        "forgotten_right": 1,
    }


@pytest.mark.parametrize("reads", ["course", "block", "block+local"])
def test_a_perceiver_answers_rows_together_as_it_does_alone(reads: str) -> None:
    """Against `generate`, which reads every row alone; lengths differ, one outgrows the block."""
    base = GPTConfig(vocab=11, block=17, layers=4, heads=1, d_model=13).to_json()
    model = model_from_json(base | {"latents": 3, "reads": reads}, Seed(5).torch_generator()).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(7)  # far from ties
    rng = np.random.default_rng(3)
    prompts = [tuple(rng.integers(0, 11, size=n).tolist()) for n in (2, 13, 5, 3, 7, 23, 5)]
    for stops in ((), (4, 7)):
        wanted = generate(model, prompts, Strategy("greedy"), max_new_tokens=7, stop_ids=stops)
        for batch in (2, 5):
            found = said(model, prompts, 7, batch, stops)
            assert [(t.ids, t.ended) for t in found] == [(t.ids, t.ended) for t in wanted]
    assert said(model, [], 7, 2) == []


def test_agreement_is_counted_by_surname() -> None:
    """Two first names, three surnames: Rome-Rome, Oslo-Oslo, Rome-Bern; then one left out."""
    names = [f"{first} {last}" for first in ("Al", "Bo") for last in ("Ames", "Bird", "Cox")]
    places = ["Rome", "Oslo", "Rome", "Rome", "Oslo", "Bern"]
    found = agreement(names, places, Seed(1))
    assert found is not None and found.share == pytest.approx(2 / 3)
    fewer = agreement(names[1:], places[1:], Seed(1))
    assert fewer is not None and fewer.share == pytest.approx(1 / 2)
    assert agreement(names[:3], places[:3], Seed(1)) is None, "no surname twice"


def test_shuffled_surnames_are_the_baseline() -> None:
    names = [f"F{first} L{last}" for first in range(7) for last in range(11)]

    def judged(places: list[str], seed: int = 1) -> Agreement:
        found = agreement(names, places, Seed(seed))
        assert found is not None
        return found

    strong = judged([f"{last % 3}" for _ in range(7) for last in range(11)])
    assert strong.share == 1 and strong.p < 0.01 and strong.excess > 0.5
    by_first = judged([f"{first % 3}" for first in range(7) for _ in range(11)])
    assert by_first.excess == pytest.approx(0, abs=1e-12) and by_first.p == 1
    rng = np.random.default_rng(5)
    drawn = [judged(rng.integers(0, 3, 77).astype(str).tolist(), i) for i in range(23)]
    few = sum(found.p < 0.05 for found in drawn)  # Binomial(23, 0.05): above 6 once in 10,000
    # an excess has a spread of some 0.03 (231 pairs of p = 1/3): the mean of 23, of 0.007
    assert few <= 6 and abs(np.mean([found.excess for found in drawn])) < 0.03


def test_names_are_crossed_and_nobody_known_is_among_them() -> None:
    made = [Question(f"Where was {n} born?", n, None) for n in ("Al Ames", "Bo Bird", "Cy Cox")]
    found = crossed(made, {"Al Bird"}, 3)
    assert [q.name for q in found] == [
        "Al Ames",
        "Al Cox",
        "Bo Ames",
        "Bo Bird",
        "Bo Cox",
        "Cy Ames",
        "Cy Bird",
        "Cy Cox",
    ]
    assert found[1].text == "Where was Al Cox born?" and found[1].place is None
    assert len(crossed(made, set(), 2)) == 4
    assert crossed(made, set(), 0) == crossed(made[:1], set(), 5) == []


def loss_with_its_lowest_at(best: float) -> tuple[Callable[[float], float], list[float]]:
    """A parabola in the logarithm of the rate; the rates asked for are noted."""
    asked: list[float] = []

    def loss_at(rate: float) -> float:
        asked.append(rate)
        return math.log(rate / best) ** 2

    return loss_at, asked


def test_a_rate_inside_the_grid_is_chosen_and_an_edge_is_left_behind() -> None:
    grid = (3e-4, 1e-3, 3e-3)
    loss_at, asked = loss_with_its_lowest_at(1.1e-3)
    found = search_rate(loss_at, grid)
    assert found.rate == 1e-3 and asked == list(grid)
    assert found.metrics() == {"rate": 1e-3, "rates_tried": "0.0003; 0.001; 0.003"}
    for best, chosen in ((1e-2, 9e-3), (1e-4, 9e-5)):
        loss_at, asked = loss_with_its_lowest_at(best)
        found = search_rate(loss_at, grid)
        assert found.rate == pytest.approx(chosen) and len(asked) == 5


def test_a_search_that_never_leaves_the_edge_says_so_and_divergence_is_no_choice() -> None:
    loss_at, asked = loss_with_its_lowest_at(1e9)
    found = search_rate(loss_at, (1e-3, 3e-3))
    assert found.rate == max(asked) and len(asked) == 5
    found = search_rate(lambda rate: math.inf if rate > 2e-3 else 1 / rate, (3e-4, 1e-3, 3e-3))
    assert found.rate == 1e-3 and found.curves()["search_rate"] == [3e-4, 1e-3]
    alone = search_rate(loss_at, (2e-3,))
    assert alone.rate == 2e-3 and len(asked) == 5 and alone.curves()["search_loss"] == []


def searched(seed: int, rate: float, tried: str) -> Row:
    metrics = {"read_accuracy": 0.1, "rate": rate, "rates_tried": tried}
    return Row(f"p{seed}", seed, "done", {"arm": "perceiver-local"}, metrics)


def test_a_rate_at_the_end_of_those_tried_is_told_and_its_claims_are_named() -> None:
    study = Knowledge.at("quick", arms=["pretrained", "perceiver-local"])
    inside, tried = (
        [searched(seed, 1e-3, "0.0003; 0.001; 0.003") for seed in range(3)],
        "0.003; 0.009",
    )
    for rows, verdict, hit in (
        (inside, "pass", ()),
        ([*inside, searched(3, 9e-3, tried)], "fail", ("latents-cost",)),
    ):
        arms = study.evidence(Table(rows))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checks, "_data", lambda s: [])
            audits = {f.name: f for f in study.audits(arms, study.claims(arms))}
        found = audits["grid-edge"]
        assert found.verdict == verdict and found.undermines == hit
    assert "widen perceiver_rates upwards" in found.why


def test_a_run_that_is_cut_off_has_whole_seeds() -> None:
    trials = Knowledge.at("smoke", seeds=3).trials()
    assert [trial.seed for trial in trials] == sorted(trial.seed for trial in trials)
    assert trials[4].config["arm"] == "none" and not trials[4].seed, "the slow ones first"


def test_the_calibration_of_seeds_that_differ_has_intervals_over_seeds() -> None:
    """Of 200 people of each seed 30 or 70 % are right: as if only 3 had been asked, not 600."""
    rng = np.random.default_rng(1)

    def row(seed: int, share: float) -> Row:
        arrays = {"read_confidence": rng.random(200), "read_right": rng.random(200) < share}
        config = {"arm": "pretrained"}
        return Row(f"p{seed}", seed, "done", config, {}, load_arrays=lambda: arrays)

    table = Table([row(seed, share) for seed, share in enumerate((0.3, 0.7, 0.3))])
    bins = Knowledge.at("quick").evidence(table).calibration("pretrained")
    assert len(bins) == 10 and sum(b.items for b in bins) == 600
    assert all(b.accuracy.n == 3 for b in bins)
    # 60 answers have an interval of length 0.25
    assert np.mean([b.accuracy.high - b.accuracy.low for b in bins]) > 0.6


def test_people_who_are_not_in_the_text_have_a_column_and_a_claim() -> None:
    """Planted: 60 % of the read and 20 % of the unread are right; with files there are none."""
    rows = []
    for seed in range(3):
        read, unread = 60 + seed, 20 - seed
        metrics: dict[str, Any] = {
            "read_accuracy": read / 100,
            "read_right": read,
            "read_n": 100,
            "unread_accuracy": unread / 100,
            "unread_right": unread,
            "unread_n": 100,
            "auroc_unread": 0.7,
            "majority": 0.2,
            "ceiling": 1.0,
        }
        rows.append(Row(f"p{seed}", seed, "done", {"arm": "pretrained"}, metrics))
    study = Knowledge.at("quick", arms=["pretrained"])
    evidence = study.evidence(Table(rows))
    claims = study.claims(evidence)
    assert verdicts(claims)["text-not-habits"] == "holds"
    answer, sections = study_prose(study, evidence, claims)
    head, row = next(s.table for s in sections if s.heading == "What the model knows")
    assert head[-1] == "correct, of real people not in the text" and row[-1].startswith("19.0 %")
    assert "No Perceiver is part of this run" in answer and "--scale full" in answer
    without = [
        replace(r, metrics={k: v for k, v in r.metrics.items() if "unread" not in k}) for r in rows
    ]
    evidence = study.evidence(Table(without))
    claims = study.claims(evidence)
    assert verdicts(claims)["text-not-habits"] == "undecided"
    head, _ = next(
        s.table
        for s in study_prose(study, evidence, claims)[1]
        if s.heading == "What the model knows"
    )
    assert head[-1] == "place is not"


def test_six_is_a_change_of_the_up_projection_and_of_nothing_else() -> None:
    """Its linear layers in weight, or its MLP in width: 6 instead of 4 times the embedding."""
    c = Knowledge.at("smoke").settings_json()
    course, large, wide = (
        arm_model(c | changes(arm), 31, Seed(3))
        for arm in ("perceiver-course", "perceiver-weights-6", "perceiver-wide-6")
    )
    for (name, one), other in zip(course.named_parameters(), large.named_parameters(), strict=True):
        scaled = name.startswith("up.") and one.ndim > 1
        assert torch.equal(other[1], one * (6 if scaled else 1)), name
    shapes = dict(course.named_parameters())
    changed = {
        name: (tuple(shapes[name].shape), tuple(p.shape))
        for name, p in wide.named_parameters()
        if p.shape != shapes[name].shape
    }
    assert all(name.startswith("up.feed_forward.") for name in changed)
    assert ((4 * 16, 16), (6 * 16, 16)) in changed.values()


def test_perceivers_have_their_own_steps_and_gpts_do_not_depend_on_them() -> None:
    arms = ["pretrained", "perceiver-local"]
    others = {"perceiver_steps": 17, "search_steps": 5, "perceiver_rates": [2e-3]}
    one, other = (
        {t.config["arm"]: t for t in Knowledge.at("smoke", arms=arms, **more).trials()}
        for more in ({}, others)
    )
    assert one["pretrained"].id == other["pretrained"].id
    assert other["perceiver-local"].config["pretrain_steps"] == 17
    assert other["pretrained"].config["pretrain_steps"] == 12


def test_reported_numbers_are_compared_on_the_files_they_come_from_only() -> None:
    study = Knowledge.at("quick", seeds=3)
    arms = study.evidence(Table([]))
    for known in (False, True):
        settings = study.settings.model_copy(update={"files_sha256": COURSE_FILES if known else ""})
        claims = Knowledge(settings).claims(arms)
        reported = [claim.reported for claim in claims if claim.reported is not None]
        assert len(reported) == 2 and all(one.comparable is known for one in reported)
