"""The study from start to report; its measures against their definitions; its planted faults."""

import json
import math
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.api.conclude import draw_conclusions
from attnlab.api.running import Run, run
from attnlab.core.errors import UsageError
from attnlab.decode.draw import sample
from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import TrialContext
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.decoding import trial
from attnlab.studies.decoding.data import Prompts, load_model, load_prompts, openings
from attnlab.studies.decoding.evidence import TextArms, equal_tokens, jackknife, weakest_step
from attnlab.studies.decoding.facts import Comparison, compare_with
from attnlab.studies.decoding.prompt_similarity import against_others, by_words, prompt_similarity
from attnlab.studies.decoding.strategies import PEOPLE, label
from attnlab.studies.decoding.study import Decoding, DecodingSettings

from .conclusions import conclusions, verdicts


def settings(**changed: Any) -> DecodingSettings:
    found = Decoding.at("smoke", **changed).settings
    assert isinstance(found, DecodingSettings)
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The smoke scale: nothing is downloaded."""
    return run("decoding", scale="smoke", out=tmp_path_factory.mktemp("decoding"), engine="inline")


def arms_of(table: Table) -> TextArms:
    return Decoding.at("smoke").evidence(table)


@pytest.fixture(scope="module")
def evidence(done: Run) -> TextArms:
    return arms_of(done.table)


def test_the_smoke_scale_runs_to_its_report(done: Run) -> None:
    assert not done.failed and done.report.is_file()
    names = [figure["name"] for figure in done.results["figures"]]
    assert names == ["plane", "curves", "strategies", "people"]
    judged = conclusions(done)
    heads = [section.heading for section in judged.sections]
    assert heads[0] == "Which strategy is best" and len(heads) == 8
    audits = {audit["name"]: audit["verdict"] for audit in done.results["audits"]}
    for name in ("sampler-table", "rescoring", *trial.OF_MODEL):
        assert audits[name] == "pass", name
    by_name = verdicts(done)
    assert len(by_name) == 13
    assert by_name["limits-greedy"] == by_name["limits-sampling"] == "holds"
    assert judged.answer.startswith("All limits are exact; it ")


def test_every_strategy_goes_on_from_the_same_prompts(evidence: TextArms) -> None:
    names = evidence.names()
    assert len(names) == 10 and names[:2] == ["greedy", "sample"]
    assert {len(evidence.rows(arm)) for arm in ("greedy", "beam:width=4")} == {1}
    assert len(evidence.rows("top-p:p=0.7")) == 3
    prompts = {row.documents["prompts.json"] for arm in names for row in evidence.rows(arm)}
    assert len(prompts) == 1 and len(json.loads(prompts.pop())) == 23 + 11
    assert evidence.real() == range(23, 34)


def test_stored_numbers_are_those_of_the_texts(evidence: TextArms) -> None:
    for arm in ("greedy", "sample"):
        row = evidence.rows(arm)[0]
        ids, tokens = row.arrays["ids"], row.arrays["tokens"]
        assert np.array_equal((ids >= 0).sum(axis=1), tokens)
        expected = math.exp(row.arrays["nll"].sum() / tokens.sum())
        assert row["perplexity"] == pytest.approx(expected, rel=1e-12)
    assert np.all(evidence.items("greedy", "prefix") == 1)
    assert np.all(evidence.items("greedy", "agreement") == 1)
    assert np.nanmin(evidence.items("greedy", "self_bleu")) == pytest.approx(1)
    sampled, kept = evidence.items("sample", "prefix"), evidence.items("sample", "agreement")
    assert np.all(sampled <= kept) and sampled.mean() < 1


def test_people_have_texts_after_the_real_beginnings_only(evidence: TextArms) -> None:
    for measure in ("nll", "repetition", "margin_words", "agreement"):
        values = evidence.items(PEOPLE, measure)
        assert np.isnan(values[:23]).all() and np.isfinite(values[23:]).all(), measure
    assert np.isnan(evidence.items(PEOPLE, "self_bleu")).all()  # one text has no other
    found = compare_with(evidence)
    assert found is not None and len(found.differences) == 10 * 4
    other = compare_with(evidence, "sample")  # minus plain sampling, which is not minus itself
    assert other is not None and len(other.differences) == 9 * 4
    alone = arms_of(Table([r for r in evidence.table if r["arm"] != PEOPLE]))
    assert compare_with(alone) is None and len(alone.real()) == 0


def test_the_same_trial_gives_the_same_numbers(done: Run) -> None:
    study = Decoding.at("smoke")
    one = next(t for t in study.trials() if t.config["arm"] == "top-p:p=0.7" and t.seed == 1)
    (row,) = [row for row in done.table if row.id == one.id]
    again = study.run(one, TrialContext())
    assert np.array_equal(again.arrays["ids"], row.arrays["ids"])
    assert again.metrics["repetition"] == row["repetition"]


def test_a_strategy_more_is_one_strategy_more() -> None:
    """Trials of the others keep their ids: nothing of them is run again."""
    one, more = Decoding.at("smoke"), Decoding.at("smoke", ks=[5, 20], seeds=4)
    before, after = ({t.id for t in study.trials()} for study in (one, more))
    assert before < after


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=17))
def test_the_jackknife_of_a_mean_is_its_t_interval(values: list[float]) -> None:
    v = np.array(values)
    left = [v.mean(), *(np.delete(v, i).mean() for i in range(len(v)))]
    one, other = jackknife(np.array(left)), mean_interval(v)
    # sums of at most 17 numbers below 5 in float64, and a root: errors far below 1e-6
    assert (one.value, one.low, one.high) == pytest.approx(
        (other.value, other.low, other.high), abs=1e-6
    )
    assert one.n == len(v)


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=3, max_size=3),
    st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=3, max_size=3),
)
def test_agreement_of_arrays_is_agreement_of_texts(
    one: list[list[int]], other: list[list[int]]
) -> None:
    a, b = (np.array([row + [-1] * (5 - len(row)) for row in rows]) for rows in (one, other))
    pairs = list(zip(one, other, strict=True))
    shares = [trial.equal_share(x, y) for x, y in pairs]
    assert equal_tokens(a, b, prefix=False).tolist() == shares
    assert equal_tokens(a, b, prefix=True).tolist() == [prefix_share(x, y) for x, y in pairs]


def prefix_share(one: list[int], other: list[int]) -> float:
    """The definition: tokens before the first difference, of the longer text."""
    longest = max(len(one), len(other))
    same = [x == y for x, y in zip(one, other, strict=False)]
    return (same.index(False) if False in same else len(same)) / longest if longest else 1.0


def test_agreement_counts_against_the_longer_text() -> None:
    assert trial.equal_share([3, 5, 7], [3, 5, 7]) == 1
    assert trial.equal_share([3, 5, 7, 2], [3, 1, 7]) == 2 / 4
    assert trial.equal_share([], []) == 1 and trial.equal_share([], [4]) == 0


def test_a_shuffled_prompt_is_at_chance() -> None:
    """Over all ways of dealing prompts to texts, mean margin 0 and mean rank ½, exactly."""
    cosines = np.random.default_rng(7).normal(size=(5, 5))
    cosines[2, 3] = cosines[2, 4]  # a tie
    dealt = [against_others(cosines[:, list(order)]) for order in permutations(range(5))]
    margin, rank = (np.mean([found[i] for found in dealt]) for i in (0, 1))
    assert margin == pytest.approx(0, abs=1e-14) and rank == pytest.approx(0.5, abs=1e-14)


def test_words_in_common_bring_a_text_near_its_prompt() -> None:
    prompts = ["the cat sat", "the dog ran far", "the red boat"]
    cosines = by_words(["a cat", "", "boat and dog"], prompts)
    assert cosines[0, 0] > 0 == cosines[0, 1] == cosines[0, 2]
    assert np.all(cosines[1] == 0) and cosines[2, 2] > cosines[2, 1] > 0  # a shorter prompt
    assert np.allclose(np.diagonal(by_words(prompts, prompts)), 1)
    data = Prompts(((1,), (2,), (3,)), tuple(prompts), 1, (), ())
    one = prompt_similarity(["cat", "far", "far"], replace(data, opening_count=3), "none", "cpu")
    assert one["rank_words"].tolist() == [1.0, 1.0, 0.25] and len(one) == 2


def test_the_step_that_speaks_against_a_curve_decides() -> None:
    def e(low: float, high: float) -> Estimate:
        return Estimate((low + high) / 2, low, high, 5)

    assert weakest_step([e(0.3, 0.5), e(0.1, 0.9)]) == 1
    assert weakest_step([e(-0.9, 0.5), e(-0.3, -0.1)]) == 1  # one that is behind comes first
    assert weakest_step([e(0.1, 0.2), Estimate(math.nan)]) == 1  # what was not measured


def test_nearest_to_people_is_near_from_both_sides() -> None:
    far, near = Estimate(-0.5, -0.7, -0.3, 9), Estimate(0.2, -0.1, 0.5, 9)
    found = Comparison({("a", "x"): far, ("b", "x"): near})
    assert found.nearest("x") == "b" and found.not_told_apart() == ["b"]
    assert found.tells_apart("a", "x") and not found.tells_apart("b", "x")


@pytest.mark.parametrize(
    "text, said",
    [
        ("greedy", "greedy"),
        ("sample", "sampling"),
        ("temperature:t=0.5", "T = 0.5"),
        ("top-p:p=0.9,temperature=0.7", "top-p 0.9, T 0.7"),
        ("beam:width=4", "beam 4"),
        ("greedy:repetition=1.3", "greedy, penalty 1.3"),
        (PEOPLE, "people"),
    ],
)
def test_names_for_readers(text: str, said: str) -> None:
    assert label(text) == said


def test_our_openings_are_many_and_begin_with_the_story() -> None:
    found = openings("")
    assert len(found) > 50 and found[0].startswith("Once upon a time")


@given(st.lists(st.text("ab ,é", min_size=1).filter(str.strip), min_size=2, max_size=5))
def test_a_file_of_prompts_is_read_as_written(tmp_path_factory: Any, lines: list[str]) -> None:
    file = tmp_path_factory.mktemp("prompts") / "mine.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    stripped = [line.rstrip() for line in lines]
    if len(set(stripped)) == len(stripped):
        assert openings(str(file)) == stripped
    else:
        with pytest.raises(UsageError, match="again"):
            openings(str(file))


@pytest.mark.parametrize(
    "data, said",
    [
        (b"one\n\ntwo\n", "line 2 is empty"),
        (b"one\ntwo\none\n", "line 3 is line 1 again"),
        (b"\xff\xfe", "UTF-8"),
        (b"one\n", "two or more"),
        (b"", "two or more"),
    ],
)
def test_files_that_hold_no_prompts(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes(data)
    with pytest.raises(UsageError, match=said):
        Decoding.at("smoke", prompts=str(file), human="none").fetch()


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"human": "xsum"}, "use both"),
        ({"model": "smollm2"}, "use both"),
        ({"more": ["top-q:p=0.5"]}, "top-p"),
        ({"more": ["top-k:k=20"]}, "twice"),
        ({"prompts": "nowhere.txt"}, "no file"),
        ({"human": "nowhere.txt"}, "nor a file"),
        ({"temperature": [0.3]}, "temperatures"),
        ({"temperatures": [-0.3]}, ">= 0"),
        ({"seeds": 1}, "greater than or equal to 2"),
    ],
)
def test_settings_that_cannot_be(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Decoding.at("smoke", **changed)


def test_anyones_prompts_and_texts(tmp_path: Path) -> None:
    prompts, texts = tmp_path / "prompts.txt", tmp_path / "texts.txt"
    prompts.write_text("The mayor of\nA garden near\nThe court sold\n", encoding="utf-8")
    texts.write_text(
        "The old school sold a bridge.\n" * 2 + "The mayor lost a boat again.\nshort\n"
    )
    own: dict[str, Any] = {
        "prompts": str(prompts),
        "first_prompts": 0,
        "human": str(texts),
        "human_texts": 2,
        "human_tokens": 3,
        "new_tokens": 4,
    }
    study = Decoding.at("smoke", **own)
    study.fetch()
    people = next(t for t in study.trials() if t.config["arm"] == PEOPLE)
    assert people.config["prompts"] == "prompts.txt" and len(people.config["human_sha256"]) == 64
    outcome = study.run(people, TrialContext())
    held = json.loads(outcome.documents["texts.json"])
    assert len(held) == 5 and held[3].split() == ["sold", "a", "bridge", "."]
    prompts.write_text("Something else\nand more\n")
    with pytest.raises(UsageError, match="changed since"):
        study.run(people, TrialContext())
    with pytest.raises(UsageError, match="2 texts have 7 tokens, not 3"):
        Decoding.at("smoke", **{**own, "human_texts": 3}).fetch()
    with pytest.raises(UsageError, match="leave room"):
        Decoding.at("smoke", **{**own, "human": "none", "new_tokens": 255}).fetch()


def tiny() -> tuple[Any, Prompts]:
    return load_model("tiny", "cpu"), load_prompts(settings(), load_model("tiny", "cpu"))


def test_log_probabilities_that_are_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = tiny()
    prompts = data.prompts[:3]
    clean = trial.rescoring(model, prompts, 5)
    assert clean.verdict == "pass" and clean.number is not None and clean.number < 1e-4

    def wrong(*given: Any, **named: Any) -> Any:
        made = generate(*given, **named)
        return [
            replace(text, logprobs=(*text.logprobs[:-1], text.logprobs[-1] - 0.1)) for text in made
        ]

    monkeypatch.setattr(trial, "generate", wrong)
    assert trial.rescoring(model, prompts, 5).verdict == "fail"


def test_people_are_scored_as_the_model_reads_them() -> None:
    """Batched and padded, or each text alone by the definition."""
    model, data = tiny()
    found = trial.logprobs(model, data.prompts[:3], [(5, 7), (2, 3, 5), (11,)], 3)
    for prompt, answer, row in zip(data.prompts, [(5, 7), (2, 3, 5), (11,)], found, strict=False):
        logits = model.logits(torch.tensor([[*prompt, *answer]]))[0].double()
        places = range(len(prompt) - 1, len(prompt) + len(answer) - 1)
        expected = [float(logits[i].log_softmax(0)[a]) for i, a in zip(places, answer, strict=True)]
        assert row == pytest.approx(expected, abs=1e-4)  # float32 logits of size about 10


def test_a_limit_that_is_missed_fails_its_claim(done: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(strategy: str) -> Any:
        return parse_strategy("sample" if strategy == "top-k:k=1" else strategy)

    monkeypatch.setattr(trial, "parse_strategy", wrong)
    study = Decoding.at("smoke")
    (limits,) = [t for t in study.trials() if t.config["arm"] == "limits"]
    metrics = study.run(limits, TrialContext()).metrics
    assert metrics["greedy = top-k:k=1"] != 1 and metrics["greedy = top-p:p=0"] == 1
    conclusions = draw_conclusions(study, changed(done.table, "limits", metrics=metrics))
    verdicts = {claim.name: claim.verdict for claim in conclusions.claims}
    assert verdicts["limits-greedy"] == "fails" and verdicts["limits-sampling"] == "holds"


def changed(table: Table, arm: str, **fields: Any) -> Table:
    """The table with other metrics or findings of one arm."""
    return Table([replace(row, **fields) if row["arm"] == arm else row for row in table])


def test_a_broken_sampler_undermines_what_rests_on_draws(
    done: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_tokens(logits: Any, *, generator: Any, top_k: int = 0, **rest: Any) -> Any:
        return sample(logits, generator=generator, **rest)  # k is forgotten

    monkeypatch.setattr(trial, "sample", all_tokens)
    model, data = tiny()
    monkeypatch.setattr(trial, "OF_MODEL", ("non-finite",))
    findings = trial.shared_findings(model, data, settings().new_tokens)
    verdicts = {finding.name: finding.verdict for finding in findings}
    assert verdicts["sampler-table"] == "fail" and verdicts["rescoring"] == "pass"
    table = changed(done.table, "audits", findings=findings)
    conclusions = draw_conclusions(Decoding.at("smoke"), table)
    (sampler,) = [f for f in conclusions.findings if f.name == "sampler-table"]
    assert sampler.verdict == "fail" and len(sampler.undermines) == 12
    assert "greedy-repeats" in sampler.undermines and "limits-greedy" not in sampler.undermines
    decided = {claim.name for claim in conclusions.claims if claim.verdict != "undecided"}
    assert decided == {"limits-greedy"}


def test_likelier_texts_fool_no_one(done: Run) -> None:
    """A strategy below people in perplexity is as far from them as one above."""

    def shifted(row: Row) -> Row:
        nll = row.arrays["nll"].copy()
        arrays = {**row.arrays, "nll": nll - 5 * row.arrays["tokens"]}
        return replace(row, load_arrays=lambda: arrays)

    rows = [shifted(row) if row["arm"] == "top-k:k=20" else row for row in done.table]
    found = compare_with(arms_of(Table(rows)))
    before = compare_with(arms_of(done.table))
    assert found is not None and before is not None
    moved = found.differences["top-k:k=20", "nll"].value
    assert moved == pytest.approx(before.differences["top-k:k=20", "nll"].value - 5)
    assert draw_conclusions(Decoding.at("smoke"), Table(rows)).sections


def test_texts_are_as_diverse_as_all_of_them(done: Run) -> None:
    """One text of three is not a strategy that writes the same three times."""
    rows = [row for row in done.table if row["arm"] != "sample" or row.seed == 0]
    found = arms_of(Table(rows))
    assert np.isnan(found.items("sample", "self_bleu")).all()
    assert np.isfinite(found.items("sample", "nll")).all()
    assert np.nanmin(found.items("beam:width=4", "self_bleu")) == pytest.approx(1)


def test_without_trials_nothing_is_drawn_and_nothing_decided() -> None:
    study = Decoding.at("smoke")
    conclusions = draw_conclusions(study, Table([]))
    assert {c.verdict for c in conclusions.claims} == {"undecided"}
    assert study.figures(conclusions.evidence) == [] and conclusions.sections == []
    assert conclusions.answer.startswith("Claims that hold: 0;")


@pytest.mark.assets
@pytest.mark.slow
def test_the_encoder_finds_the_prompt_a_text_belongs_to() -> None:
    prompts = (
        "The home side won the final by two goals after",
        "To make a vegetable soup, first",
        "Scientists have discovered a new species of frog that",
    )
    texts = [
        "a penalty in the last minute of the match.",
        "chop the carrots and onions.",
        "lives in the trees of the rain forest.",
    ]
    data = Prompts(((1,), (2,), (3,)), prompts, 3, (), ())
    found = prompt_similarity(texts, data, "minilm-l6", "cpu")
    assert found["rank_judge"].tolist() == [1, 1, 1] and found["margin_judge"].min() > 0
    empty = prompt_similarity(["", "", ""], data, "minilm-l6", "cpu")
    assert empty["margin_judge"].tolist() == [0, 0, 0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_every_trial_runs() -> None:
    study = Decoding.at("smoke", device="cuda", seeds=2)
    for one in study.trials():
        outcome = study.run(one, TrialContext(device="cuda"))
        assert not [f for f in outcome.findings if f.verdict == "fail"], one.config["arm"]
