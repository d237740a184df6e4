"""The study of knowledge: two trainings, the exam, traps that are shown, verdicts that fail."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.api import questions as asking
from attnlab.api.conclude import Conclusions, draw_conclusions
from attnlab.api.targets import own_model as own_model_of
from attnlab.audit.catalogue import check
from attnlab.audit.finding import Finding
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.models.perceiver import Perceiver
from attnlab.report.prose import study_prose
from attnlab.studies.knowledge import checks as checks_file
from attnlab.studies.knowledge import trial as trial_file
from attnlab.studies.knowledge.arms import BLIND, LABELS, changes
from attnlab.studies.knowledge.data import material
from attnlab.studies.knowledge.scoring import (
    answers,
    recalled,
    sequence_probability,
)
from attnlab.studies.knowledge.study import Knowledge
from attnlab.tasks.people import normalise
from attnlab.tasks.prompts import PromptExample

FIRST, LAST = ("Al", "Bo", "Cy", "Di", "Ed"), ("Ames", "Bird", "Cox", "Dow", "Eck")
NAMES = [f"{FIRST[i % 5]} {LAST[(i + i // 5) % 5]}" for i in range(12)]
PLACES = ("Rome", "Oslo", "Bern")
ARMS = (
    "none",
    "pretrained",
    "perceiver-course",
    "perceiver-wide-6",
    "perceiver-weights-6",
    "perceiver-local",
    "course-schedule",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A course's three files: the last four people are only read of."""
    folder = tmp_path_factory.mktemp("course")
    place = {name: PLACES[i % 3] for i, name in enumerate(NAMES)}
    lines = [f"{name} was born in {where}." for name, where in place.items()]
    lines += [f"{name}, a native of {where}, played." for name, where in place.items()]
    asked = [f"Where was {name} born?\t{where}" for name, where in place.items()]
    texts = {"pretrain_text": lines, "train": asked[:8], "dev": asked[8:]}
    for name, held in texts.items():
        (folder / name).write_text("\n".join(held) + "\n", encoding="utf-8")
    return {"source": "files", **{name: str(folder / name) for name in texts}}


def study_of(files: Mapping[str, Any], **more: Any) -> Knowledge:
    small = {"arms": list(ARMS), "invented": 5, "seeds": 1, "answer_characters": 6, "block": 64}
    made = Knowledge.at("smoke", **{**files, **small, **more})
    assert isinstance(made, Knowledge)
    return made


@pytest.fixture(scope="module")
def done(files: Mapping[str, Any]) -> Iterator[tuple[Knowledge, Table]]:
    """Without the audits of each model at its start and end, which take a minute here."""
    study = study_of(files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial_file, "model_findings", lambda model, when: [])
        yield study, Table([row_of(t, study.run(t, TrialContext())) for t in study.trials()])


@pytest.mark.slow
def test_every_model_is_audited_at_its_start_and_end(files: Mapping[str, Any]) -> None:
    study = study_of(files, arms=["perceiver-local", "none"])
    table = Table([row_of(trial, study.run(trial, TrialContext())) for trial in study.trials()])
    found = {f.name: f.verdict for f in draw_conclusions(study, table).findings}
    assert found["causality"] == found["padding"] == found["non-finite"] == "pass"


def row_of(trial: Trial, out: Outcome) -> Row:
    return Row(
        trial.id,
        trial.seed,
        "done",
        trial.config,
        out.metrics,
        findings=out.findings,
        load_arrays=lambda: out.arrays,
        load_curves=lambda: out.curves,
        load_samples=lambda: out.samples,
        load_documents=lambda: out.documents,
    )


def test_every_arm_reads_is_asked_and_examined(done: tuple[Knowledge, Table]) -> None:
    _, table = done
    assert sorted(row["arm"] for row in table) == sorted(ARMS)
    for row in table:
        assert row["read_n"] == 4 and row["taught_n"] == 8 and "unread_n" not in row.metrics
        assert 0 <= row["read_accuracy"] <= 1 and row["ceiling"] == 1.0
        assert row["majority"] == 0.5  # the last four were born in three places, one twice
        said = json.loads(row.documents["answers.json"])
        assert [len(said[kind]) for kind in ("taught", "read", "unread", "invented")] == [
            8,
            4,
            0,
            5,
        ]
        assert ("recalled_n" in row.metrics) == (row["arm"] != "none")
        assert ("reading_loss" in row.curves) == (row["arm"] != "none")
        assert all(0 <= p <= 1 for p in row.arrays["invented_confidence"])
        assert 0 < row["surname_p"] <= 1 and row["surname_names"] >= 4
    blind = {
        row["arm"]
        for row in table
        if any(f.name == "coverage" and f.verdict == "fail" for f in row.findings)
    }
    assert blind == {"perceiver-course", "perceiver-wide-6", "perceiver-weights-6"}
    searched = {row["arm"] for row in table if "rate" in row.metrics}
    assert searched == {arm for arm in ARMS if arm.startswith("perceiver")}
    for row in table:
        if row["arm"] in searched:
            tried = [float(rate) for rate in row["rates_tried"].split("; ")]
            assert {1e-3, 3e-3} <= set(tried) == set(row.curves["search_rate"])
            losses = dict(zip(row.curves["search_rate"], row.curves["search_loss"], strict=True))
            assert losses[row["rate"]] == min(losses.values())
            assert max(row.curves["reading_rate"]) == pytest.approx(row["rate"], rel=0.3)


def test_the_audits_find_the_traps_that_are_shown(done: tuple[Knowledge, Table]) -> None:
    study, table = done
    drawn = draw_conclusions(study, table)
    found = {finding.name: finding for finding in drawn.findings}
    assert found["coverage"].verdict == "pass" and "perceiver-course fails" in found["coverage"].why
    assert found["schedule"].verdict == "pass" and "rises again" in found["schedule"].why
    assert found["split-overlap"].verdict == found["contamination"].verdict == "pass"
    assert drawn.sections and drawn.answer.startswith("Not settled")
    shown = study.figures(drawn.evidence)
    assert shown
    for figure in shown:
        figure.draw()


def test_a_course_mask_that_is_not_blind_would_be_a_failure(done: tuple[Knowledge, Table]) -> None:
    study, table = done
    sighted = [Finding("coverage", "pass", 0, 0, "it reads every token")]
    turned = Table([replace(row, findings=sighted) for row in table])
    found = {f.name: f for f in draw_conclusions(study, turned).findings}
    assert found["coverage"].verdict == "fail" and "must fail" in found["coverage"].why


def test_a_trial_is_a_function_of_itself(
    files: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_file, "model_findings", lambda model, when: [])
    study = study_of(files, arms=["pretrained"], mix=0.25)
    (trial,) = study.trials()
    one, two = (study.run(trial, TrialContext()) for _ in range(2))
    assert one.metrics == two.metrics and one.documents == two.documents
    assert one.curves == two.curves


def table_of(values: Mapping[str, list[tuple[float, float]]]) -> Table:
    """arm -> (accuracy, recalled) a seed, of 100 people."""
    rows = []
    for arm, seeds in values.items():
        for seed, (right, kept) in enumerate(seeds):
            metrics = {
                "read_accuracy": right,
                "read_right": round(100 * right),
                "read_n": 100,
                "majority": 0.2,
                "commonest_taught": 0.18,
                "ceiling": 1.0,
                "recalled_right": round(100 * kept),
                "recalled_n": 100,
                "auroc_invented": 0.5 + right / 2,
                "auroc_unread": 0.44 + 0.01 * seed,
                "unread_accuracy": 0.2 + 0.01 * seed,
            }
            rows.append(Row(f"{arm}{seed}", seed, "done", {"arm": arm}, metrics))
    return Table(rows)


def verdicts(found: Sequence[Claim]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in found}


def concluded(values: Mapping[str, list[tuple[float, float]]]) -> Conclusions:
    """Without the audits of the data, which need the people."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks_file, "_data", lambda s: [])
        return draw_conclusions(Knowledge.at("quick"), table_of(values))


def test_verdicts_follow_the_numbers_both_ways() -> None:
    knows = concluded(
        {
            "none": [(0.2, 0.0), (0.22, 0.0), (0.18, 0.0)],
            "pretrained": [(0.8, 0.99), (0.84, 0.97), (0.79, 0.98)],
        }
    )
    # before the correction: three seeds are few for six comparisons
    assert verdicts(Knowledge.at("quick").claims(knows.evidence)) == {
        "pretraining-knows": "holds",
        "no-text-no-knowledge": "holds",
        "memorised-not-extracted": "holds",
        "text-not-habits": "holds",
        "sure-of-invented": "holds",
        "sure-of-unread": "fails",
        "surname-decides": "undecided",  # not measured, yet declared
    }
    assert knows.answer.startswith("Yes: ")
    blank = concluded(
        {
            "none": [(0.5, 0.0), (0.55, 0.0), (0.52, 0.0)],
            "pretrained": [(0.5, 0.5), (0.56, 0.5), (0.52, 0.52)],
        }
    )
    study = Knowledge.at("quick")
    claims = study.claims(blank.evidence)  # before the correction for many comparisons
    other = verdicts(claims)
    assert other["pretraining-knows"] == other["no-text-no-knowledge"] == "fails"
    assert study_prose(study, blank.evidence, claims)[0].startswith("No: ")
    few = concluded({"none": [(0.2, 0)], "pretrained": [(0.9, 1)]})
    assert set(verdicts(few.claims).values()) == {"undecided"}
    assert {f.name: f.verdict for f in knows.findings}["baselines"] == "pass"
    assert {f.name: f.verdict for f in blank.findings}["small-sample"] == "fail"


def test_confidence_is_the_probability_of_the_answer_with_its_end(files: Mapping[str, Any]) -> None:
    c = study_of(files).settings_json()
    data = material(c, 0)
    config = c | changes("pretrained")
    model = trial_file.arm_model(config, data.vocabulary.size, Seed(3)).eval()
    questions = data.world.read
    found = answers(model, data, questions, longest=3, batch=3)
    examples = [
        PromptExample(data.prompt(q.text), tuple(data.vocabulary.encode(q.place or "")))
        for q in questions
    ]
    together = sequence_probability(model, examples, 3)
    for example, p in zip(examples, together, strict=True):
        ids = torch.tensor([(*example.prompt, *example.answer)])
        logs = model.logits(ids)[0].double().log_softmax(dim=-1)
        start = len(example.prompt)
        steps = [float(logs[start + i - 1, t]) for i, t in enumerate(example.answer)]
        assert math.exp(sum(steps)) == pytest.approx(p, rel=1e-4)
    assert len(found.said) == 4 and np.all(found.confidence <= 1)
    kept = recalled(model, data, 4, 3)
    assert kept.tolist() == [0] * 4  # all are told of with the name first; nothing is learnt yet


def test_a_map_from_tokens_to_latents_is_refused_in_one_line(
    done: tuple[Knowledge, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {row["arm"]: row for row in done[1]}
    monkeypatch.setattr(asking, "load_target", lambda name, *_: own_model_of(name, rows[name]))
    text = f"Where was {NAMES[0]} born?"
    assert asking.attend("pretrained", text, Path(), "cpu").weights.shape[2:] == (24, 24)
    for arm, words in (("perceiver-local", text), ("perceiver-course", "born")):  # square, even so
        with pytest.raises(UsageError, match="no attention from token to token"):
            asking.attend(arm, words, Path(), "cpu")


def test_the_models_of_a_run_open_as_targets_and_answer_as_they_did(
    done: tuple[Knowledge, Table],
) -> None:
    """A question in plain words gets the answer of the exam: the marks are part of the model."""
    _, table = done
    for row in table:
        target = own_model_of(f"run@{row['arm']}", row)
        assert isinstance(target.model, Perceiver) == row["arm"].startswith("perceiver")
        assert target.reader is not None
        people = json.loads(row.documents["answers.json"])["read"]
        prompts = [target.ids(f"Where was {name} born?") for name, *_ in people]
        stop = target.reader.stop
        assert stop is not None and all(prompt[-1] == stop for prompt in prompts)
        found = generate(
            target.model, prompts, Strategy("greedy"), max_new_tokens=6, stop_ids=[stop, 1]
        )
        told = [normalise(target.reader.decode(text.ids)) for text in found]
        assert told == [answered for _, _, answered, _ in people]
        (coverage,) = check(target.model, only=["coverage"], length=23).findings
        assert (coverage.verdict == "fail") == (row["arm"] in BLIND)


def test_files_and_settings_that_do_not_fit_are_one_line(files: Mapping[str, Any]) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("no dev", {**files, "dev": ""}),
        ("for source 'files'", {"train": "x"}),
        ("no such file", {**files, "dev": "/nowhere"}),
        ("one-phrasing", {**files, "arms": ["one-phrasing"]}),
        ("named twice", {"arms": ["none", "none"]}),
        ("heads", {"width": 30, "heads": 4}),
    ]
    for words, given in wrong:
        with pytest.raises(UsageError, match=words):
            Knowledge.at("smoke", **given)
    with pytest.raises(UsageError, match="do not fit into a block"):
        study_of(files, block=24).fetch()
    before = study_of(files)
    path = Path(files["dev"])
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept + "Where was Ed Dow born?\tRome\n", encoding="utf-8")
    try:
        assert study_of(files).run_id != before.run_id  # other files, another run
    finally:
        path.write_text(kept, encoding="utf-8")


def test_every_arm_has_a_label_and_the_arm_without_text_ignores_how_it_is_read(
    files: Mapping[str, Any],
) -> None:
    full = Knowledge.at("full")
    assert isinstance(full, Knowledge)
    assert set(LABELS) == set(full.settings.arms)
    ids = {
        next(t.id for t in study_of(files, whole=share).trials() if t.config["arm"] == "none")
        for share in (0.0, 1.0)
    }
    assert len(ids) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_every_arm_runs_in_mixed_precision(
    files: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    study = study_of(files, device="cuda", precision="bfloat16")
    for trial in study.trials():
        metrics = study.run(trial, TrialContext(device="cuda")).metrics.values()
        assert all(math.isfinite(value) for value in metrics if isinstance(value, float))
