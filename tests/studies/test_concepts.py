"""The study of concepts: its small programs by hand, planted faults, verdicts that fail."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.api.conclude import Conclusions, draw_conclusions
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.lab.claim import MIN_SEEDS
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, TrialContext
from attnlab.models.encoder import open_encoder
from attnlab.studies.concepts import adaptation, encoding, merges, texts, training
from attnlab.studies.concepts.study import PARTS, Concepts
from attnlab.studies.concepts.texts import byte_count, sample_bytes
from attnlab.tasks.corpus import Splits
from attnlab.tasks.encoder_inputs import encode_examples
from attnlab.tasks.labelled import Example
from tests.models.tiny_encoder import bert_folder

from .conclusions import conclusions

WORDS = {"low": 5, "lowest": 2, "newer": 6, "wider": 3}


def test_merges_by_hand() -> None:
    """(e,r) occurs 9 times; (l,o) and (o,w) 7: the tie goes to l; at last e, w before n, ew."""
    found = merges.learn_merges(WORDS, 5)
    assert found == [("e", "r"), ("l", "o"), ("lo", "w"), ("e", "w"), ("n", "ew")]
    shown = merges.merge_steps("lower", found)
    assert [pieces for _, pieces in shown] == [
        ("l", "o", "w", "e", "r"),
        ("l", "o", "w", "er"),
        ("lo", "w", "er"),
        ("low", "er"),
    ]
    assert merges.merge_pair(("a", "a", "a", "b"), ("a", "a")) == ("aa", "a", "b")
    assert merges.learn_merges({"a": 3}, 7) == [], "one letter has no neighbour"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="abé .", min_size=1, max_size=23), min_size=1, max_size=7))
def test_the_library_learns_and_applies_the_same(texts: list[str]) -> None:
    words = merges.count_words(texts)
    ours, (library, theirs) = merges.learn_merges(words, 11), merges.library_merges(texts, 11)
    assert ours == theirs
    for word in [*words, "abab", "bbb"]:
        pieces = tuple(token.value for token in library.model.tokenize(word))
        assert merges.merge_steps(word, ours)[-1][1] == pieces


def test_merges_in_another_order_are_noticed() -> None:
    right, wrong = [("a", "b"), ("b", "c")], [("b", "c"), ("a", "b")]
    assert merges.merge_steps("abc", right)[-1][1] == ("ab", "c")
    assert merges.merge_steps("abc", wrong)[-1][1] == ("a", "bc")


def test_a_pair_is_told_from_what_is_none() -> None:
    cls, sep = 101, 102
    ids, kinds = np.array([101, 7, 102, 8, 9, 102]), np.array([0, 0, 0, 1, 1, 1])
    assert encoding.is_pair(ids, kinds, cls, sep)
    for wrong_ids, wrong_kinds in (
        (ids[1:], kinds[1:]),
        (ids[:-1], kinds[:-1]),
        (ids, np.zeros(6, dtype=int)),
        (ids, np.array([0, 0, 1, 1, 1, 1])),
        (np.array([101, 7, 8, 9, 5, 102]), kinds),
    ):
        assert not encoding.is_pair(wrong_ids, wrong_kinds, cls, sep)


def test_the_mask_hides_padding_and_segments_count(tmp_path: Path) -> None:
    encoder = open_encoder(bert_folder(tmp_path / "bert"))
    example = Example("a good film", "it w3 w5 w7", 0)
    alone = encode_examples(encoder.tokenizer, [example], 31).batch([0])
    found = encoding.distances(encoder, alone, example)
    assert found["masked"] < 1e-9, "1 − cos of float32 rounding: about (1e-6)²"
    for name in ("unmasked", "no_segments", "one_text"):
        assert found[name] > 1e-6, name


def test_every_fact_of_the_loop() -> None:
    study = Concepts.at("smoke")
    trial = next(t for t in study.trials() if t.config["part"] == "loop")
    found: Any = study.run(trial, TrialContext()).metrics
    assert found["not_zeroed"] == pytest.approx(2, abs=1e-6) and found["zeroed"] == 1
    assert found["dropout_eval"] == found["neighbours_eval"] == found["kept_no_grad"] == 0
    assert found["dropout_train"] > 0.01 and found["neighbours_train"] > 0.01
    assert 0 < found["kept_eval"] < found["kept_train"]
    assert found["records_eval"] and not found["records_no_grad"]
    assert study.run(trial, TrialContext()).metrics == found
    model = training.build_network(Seed(3)).eval()
    rows = torch.randn(7, 5, generator=Seed(5).torch_generator())
    one = training.gradient_ratios(model, rows)
    model.zero_grad = lambda set_to_none=True: None
    assert training.gradient_ratios(model, rows)["zeroed"] != one["zeroed"], (
        "a planted fault is seen"
    )


def few(rows: int = 47) -> training.Vectors:
    """Two classes apart in the first coordinate, and much that they share in the second."""
    labels = torch.arange(rows) % 2
    x = torch.randn(rows, 5, generator=Seed(1).torch_generator()) * 0.05
    x[:, 0] += 0.6 * (labels - 0.5)
    x[:, 1] += 1
    return training.Vectors(torch.nn.functional.normalize(x, dim=1), labels)


def test_orders_hold_every_row_and_only_one_is_sorted() -> None:
    rows = few()
    for shuffled in (True, False):
        batches = training.OrderedBatches(rows, Seed(2), shuffled=shuffled)
        assert batches.per_epoch == 5
        labels = torch.cat([batches.batch(i).labels for i in range(5)]).tolist()
        assert (labels == sorted(labels)) is not shuffled
        first = torch.cat([batches.batch(i).x for i in range(5)])
        assert len({tuple(row) for row in first.tolist()}) == 40, "no row twice"
        again = torch.cat([batches.batch(i).x for i in range(5, 10)])
        assert torch.equal(first, again) is not shuffled
    learnt = training.accuracy_curve(
        training.OrderedBatches(rows, Seed(2), shuffled=True), rows, 3, Seed(3), TrialContext()
    )
    assert len(learnt) == 3 and learnt[-1] > 0.9
    spoilt = training.accuracy_curve(
        training.OrderedBatches(rows, Seed(2), shuffled=False), rows, 3, Seed(3), TrialContext()
    )
    assert spoilt[-1] < learnt[-1]


class Words:
    """Four markers, then words: as much of a tokenizer as counting needs."""

    all_special_ids = (0, 1, 2, 3)
    mask_token_id = 3

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        return f"w{ids}" if isinstance(ids, int) else [f"w{i}" for i in ids]


def test_labels_are_counted_by_hand() -> None:
    before = torch.tensor([[1, 5, 6, 7, 8, 2, 0]])
    inputs = torch.tensor([[1, 3, 9, 7, 8, 2, 0]])
    labels = torch.tensor([[IGNORE, 5, 6, 7, IGNORE, IGNORE, IGNORE]])
    found = encoding.count_masked(before, inputs, labels, Words())
    assert found == {
        "words": 4,
        "chosen": 3,
        "mask": 1,
        "random": 1,
        "kept": 1,
        "markers": 0,
    }
    moved, wrong = inputs.clone(), labels.clone()
    moved[0, 4] = 11
    wrong[0, 1] = 6
    for faulty in ((before, moved, labels), (before, inputs, wrong)):
        with pytest.raises(AssertionError):
            encoding.count_masked(*faulty, Words())
    marked = labels.clone()
    marked[0, 0] = 1
    assert encoding.count_masked(before, inputs, marked, Words())["markers"] == 1


def test_the_collator_masks_as_it_is_told() -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    names = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(97))]
    library = Tokenizer(models.WordLevel(dict(zip(names, range(101), strict=True)), "[PAD]"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=library,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    rng = Seed(7).numpy_generator()
    ids = [[1, *rng.integers(4, 101, size=31).tolist(), 2] for _ in range(300)]
    inputs, labels = encoding.mask_tokens(tokenizer, ids, 11)
    found = encoding.count_masked(torch.tensor(ids), inputs, labels, tokenizer)
    n = found["chosen"]
    assert found["words"] == 9300 and found["markers"] == 0
    for share, wanted, of in ((n, 0.15, 9300), (found["mask"], 0.8, n), (found["kept"], 0.1, n)):
        assert abs(share / of - wanted) < 5 * math.sqrt(wanted * (1 - wanted) / of)
    again = encoding.mask_tokens(tokenizer, ids, 11)
    assert torch.equal(again[0], inputs) and torch.equal(again[1], labels)
    assert not torch.equal(encoding.mask_tokens(tokenizer, ids, 12)[0], inputs)
    shown = encoding.masking_example(tokenizer, torch.tensor(ids), inputs, labels)
    assert len(shown["text"]) == len(shown["label"]) == encoding.SHOWN_MASKED
    assert "[MASK]" in shown["input"]


def test_a_gpt2_adds_segments_as_words() -> None:
    assert adaptation.segments_are_words(5) < 1e-6


def test_bytes_are_taken_in_a_drawn_order() -> None:
    documents = ["aé" * 11, "b" * 17, "c" * 5]
    for size in (7, 22, 55):
        got = sample_bytes(documents, size, Seed(1))
        assert size - 1 <= byte_count(got) <= size, "a character is not cut in two"
    assert sample_bytes(documents, 20, Seed(1)) == sample_bytes(documents, 20, Seed(1))
    assert {sample_bytes(documents, 3, Seed(n))[0][0] for n in range(19)} == {"a", "b", "c"}
    with pytest.raises(UsageError, match="55"):
        sample_bytes(documents, 57, Seed(1))


def test_bits_are_per_byte_and_dev_chooses() -> None:
    from attnlab.measure.perplexity import Perplexity

    assert adaptation.bits_per_byte(
        Perplexity(nll=6 * math.log(2), tokens=2), ["é1"]
    ) == pytest.approx(2)
    log = [
        {"value": v, "test_bits": t, "test_perplexity": 1.0, "step": i}
        for i, (v, t) in enumerate(((3.0, 1.0), (2.0, 7.0), (2.0, 5.0)))
    ]
    assert adaptation.at_best(log) == {"bits": 7.0, "perplexity": 1.0, "step": 1}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> tuple[Concepts, Outcome]:
    """A trial of "anew" on made-up texts, without the audits of models."""
    draw = np.random.default_rng(5)
    vocabularies = {
        "news": ["the", "king", "came", "home", "and", "was", "over"],
        "records": ["17,83", "91;x", "44,zz", "0.07", "q|q", "5e3"],
    }

    def make_splits(name: str) -> Splits:
        parts = (
            tuple(" ".join(draw.choice(vocabularies[name], size=400)) for _ in range(n))
            for n in (13, 3, 3)
        )
        return Splits(*parts)

    class Coarse:
        def encode_batch(self, texts: list[str]) -> list[Any]:
            return [type("E", (), {"ids": text.split()}) for text in texts]

    splits = {name: make_splits(name) for name in vocabularies}
    monkeypatch.setattr(adaptation, "text_splits", lambda name: splits[name])
    monkeypatch.setattr(adaptation, "model_findings", lambda model, when: [])
    monkeypatch.setattr(adaptation, "gpt2_tokenizer", Coarse)
    study = Concepts.at("smoke", source_bytes=9000)
    assert isinstance(study, Concepts)
    trial = next(t for t in study.trials() if t.config["part"] == "anew")
    return study, study.run(trial, TrialContext())


def test_three_ways_on_two_sizes(tried: tuple[Concepts, Outcome]) -> None:
    study, outcome = tried
    m: Any = outcome.metrics
    for way in ("continued", "borrowed", "own"):
        for size in study.settings.sizes:
            assert 0 < m[f"{way}_{size}_bits"] < 9, "a byte that is guessed takes 8 bits"
            assert len(outcome.curves[f"{way}_{size}"]) == 2
    assert m["own_fertility"] < m["borrowed_fertility"] and m["gpt2_fertility"] == 1
    assert m["own_wrong"] / m["own_right"] == pytest.approx(math.exp(m["own_log_ratio"]))
    size = m["own_bytes"] * m["own_fertility"]
    assert size == pytest.approx(m["borrowed_bytes"] * m["borrowed_fertility"]), "the same text"


@pytest.mark.parametrize("scale", ["smoke", "quick", "full"])
def test_the_plan(scale: str) -> None:
    study = Concepts.at(scale)
    s: Any = study.settings
    trials = study.trials()
    assert len({t.id for t in trials}) == len(trials) and s.seeds >= MIN_SEEDS
    counts = Counter(t.config["part"] for t in trials)
    assert counts.pop("anew") == s.seeds * len(s.targets)
    assert set(counts.values()) == {s.seeds} and set(counts) <= set(PARTS)
    other = {t.id for t in Concepts.at(scale, width=2 * s.width).trials()}
    same = [t.config["part"] for t in trials if t.id in other]
    assert set(same) == set(counts), "only what depends on a setting is run again"


@pytest.mark.parametrize(
    "wrong",
    [
        {"sizes": [5000, 2000]},
        {"sizes": [10]},
        {"parts": ["loop", "loop"]},
        {"parts": ["lop"]},
        {"width": 49},
        {"vocabulary": 3},
        {"stepps": 3},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Concepts.at("quick", **wrong)


GOOD: dict[str, dict[str, Any]] = {
    "pair": {
        "form_share": 1.0,
        "masked_most": 1e-12,
        "unmasked": 0.02,
        "no_segments": 0.01,
        "one_text": 0.02,
        "rows": 3,
        "places": 17,
        "padding_share": 0.1,
        "cut_rows": 1,
        "cut_tokens": 7,
        "pairs": 3,
    },
    "loop": {
        "not_zeroed": 2.0,
        "zeroed": 1.0,
        "dropout_train": 1.0,
        "dropout_eval": 0.0,
        "neighbours_train": 0.7,
        "neighbours_eval": 0.0,
        "kept_train": 7,
        "kept_eval": 5,
        "kept_no_grad": 0,
    },
    "order": {"shuffled_accuracy": 0.7, "sorted_accuracy": 0.5, "majority": 0.5, "tested": 997},
    "merges": {"merges_same": 20, "merges_learnt": 20, "words_same": 31, "words_applied": 31},
    "masking": {
        "words": 100_000,
        "chosen": 15_000,
        "mask": 12_000,
        "random": 1500,
        "kept": 1500,
        "markers": 0,
    },
    "ids": {
        "log_ratio": 7.0,
        "log_over_uniform": 0.5,
        "segment_gap": 0.0,
        "own_perplexity": 50.0,
        "foreign_perplexity": 80_000.0,
        "vocabulary": 49_152,
        "refused": 3,
        "reader": "x",
    },
    "anew": {
        "own_fertility": 2.0,
        "borrowed_fertility": 3.0,
        "gpt2_fertility": 1.5,
        "own_log_ratio": 1.5,
        "own_right": 100.0,
        "own_wrong": 450.0,
        "untouched_bits": 3.0,
        "vocabulary": 1024,
        "own_1000_bits": 3.0,
        "continued_1000_bits": 2.5,
        "own_9000_bits": 2.0,
        "borrowed_9000_bits": 2.2,
        "continued_9000_bits": 2.3,
        "borrowed_1000_bits": 3.1,
        "own_9000_perplexity": 150.0,
        "borrowed_9000_perplexity": 70.0,
    },
}
MOVED = (
    "unmasked",
    "no_segments",
    "neighbours_train",
    "shuffled_accuracy",
    "log_ratio",
    "log_over_uniform",
    "own_log_ratio",
    "own_fertility",
    "own_9000_bits",
    "continued_1000_bits",
)


def study_of() -> Concepts:
    made = Concepts.at("quick", targets=["law"], sizes=[1000, 9000], seeds=3)
    assert isinstance(made, Concepts)
    return made


def table_of(**changes: dict[str, Any]) -> Table:
    rows = []
    for part, metrics in GOOD.items():
        for seed in range(3):
            found = metrics | changes.get(part, {})
            found |= {key: found[key] + 1e-4 * seed for key in MOVED if key in found}
            config = {"part": part} | ({"target": "law"} if part == "anew" else {})
            rows.append(Row(f"{part}{seed}", seed, "done", config, found))
    return Table(rows)


def conclude(table: Table) -> Conclusions:
    return draw_conclusions(study_of(), table)


@pytest.fixture
def no_split_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would need the texts themselves."""
    monkeypatch.setattr(Concepts, "_splits", lambda study, evidence: [])


@pytest.mark.usefixtures("no_split_audit")
def test_a_smoke_run_does_not_ask_for_more_test_items() -> None:
    names = {f.name for f in draw_conclusions(study_of(), table_of(), "smoke").findings}
    assert names.isdisjoint({"small-sample", "baselines", "seeds-and-interval"})


@pytest.mark.usefixtures("no_split_audit")
def test_verdicts_follow_the_table() -> None:
    found = conclude(table_of())
    assert {c.verdict for c in found.claims} == {"holds"} and len(found.claims) == 25
    assert found.answer == (
        "25 of 25 statements hold. With 1,000 bytes of court cases, training a model pretrained on "
        "news further beats training from scratch with a new tokenizer. With 9,000 bytes of court "
        "cases, training from scratch with a new tokenizer beats training the model pretrained on "
        "news further."
    )
    audits = {f.name: f.verdict for f in found.findings}
    assert set(audits.values()) == {"pass"} and {"baselines", "small-sample"} <= set(audits)
    text = " ".join(p for section in found.sections for p in section.paragraphs)
    assert len(found.sections) == 6, "three need a document of their trials"
    assert "perplexity of 50" in text and "of 80,000" in text
    assert not any(bad in text for bad in ("None", "nan", " .", " ,", " ()"))


@pytest.mark.parametrize(
    ("part", "changes", "claim"),
    [
        ("pair", {"form_share": 0.9}, "pair-form"),
        ("pair", {"masked_most": 1e-3}, "mask-hides-padding"),
        ("pair", {"no_segments": -1e-3}, "segments-count"),
        ("loop", {"not_zeroed": 1.0}, "gradients-add"),
        ("loop", {"dropout_eval": 0.1}, "eval-is-still"),
        ("loop", {"kept_no_grad": 8}, "no-grad-keeps-nothing"),
        ("order", {"shuffled_accuracy": 0.4}, "shuffling-helps"),
        ("merges", {"merges_same": 19}, "same-merges"),
        ("merges", {"words_same": 30}, "same-pieces"),
        ("masking", {"mask": 15_000, "kept": 0, "random": 0}, "masked-mask"),
        ("masking", {"mask": 11_600, "kept": 1900}, "masked-mask"),
        ("masking", {"markers": 1}, "markers-stay"),
        ("ids", {"log_ratio": -0.1}, "foreign-ids-ruin"),
        ("ids", {"segment_gap": 0.1}, "segments-are-words"),
        ("anew", {"own_9000_bits": 2.4}, "own-tokenizer-pays-law"),
        ("anew", {"continued_1000_bits": 3.2}, "pretraining-pays-law"),
        ("anew", {"continued_9000_bits": 1.2}, "anew-pays-law"),
        ("anew", {"own_log_ratio": -0.1}, "mismatch-law"),
    ],
)
def test_a_planted_fault_turns_a_verdict(part: str, changes: dict[str, Any], claim: str) -> None:
    study = study_of()
    claims = study.claims(study.evidence(table_of(**{part: changes})))
    assert {c.name: c.verdict for c in claims}[claim] == "fails"


@pytest.mark.usefixtures("no_split_audit")
def test_a_constant_answer_is_named() -> None:
    table = table_of(order={"shuffled_accuracy": 0.5, "sorted_accuracy": 0.4})
    findings = {f.name: f for f in conclude(table).findings}
    assert findings["baselines"].verdict == "fail"


def test_a_document_in_two_splits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Splits(("one text", "shared"), ("two",), ("shared",))
    news = Splits(("news",), ("more news",), ("last news",))
    monkeypatch.setattr(texts, "text_splits", lambda name: news if name == "news" else shared)
    findings = {f.name: f for f in conclude(table_of()).findings}
    assert findings["split-overlap"].verdict == "fail"


def test_an_empty_table_breaks_nothing() -> None:
    study = Concepts.at("smoke")
    found = draw_conclusions(study, Table([]))
    assert {c.verdict for c in found.claims} == {"undecided"}
    assert found.sections == [] and [f.name for f in found.findings] == ["seeds-and-interval"]
    assert found.answer.startswith("0 of 22")
    assert study.figures(found.evidence) == []


@pytest.mark.assets
@pytest.mark.slow
def test_the_smoke_scale_runs_to_its_report(tmp_path: Path) -> None:
    from attnlab.api.running import run

    done = run(
        "concepts",
        scale="smoke",
        out=tmp_path / "runs",
        engine="inline",
        settings={"device": "cpu"},
    )
    assert not done.failed and done.report.is_file()
    assert {"pair", "merges", "bits", "units", "ids", "order"} == {
        f["name"] for f in done.results["figures"]
    }
    exact = {c.name: c.verdict for c in conclusions(done).claims if c.estimate.exact}
    masked = {f"masked-{what}" for what in ("chosen", "mask", "random", "kept")}
    assert masked | {"pair-form", "gradients-add", "same-merges", "markers-stay"} <= exact.keys()
    assert set(exact.values()) == {"holds"} and len(exact) == 13
