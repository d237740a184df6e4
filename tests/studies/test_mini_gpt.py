"""The studies of mini GPTs: probes find what they should, claims read the table right."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.api.conclude import draw_conclusions
from attnlab.api.questions import perplexity
from attnlab.audit.catalogue import AUDITED
from attnlab.audit.finding import Finding
from attnlab.lab.table import Row, Table
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.studies.mini_gpt.head_merging import MERGING, HeadMerging
from attnlab.studies.mini_gpt.positions import POSITIONS, Positions
from attnlab.studies.mini_gpt.probes import (
    measure_start,
    neighbour_moved,
    past_moved,
    score_spread,
    twin_gap,
)
from attnlab.studies.mini_gpt.projection_depth import ProjectionDepth, depth_parts
from attnlab.studies.mini_gpt.study import OFF, GPTArms, MiniGPTStudy
from attnlab.tasks.batches import Batch, sequential_batches

STUDIES: list[type[MiniGPTStudy]] = [Positions, HeadMerging, ProjectionDepth]
DIMS: dict[str, Any] = {"vocab": 31, "block": 23, "layers": 2, "heads": 3, "d_model": 18}


def model(**parts: Any) -> GPT:
    plain = GPTConfig(**DIMS).to_json()
    made = GPT(GPTConfig.from_json({**plain, **parts}), torch.Generator().manual_seed(5))
    with torch.no_grad():  # away from the start, where all heads are nearly alike
        for p in made.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(7)))
    return made.eval()


@pytest.fixture(scope="module")
def batch() -> Batch:
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 31, size=n) for n in (19, 17, 13, 11, 7)]
    return next(iter(sequential_batches(rows, 5)))


def test_the_probes_find_what_is_planted(batch: Batch) -> None:
    for name, parts in MERGING.items():
        found = model(**parts)
        leaks = name in ("re-weight by batch", "re-weight by heads")
        assert (past_moved(found, batch) > 1e-3) == leaks, name
        assert (neighbour_moved(found, batch) > 1e-3) == (name == "re-weight by batch"), name
        if not leaks:
            assert past_moved(found, batch) < 1e-5, name


def test_every_position_keeps_its_past(batch: Batch) -> None:
    for name, parts in POSITIONS.items():
        assert past_moved(model(**parts), batch) < 1e-5, name


def test_shift_and_one_shuffle_are_permuted_concatenation(batch: Batch) -> None:
    for name in ("shift", "shuffle once"):
        gap = twin_gap(model(**MERGING[name]), batch)
        assert gap is not None and gap < 1e-4
    assert twin_gap(model(**MERGING["concatenate"]), batch) is None
    assert twin_gap(model(**MERGING["shuffle each time"]), batch) is None


def test_the_twin_is_a_twin_of_nothing_else(batch: Batch) -> None:
    """A planted fault: after one step of one column the twin no longer agrees."""
    found = model(**MERGING["shift"])
    assert (twin_gap(found, batch) or 0) < 1e-4
    merge = next(found.layers()).attention.merge
    setattr(merge, "by", 2)  # noqa: B010  (another permutation than the other layer's)
    assert (twin_gap(found, batch) or 1) < 1e-4, "the twin follows the merge's own order"


def test_deep_maps_kill_the_scores_unless_variance_is_kept(batch: Batch) -> None:
    def start(depth: int, init: str) -> dict[str, float]:
        config = GPTConfig.from_json({**GPTConfig(**DIMS).to_json(), **depth_parts(depth, init)})
        return measure_start(GPT(config, torch.Generator().manual_seed(11)), batch)

    shallow, deep = start(1, "torch"), start(30, "torch")
    assert deep["initial_score_spread"] < 1e-6 * shallow["initial_score_spread"]
    kept = start(30, "preserving")
    assert kept["initial_score_spread"] > 1e-2 * start(1, "preserving")["initial_score_spread"]
    assert kept["initial_gradient"] > 1e3 * deep["initial_gradient"]


def test_the_spread_is_of_scores_over_keys(batch: Batch) -> None:
    """A constant added to all keys of a query changes no weight, and must not count."""
    found = model()
    before = score_spread(found, batch)
    with torch.no_grad():
        for block in found.layers():
            block.attention.scale *= 3
    assert score_spread(found, batch) == pytest.approx(3 * before, rel=0.5)
    assert before > 0
    assert score_spread(model(**OFF), batch) > 0, "scores exist although nobody may look"


@pytest.mark.parametrize("study", STUDIES)
def test_the_plan(study: type[MiniGPTStudy]) -> None:
    for scale in ("smoke", "quick", "full"):
        made = study.at(scale)
        trials = made.trials()
        assert len({t.id for t in trials}) == len(trials)
        assert {t.config["kind"] for t in trials} == {"gpt", "ngram"}
        arms = {t.config["arm"] for t in trials if t.config["kind"] == "gpt"}
        assert "attention off" in arms
        seeds = [t.seed for t in trials]
        assert len(set(seeds)) >= 3 and seeds == sorted(seeds), "stopped early: whole seeds"
        settings = made.settings_json()
        assert len(settings["long"].split()) + 1 <= settings["block"] or scale == "smoke"
    depths = ProjectionDepth.at("full").settings_json()["depths"]
    assert depths == [1, 4, 7, 10, 13, 17, 20, 23, 26, 30], "those of the course report"


def row(arm: str, seed: int, failing: Sequence[str] = (), **metrics: Any) -> Row:
    findings = [
        Finding(audit, "fail" if audit in failing else "pass", 0, 0, f"{audit} of {arm}")
        for audit in AUDITED
    ]
    metrics = {"parameters": 7, "vocabulary": 31, "train_sentences": 17, "text": "mine"} | metrics
    return Row(f"{arm}{seed}", seed, "done", {"arm": arm}, metrics, findings=findings)


def test_ratios_are_paired_and_geometric() -> None:
    """Origin: 110/100, 231.21/210, 54.95/50 are 1.1 times 1, 1.001, 1/1.001: the level of a seed
    does not matter."""
    pairs = {0: (110, 100), 1: (1.001 * 231, 210), 2: (55 / 1.001, 50)}
    rows = [
        row(arm, s, dev_perplexity=p[i])
        for s, p in pairs.items()
        for i, arm in enumerate(("a", "b"))
    ]
    arms = GPTArms(Table(rows), {"a": "a", "b": "b"})
    claim = arms.compare("x", "a is worse than b", ("a", "b"), above=1.0)
    assert claim.verdict == "holds" and claim.estimate.value == pytest.approx(1.1, rel=1e-12)
    assert claim.estimate.n == 3 and claim.comparison
    same = arms.compare("y", "level", ("a", "b"), above=0.9, below=1.2)
    assert same.verdict == "holds"
    fewer = GPTArms(Table(rows[:4]), arms.labels).compare("z", "worse", ("a", "b"), above=1.0)
    assert fewer.verdict == "undecided"


CAUGHT = {
    "re-weight by batch": ("causality", "padding", "batch-independence"),
    "re-weight by heads": ("causality", "padding"),
    "shuffle each time": ("eval-determinism",),
}


SCORED = ("train_perplexity", "test_perplexity", "normal_perplexity", "long_perplexity")
WEAK, STRONG = {"bigram": 150.0, "trigram": 140.0}, {"bigram": 90.0, "trigram": 80.0}


def merging_table(
    failing: Mapping[str, Sequence[str]], ngrams: Mapping[str, float] = WEAK
) -> Table:
    """Three seeds of every way of merging; `failing` names the audits that an arm fails."""
    level = {"attention off": 130.0, "re-weight by batch": 80.0, "shuffle each time": 110.0}
    leaks = {"re-weight by batch": 3.0, "re-weight by heads": 2.0}
    rows = []
    for arm in MERGING:
        for seed in range(3):
            perplexity = level.get(arm, 100.0) + seed + 0.1 * len(arm) / 20
            metrics: dict[str, Any] = {
                "dev_perplexity": perplexity,
                "dev_sentence_mean": 1.3 * perplexity,
                "log_alone_over_batched": 1e-6 * seed + 3.0 * (arm == "re-weight by batch"),
                "past_moved": leaks.get(arm, 0.0) * (1 + 0.1 * seed),
                "neighbour_moved": leaks.get(arm, 0.0) * (1 + 0.1 * seed),
                "alone_perplexity": 9 * perplexity,
                "off_dev_perplexity": 3 * perplexity,
                "twin_gap": 1e-6 * (1 + seed),
            }
            metrics |= dict.fromkeys(SCORED, perplexity)
            rows.append(row(arm, seed, failing.get(arm, ()), **metrics))
    return Table([*rows, *(ngram(order, value) for order, value in ngrams.items())])


def ngram(order: str, perplexity: float) -> Row:
    metrics = {"dev_perplexity": perplexity, "test_perplexity": 2 * perplexity}
    return Row(order, 0, "done", {"kind": "ngram", "order": order}, metrics)


def causality(failing: Mapping[str, Sequence[str]]) -> Finding:
    drawn = draw_conclusions(HeadMerging.at("quick"), merging_table(failing))
    return next(finding for finding in drawn.findings if finding.name == "causality")


def test_arms_that_leak_must_be_caught() -> None:
    assert causality(CAUGHT).verdict == "pass" and "as it must" in causality(CAUGHT).why
    missed = causality({})
    assert missed.verdict == "fail" and missed.number == 6
    other = causality({**CAUGHT, "shift": ("causality",)})
    assert other.verdict == "fail" and "causality of shift" in other.why
    assert "shift-is-nothing" in other.undermines


def test_the_answer_follows_the_table() -> None:
    drawn = draw_conclusions(HeadMerging.at("quick"), merging_table(CAUGHT))
    assert {finding.verdict for finding in drawn.findings} == {"pass"}
    assert {claim.verdict for claim in drawn.claims} == {"holds"}
    checks = {claim.name for claim in drawn.claims if claim.kind == "check"}
    assert checks == {"plain-alone", "causal-does-not-leak", "permutation-theorem"}
    assert drawn.answer.startswith("No: it looks better in batches (0.8")
    assert "20 times as high" in drawn.answer
    headings = [section.heading for section in drawn.sections]
    splits = "Train, dev, test and three sentences"
    assert headings == ["What it means", splits, "How to read the perplexities", "What it cost"]
    head, *rows = next(section for section in drawn.sections if section.heading == splits).table
    assert head[1:7] == (
        "train",
        "dev",
        "test",
        "normal sentence",
        "scrambled sentence",
        "long sentence",
    )
    assert [line[0] for line in rows] == [*MERGING, *WEAK] and rows[-1][2:4] == ("140", "280")
    assert rows[0][1].startswith("101")
    words = " ".join(p for section in drawn.sections for p in section.paragraphs)
    assert "1.30 to 1.30 times" in words and "nan" not in words.lower()


def test_models_that_lose_to_ngrams_are_named_first() -> None:
    """A planted fault (bigrams at 90, the plain model at 101) and its clean twin."""
    study = HeadMerging.at("quick")
    beaten = draw_conclusions(study, merging_table(CAUGHT, STRONG)).answer
    assert beaten.startswith("Not settled for a GPT that has learnt its text: after 900 steps")
    assert "(101.1) does not beat a bigram model (90.0)" in beaten
    assert "attnlab run head-merging --scale full --device cuda --workers 10. The answer" in beaten
    full = draw_conclusions(HeadMerging.at("full"), merging_table(CAUGHT, STRONG)).answer
    between = draw_conclusions(study, merging_table(CAUGHT, {"bigram": 150.0, "trigram": 80.0}))
    assert "(101.1) does not beat a trigram model (80.0)" in between.answer
    ngrams = [ngram(order, value) for order, value in STRONG.items()]
    linear = [row("linear", seed, dev_perplexity=100.0 + seed) for seed in range(3)]
    depths = draw_conclusions(ProjectionDepth.at("quick"), Table([*linear, *ngrams])).answer
    command = "attnlab run projection-depth --scale full --device cuda --workers 10"
    assert f"To settle it, at all ten depths of the report: {command}." in depths
    assert "--set steps=" in full and "--scale full" not in full
    assert "bigram" not in draw_conclusions(study, merging_table(CAUGHT, WEAK)).answer


def test_arms_of_sinusoids_differ_in_one_thing() -> None:
    """The claim about the amplitude must not rest on arms that differ in the exponents too."""

    def changed(one: str, other: str) -> set[str]:
        a, b = POSITIONS[one]["position"], POSITIONS[other]["position"]
        return {key for key in a.keys() | b.keys() if a.get(key) != b.get(key)}

    claims = {
        c.name: c
        for c in Positions.at("quick").claims(GPTArms(Table([]), {a: a for a in POSITIONS}))
    }
    quantity = claims["amplitude-is-why"].quantity
    one, other = quantity.removeprefix("perplexity, ").split(" / ")
    assert changed(one, other) == {"scale"}
    assert changed("sinusoidal as reported", "sinusoidal") == {"exponent"}
    assert changed("sinusoidal as reported, scaled", "sinusoidal scaled") == {"exponent"}


@pytest.mark.parametrize("study", STUDIES)
def test_an_empty_table_breaks_nothing(study: type[MiniGPTStudy]) -> None:
    made = study.at("smoke")
    drawn = draw_conclusions(made, Table([]))
    assert {claim.verdict for claim in drawn.claims} == {"undecided"}
    assert drawn.answer.startswith("Not settled") and drawn.findings and drawn.sections
    assert all(figure.trials == () for figure in made.figures(drawn.evidence))


TEXT = "\n\n".join(
    f"The {a} {b} the {c}. It {b} {d}, and the {c} was {d}." * 2
    for a in ("king", "son", "queen", "fool", "lord")
    for b in ("saw", "met", "told")
    for c in ("knight", "page", "sea")
    for d in ("well", "alone")
)


@pytest.mark.parametrize(
    "study", [STUDIES[0], *(pytest.param(s, marks=pytest.mark.slow) for s in STUDIES[1:])]
)
def test_the_smoke_scale_runs_to_its_report(study: type[MiniGPTStudy], tmp_path: Any) -> None:
    """On a text of its own, so that nothing need be fetched."""
    from attnlab.api.running import run

    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    settings = {"text": str(text), "min_count": 2, "device": "cpu", "block": 32, "steps": 3}
    settings["seeds"] = 1  # of three: every arm runs, nothing can be concluded
    done = run(study.name, scale="smoke", out=tmp_path / "runs", engine="inline", settings=settings)
    assert not done.failed and done.report.is_file()
    assert len(done.results["figures"]) >= 4
    assert done.results["claims"] and not done.results["discussion"], "smoke concludes nothing"
    row = next(row for row in done.table if row["kind"] == "gpt")
    assert row["test_perplexity"] > 1 and len(row.samples) == 3
    settings = study.at("smoke").settings
    for name in ("normal", "ungrammatical", "long"):  # the long one is longer than the context
        asked = perplexity(
            f"{done.path.name}@{row.id}",
            getattr(settings, name),
            tmp_path / "runs",
            "cpu",
            stop=True,
        )
        assert asked["perplexity"] == pytest.approx(row[f"{name}_perplexity"], rel=1e-6), name
