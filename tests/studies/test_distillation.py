"""The study from start to report; its intervals, its texts written once, its planted faults."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.api.conclude import draw_conclusions
from attnlab.api.running import Run, run
from attnlab.audit.finding import Finding
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.lab.study import Study
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, TrialContext
from attnlab.measure.intervals import Estimate
from attnlab.models.hub import HubModel
from attnlab.models.tiny_llama import tiny_llama, word_tokenizer
from attnlab.models.trainable import redraw_weights, weights_sha256
from attnlab.studies.distillation import checks, teacher_texts
from attnlab.studies.distillation.claims import decisive
from attnlab.studies.distillation.data import (
    build_student,
    check_pair,
    layers_kept,
    load_splits,
    load_teacher,
)
from attnlab.studies.distillation.evidence import ScoredArms, mean_of
from attnlab.studies.distillation.scoring import on_one_line, one_sentence_per_line
from attnlab.studies.distillation.study import Distillation, DistilSettings
from attnlab.studies.distillation.trial import prompter_of, train_settings
from attnlab.tasks.made_up_articles import PHRASES, made_up_articles
from attnlab.tasks.prompts import PromptExample, collate
from attnlab.tasks.summaries import split_rows
from attnlab.training.distillation import DIVERGENCES, DistillationLoss, sequence_nll
from attnlab.training.update import Loss

from .conclusions import conclusions, verdicts


def settings(**changed: Any) -> DistilSettings:
    found = Distillation.at("smoke", **changed).settings
    assert isinstance(found, DistilSettings)
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The smoke scale, with a cache of its own."""
    folder = tmp_path_factory.mktemp("distillation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLAB_CACHE", str(folder / "cache"))
        return run("distillation", scale="smoke", out=folder / "runs", engine="inline")


def test_the_smoke_scale_runs_to_its_report(done: Run) -> None:
    assert not done.failed and done.report.is_file()
    assert [f["name"] for f in done.results["figures"]] == ["rouge", "training", "line-ends"]
    judged = conclusions(done)
    heads = [section.heading for section in judged.sections]
    assert heads[:2] == ["ROUGE of every arm", "Which differences are real"] and len(heads) == 7
    audits = {audit["name"]: audit["verdict"] for audit in done.results["audits"]}
    for name in (
        "distillation-identity",
        "freeze",
        "teacher-unchanged",
        "loss-mask",
        "label-shift",
        "split-overlap",
        "rouge",
        "eval-determinism",
        "causality",
    ):
        assert audits[name] == "pass", name
    by_name = verdicts(done)
    assert len(by_name) == 14 and by_name["one-line"] == by_name["line-ends"] == "holds"
    assert by_name["teacher-over-lead"] == "fails"  # a random model against the article itself
    assert all(not c["comparable"] for c in done.results["claims"] if c["reported"] is not None)


def test_metrics_are_the_means_of_the_items_that_are_stored(done: Run) -> None:
    for row in done.table:
        for name in ("rouge1", "rouge2", "rougeL", "rougeLsum", "newline", "joined"):
            if name in row.metrics:
                assert row[name] == pytest.approx(float(row.arrays[name].mean()), abs=1e-12)
        if "joined" in row.metrics:  # without line ends Lsum is L, for every item of every arm
            assert np.array_equal(row.arrays["joined"], row.arrays["rougeL"])


def test_arms_share_everything_but_what_they_learn_from(done: Run) -> None:
    arms = ScoredArms(done.table, Distillation.arms)
    assert arms.names() == ["teacher", "untuned", "text", "logits", "human", "lead"]
    sizes = {arms.mean(arm, "parameters") for arm in ("untuned", "text", "logits", "human")}
    assert len(sizes) == 1 and arms.mean("teacher", "parameters") > max(sizes)
    assert {arms.mean(arm, "steps") for arm in ("text", "logits", "human")} == {16}
    assert all(len(arms.rows(arm)) == 3 for arm in ("text", "logits", "human"))
    first, other = (json.loads(row.documents["summaries.json"]) for row in arms.rows("human")[:2])
    assert len(first) == len(other) == 24
    losses = [row.curves["train_loss"] for row in arms.rows("human")]
    assert losses[0] != losses[1]  # the seed changes the order


def test_the_weights_of_the_lowest_dev_loss_are_scored(done: Run) -> None:
    arms = ScoredArms(done.table, Distillation.arms)
    for arm in ("text", "logits", "human"):
        for row in arms.rows(arm):
            least = min(row.curves["dev_nll"])
            at = row.curves["dev_step"][row.curves["dev_nll"].index(least)]
            assert row["dev_nll"] == pytest.approx(least, rel=1e-6)
            assert row["scored_step"] == at


def test_people_are_learnt_from(done: Run) -> None:
    arms = ScoredArms(done.table, Distillation.arms)
    assert arms.mean("human", "test_nll") < arms.mean("untuned", "test_nll") - 0.5
    assert arms.mean("logits", "last_divergence") < 0.1
    assert "last_nll" not in arms.rows("logits")[0].metrics  # two losses never share a name


def test_the_same_trial_gives_the_same_numbers(
    done: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here with an empty cache: what the teacher wrote does not depend on who asked first."""
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path))
    study = Distillation.at("smoke")
    trial = next(trial for trial in study.trials() if trial.config["arm"] == "text")
    (row,) = [row for row in done.table if row.id == trial.id]
    again = study.run(trial, TrialContext())
    numbers = {k: v for k, v in again.metrics.items() if isinstance(v, float)}
    if torch.get_num_threads() == 1:
        assert numbers == {k: row.metrics[k] for k in numbers}
    assert [p.name for p in (tmp_path / "made").iterdir()] == ["teacher-texts"]


def test_seeds_are_counted_where_there_are_any_and_items_where_there_are_none() -> None:
    gaps = np.random.default_rng(3).normal(0.2, 0.1, (1, 37))
    fixed, one = mean_of(gaps, False, "a"), mean_of(gaps, True, "a")
    assert fixed.n == 37 and one.n == 1 and fixed.low == one.low > 0
    assert mean_of(np.repeat(gaps, 3, axis=0), True, "a").n == 3
    assert not np.isfinite(mean_of(np.empty((0, 0)), True, "a").value)


def test_the_teacher_is_best_only_where_nothing_speaks_against_it() -> None:
    def e(low: float, high: float, n: int = 5) -> Estimate:
        return Estimate((low + high) / 2, low, high, n)

    clear = {("a", "L"): e(0.1, 0.2), ("b", "L"): e(0.02, 0.3)}
    assert decisive(clear, clear)[0] == ("b", "L")  # the lowest end decides
    behind = {**clear, ("a", "sum"): e(-0.3, -0.1)}
    assert decisive(behind, behind)[0] == ("a", "sum")
    wide = {**clear, ("a", "sum"): e(-0.4, 0.1)}  # corrected for being many it is not behind
    key, found = decisive(behind, wide)
    assert key == ("a", "sum") and found.high < 0 and found is behind[key]
    few = {**clear, ("a", "sum"): e(-0.3, -0.1, n=1)}
    assert decisive(few, few)[1].n == 1  # and no verdict can rest on it


def test_the_teacher_writes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path))
    s = settings()
    teacher = load_teacher(s)
    articles = [row.article for row in made_up_articles(5)]

    def ask(count: int = 5) -> teacher_texts.Summaries:
        return teacher_texts.teacher_texts(teacher, prompter_of(s, teacher), articles[:count], 7, 3)

    first = ask()
    assert len(first.texts) == 5 and not first.finished[0]
    (file,) = (tmp_path / "made" / "teacher-texts").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(teacher_texts, "summarize", lambda *_: pytest.fail("written again"))
        assert ask() == first
    ask(4)  # other prompts are another file
    with torch.no_grad():
        teacher.library.model.norm.weight.add_(1e-3)
    ask()  # so is another teacher
    assert len(list(file.parent.iterdir())) == 3
    with torch.no_grad():
        teacher.library.model.norm.weight.sub_(1e-3)
    file.write_text(file.read_text().replace(first.texts[0], "something else"))
    assert ask().texts == first.texts  # a damaged file is written anew


def test_layers_and_first_weights_of_a_student() -> None:
    assert layers_kept(30, 5, "ends") == [0, 1, 2, 28, 29]
    assert layers_kept(30, 3, "even") == [0, 14, 29] and layers_kept(5, 1, "ends") == [0]
    with pytest.raises(UsageError, match="1 to 5"):
        layers_kept(5, 7, "ends")
    s = settings()
    teacher = load_teacher(s)
    before = weights_sha256(teacher.library)
    student = build_student(s, teacher, Seed(1))
    last = teacher.library.model.layers[4].mlp.up_proj.weight
    assert torch.equal(student.library.model.layers[1].mlp.up_proj.weight, last)
    one, same, other = (
        weights_sha256(build_student(settings(init="random"), teacher, Seed(i)).library)
        for i in (1, 1, 2)
    )
    assert one == same != other and before == weights_sha256(teacher.library)
    assert weights_sha256(redraw_weights(student.library, Seed(1))) == one


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"teacher": "smollm2"}, "use both"),
        ({"arms": ["text", "text"]}, "twice"),
        ({"batch": 4, "accumulate": 3}, "cannot be cut"),
        ({"arms": ["texts"]}, "text"),
        ({"data": "nowhere.jsonl"}, "nor a file"),
        ({"divergence": "backward"}, "reverse"),
    ],
)
def test_settings_that_cannot_be(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Distillation.at("smoke", **changed)


def test_what_suits_the_data_yields_to_what_is_said() -> None:
    found = Distillation.at("quick", data="multi-lexsum").settings_json()
    assert found["lead"] == 4 and "few sentences" in found["instruction"]
    assert Distillation.at("quick", data="multi-lexsum", lead=2).settings_json()["lead"] == 2
    assert Distillation.at("quick").settings_json()["lead"] == 1


def saved(folder: Path, words: str) -> Path:
    """A tiny model as a folder, as a person would name it."""
    tokenizer = word_tokenizer([*PHRASES, words])
    tiny_llama(len(tokenizer), Seed(5)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def written_rows(path: Path) -> Path:
    rows = [{"document": row.article, "summary": row.summary} for row in made_up_articles()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_any_pair_of_models_and_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    teacher = saved(tmp_path / "teacher", "Summarize the following text in a few sentences.")
    student = saved(tmp_path / "student", "Other words altogether, and more of them than before.")
    own: dict[str, Any] = {
        "teacher": str(teacher),
        "student": str(student),
        "train": 5,
        "test": 3,
        "epochs": 1,
        "data": str(written_rows(tmp_path / "rows.jsonl")),
    }
    with pytest.raises(UsageError, match=r"cannot be compared; leave the arm 'logits' out"):
        check_without_lines(Distillation.at("smoke", **own))
    study = Distillation.at("smoke", arms=["text", "lead"], **own)
    check_without_lines(study)
    trial = study.trials()[0]
    assert trial.config["teacher"] == "teacher" and len(trial.config["data_sha256"]) == 64
    assert len(trial.config["models_sha256"]) == 64
    outcome = study.run(trial, TrialContext())
    assert outcome.metrics["model"] == "student" and outcome.metrics["examples"] == 5
    (tmp_path / "rows.jsonl").write_text('{"document": "a b", "summary": "c"}\n')
    with pytest.raises(UsageError, match="changed since"):
        fresh(study)


def check_without_lines(study: Study) -> None:
    """`fetch` without the court cases, which are an asset."""
    assert isinstance(study.settings, DistilSettings)
    load_splits(study.settings)
    check_pair(study.settings)


def fresh(study: Study) -> Outcome:
    from attnlab.studies.distillation import data

    data._splits.cache_clear()  # pyright: ignore[reportPrivateUsage]
    return study.run(study.trials()[0], TrialContext())


def pieces() -> tuple[DistilSettings, HubModel, HubModel, list[PromptExample]]:
    s = settings()
    teacher = load_teacher(s)
    student = build_student(s, teacher, Seed(0))
    ask = prompter_of(s, student)
    return s, teacher, student, [ask.example(r.article, r.summary, 24) for r in made_up_articles(5)]


def audit_training(
    s: DistilSettings, student: HubModel, examples: list[PromptExample], loss: Loss
) -> dict[str, Finding]:
    plan = train_settings(s, len(examples), 0, "cpu")
    prompter = prompter_of(s, student)
    return {f.name: f for f in checks.training_findings(student, examples, prompter, loss, plan)}


def test_the_audits_of_training_pass_and_leave_the_student_as_it_was() -> None:
    s, teacher, student, examples = pieces()
    before = weights_sha256(student.library)
    findings = audit_training(s, student, examples, DistillationLoss(teacher.library))
    assert {f.verdict for f in findings.values()} == {"pass"}
    assert weights_sha256(student.library) == before
    loss = DistillationLoss(teacher.library, "jsd", 2.0)
    zero = checks.identity(teacher, examples[0], loss)
    assert abs(zero["identity_loss"]) < 1e-6 > zero["identity_gradient"]
    assert checks.identity_finding(zero, loss).verdict == "pass"
    student.library.train()
    loss = DistillationLoss(teacher.library)
    other = checks.identity(student, examples[0], loss)
    assert other["identity_loss"] > 1e-6  # a student that is not its teacher
    assert checks.identity_finding(other, loss).verdict == "fail"


def test_a_divergence_that_is_not_0_at_equality_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def entropy(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
        return -(teacher.softmax(-1) * student.log_softmax(-1)).sum(-1)

    monkeypatch.setitem(DIVERGENCES, "forward", entropy)
    zero = {"identity_loss": 0.0, "identity_gradient": 0.0}
    finding = checks.identity_finding(zero, DistillationLoss(torch.nn.Identity()))
    assert finding.verdict == "fail"


def test_a_step_in_pieces_is_audited_where_the_training_takes_it_in_pieces() -> None:
    s, teacher, student, examples = pieces()
    before = weights_sha256(student.library)
    cut = s.model_copy(update={"batch": 4, "accumulate": 2})
    for loss in (sequence_nll, DistillationLoss(teacher.library)):
        findings = audit_training(cut, student, examples, loss)
        assert findings["gradient-accumulation"].verdict == "pass"
    assert weights_sha256(student.library) == before
    assert "gradient-accumulation" not in audit_training(s, student, examples, sequence_nll)


def test_a_frozen_tensor_is_found() -> None:
    s, _teacher, student, examples = pieces()
    student.library.model.norm.weight.requires_grad_(False)
    finding = audit_training(s, student, examples, sequence_nll)["freeze"]
    assert finding.verdict == "fail" and "norm.weight" in finding.why


def test_a_prompt_that_is_scored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    s, _teacher, student, examples = pieces()

    def leaking(rows: Any, pad: int = 0) -> Any:
        return collate([PromptExample(e.prompt[:1], (*e.prompt[1:], *e.answer)) for e in rows], pad)

    monkeypatch.setattr(checks, "collate", leaking)
    assert audit_training(s, student, examples, sequence_nll)["loss-mask"].verdict == "fail"


def test_a_teacher_that_moved_or_was_left_training_is_found() -> None:
    assert checks.teacher_unchanged(True, True).verdict == "pass"
    assert checks.teacher_unchanged(False, True).verdict == "fail"
    assert checks.teacher_unchanged(True, False).verdict == "fail"


def test_what_trials_report_undermines_the_claims_that_rest_on_them(done: Run) -> None:
    def conclude(arm: str, finding: Finding) -> Finding:
        """The run with this finding planted in the trials of an arm."""
        rows = [
            replace(row, findings=[*(f for f in row.findings if f.name != finding.name), finding])
            if row["arm"] == arm
            else row
            for row in done.table
        ]
        conclusions = draw_conclusions(Distillation.at("smoke"), Table(rows))
        return next(f for f in conclusions.findings if f.name == finding.name)

    moved = conclude("logits", checks.teacher_unchanged(False, True))
    assert moved.verdict == "fail" and "logits-help" in moved.undermines
    assert "people-help" not in moved.undermines
    shared = conclude("lead", Finding("split-overlap", "fail", 3, 0, "3 rows"))
    assert shared.verdict == "fail" and len(shared.undermines) == 14


def test_made_up_articles_are_in_one_split_each_and_have_several_sentences() -> None:
    parts = split_rows(made_up_articles())
    assert all(len(part) > 4 for part in parts.as_dict().values())
    for row in made_up_articles(9):
        assert len(one_sentence_per_line(row.summary).split("\n")) == 2
        assert "\n" not in on_one_line(row.summary)


def test_without_trials_nothing_is_drawn_and_nothing_decided() -> None:
    study, nothing = Distillation.at("smoke"), Table([])
    conclusions = draw_conclusions(study, nothing)
    assert {c.verdict for c in conclusions.claims} == {"undecided"}
    assert conclusions.sections == [] and conclusions.answer.startswith("Not settled: no estimate")
    assert study.figures(conclusions.evidence) == []


@pytest.mark.assets
@pytest.mark.slow
def test_smollm2_ends_its_summaries_and_is_asked_by_its_template() -> None:
    """Its pad is its end: both ids are 2, and the end is still learnt."""
    s = DistilSettings(train=2, test=2, dev=2)
    teacher = load_teacher(s)
    ask = prompter_of(s, teacher)
    assert ask.chats and ask.end == teacher.tokenizer.library.pad_token_id  # type: ignore[union-attr]
    examples = [ask.example("A cat sat on a mat in Leeds.", text, 40) for text in ("A cat.", "So")]
    batch = collate(examples, pad=ask.end)
    assert int((batch.targets == ask.end).sum()) == 2
    made = teacher_texts.summarize(
        teacher, ask, ["The mayor of Leeds opened a new bridge on Monday."], 40, 1
    )
    assert "Leeds" in made.texts[0] or "bridge" in made.texts[0]
    student = build_student(s, teacher, Seed(0))
    assert len(student.library.model.layers) == s.student_layers
    assert student.parameter_count() < teacher.parameter_count()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_arms_run_in_mixed_precision_and_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path))
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    study = Distillation.at("smoke", device="cuda", precision="bfloat16", seeds=1)
    for trial in study.trials():
        one, other = (study.run(trial, TrialContext(device="cuda")) for _ in range(2))
        assert one.metrics == other.metrics, trial.config["arm"]
        assert not [f for f in one.findings if f.verdict == "fail"]
