"""Fine-tuning, optimizers, adapters: searches that choose by dev, one look at test, a collapse."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlab.api.conclude import draw_conclusions
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.lab.study import Study
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, Trial, TrialContext, TrialStopped
from attnlab.measure.grid_search import GrowingGrid
from attnlab.products.finetune import trial as one_tuning
from attnlab.products.finetune.audits import findings_before, invariance
from attnlab.products.finetune.settings import RATES, FinetuneSettings
from attnlab.products.finetune.trial import training_settings
from attnlab.studies.adapting.adapters import Adapters
from attnlab.studies.adapting.evidence import Cell
from attnlab.studies.adapting.fine_tuning import FineTuning
from attnlab.studies.adapting.optimizers import Optimizers, OptimizerSettings
from attnlab.studies.adapting.search import Search, grid, halving, widen
from attnlab.studies.adapting.study import AdaptStudy
from attnlab.studies.adapting.trial import finetune_settings, load_task
from attnlab.tasks.encoder_inputs import EncodedExamples
from attnlab.tasks.made_up_texts import made_up_texts
from attnlab.training.classify import fit
from attnlab.training.tune import build_classifier

KINDS: tuple[type[AdaptStudy], ...] = (FineTuning, Optimizers, Adapters)
D, L, LENGTH = 12, 2, 5  # of the tiny encoder, and its prefixes
COUNTS = {
    "head": 2 * D + 2,
    "prefix": (LENGTH + 2) * D + 2,
    "lora": 4 * 8 * L * D + 2 * D + 2,
    "prefix-layers": (2 * LENGTH * L + 2) * D + 2,
}


def row_of(trial: Trial, out: Outcome) -> Row:
    return Row(
        trial.id,
        trial.seed,
        "done",
        trial.config,
        out.metrics,
        cost=out.cost,
        findings=out.findings,
        load_arrays=lambda: out.arrays,
        load_curves=lambda: out.curves,
        load_documents=lambda: out.documents,
    )


def smoke(kind: type[AdaptStudy], **changed: Any) -> Study:
    """The smoke scale, smaller still: one seed, few rows."""
    small: dict[str, Any] = {"seeds": 1, "rows": 48, "scored": 31, "tested": 43}
    if kind is FineTuning:
        small |= {"sizes": [17, 48], "long_epochs": 2, "collapse_seeds": 1}
    return kind.at("smoke", **{**small, **changed})


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def done(request: pytest.FixtureRequest) -> Iterator[tuple[Study, Table]]:
    study = smoke(request.param)
    study.fetch()
    yield study, Table([row_of(t, study.run(t, TrialContext())) for t in study.trials()])


def test_every_study_runs_to_its_report_and_figures(done: tuple[Study, Table]) -> None:
    study, table = done
    drawn = draw_conclusions(study, table)
    assert drawn.claims and all(claim.trials for claim in drawn.claims)
    sampled = [claim for claim in drawn.claims if not claim.estimate.exact]
    assert {claim.verdict for claim in sampled} == {"undecided"}  # one seed
    assert drawn.answer.endswith(".") and drawn.sections
    text = " ".join([drawn.answer, *(p for s in drawn.sections for p in s.paragraphs)])
    assert not any(wrong in text for wrong in (" .", " ,", "()", "None", "nan", "..")), text
    figures = study.figures(drawn.evidence)
    assert figures and all(f.caption and f.alt for f in figures)
    for figure in figures:
        assert all(ax.get_xlabel() for ax in figure.draw().axes)
    audits = {f.name: f.verdict for f in drawn.findings}
    assert audits["split-overlap"] == audits["freeze"] == audits["adapter-effect"] == "pass"
    assert set(audits) == {
        "seeds-and-interval",
        "split-overlap",
        "freeze",
        "collapse",
        "baselines",
        "adapter-effect",
        "metric-invariance",
        "small-sample",
        "grid-edge",
    }


def test_a_study_without_trials_says_nothing_wrong() -> None:
    for kind in KINDS:
        study = smoke(kind)
        drawn = draw_conclusions(study, Table([]))
        assert {c.verdict for c in drawn.claims} == {"undecided"}
        assert study.figures(drawn.evidence) == []
        assert drawn.answer.startswith("Not settled: ")
        assert drawn.sections == [] or kind is FineTuning
        assert {f.verdict for f in drawn.findings} == {"not-applicable"}


def test_test_rows_are_read_once_for_the_chosen_cell_and_never_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    plain = EncodedExamples.batches_by_length

    def counting(self: EncodedExamples, batch: int, count: int = 0) -> Any:
        read.append(id(self))
        return plain(self, batch, count)

    monkeypatch.setattr(EncodedExamples, "batches_by_length", counting)
    study = smoke(FineTuning)
    trials = {str(t.config["kind"]): t for t in study.trials()}
    for kind, times in {"search": 1, "long": 0, "size": 0, "collapse": 1}.items():
        c = trials[kind].config
        test = load_task(finetune_settings(c), trials[kind].stream, c["tested"]).test
        read.clear()
        study.run(trials[kind], TrialContext())
        assert read.count(id(test)) == times, kind


def test_dev_and_as_many_training_rows_are_scored_at_every_evaluation() -> None:
    """Of every cell, so that the curves at one learning rate for all can be drawn."""
    study = smoke(Optimizers, optimizers=["adamw"], widen=0)
    (trial,) = study.trials()
    out = study.run(trial, TrialContext())
    arms = Optimizers.evidence(study, Table([row_of(trial, out)]))  # type: ignore[arg-type]
    rates = study.settings.rates("adamw")  # type: ignore[attr-defined]
    assert len(rates) == 2
    for rate in rates:
        (curves,) = arms.at_rate(rate).curves("adamw").values()
        assert curves["dev_step"] == [3.0, 6.0]  # 48 rows, batch 16, two epochs
        for name in ("dev_accuracy", "dev_loss", "train_accuracy", "own_loss"):
            assert len(curves[name]) == 2
        shares = [31 * accuracy for accuracy in curves["train_accuracy"]]  # of 31 rows, as on dev
        assert shares == pytest.approx([round(share) for share in shares])


def test_some_rows_are_spaced_evenly() -> None:
    rows = load_task(base(), Seed(0)).train
    numbers = np.concatenate([numbers for numbers, _ in rows.batches_by_length(5, 7)])
    assert sorted(numbers.tolist()) == [0, 3, 7, 11, 15, 19, 23]
    assert sum(len(numbers) for numbers, _ in rows.batches_by_length(5, 99)) == len(rows) == 24


def test_the_reported_rates_have_their_epochs_and_the_sane_one_the_fewest() -> None:
    trials = FineTuning.at("full", collapse_seeds=2).trials()
    assert {
        (t.config["arm"], t.config["learning_rate"], t.config["epochs"])
        for t in trials
        if t.config["kind"] == "collapse"
    } == {
        ("rate 0.0005, 7 epochs", 5e-4, 7.0),
        ("rate 0.001, 9 epochs", 1e-3, 9.0),
        ("rate 0.0125, 12 epochs", 1.25e-2, 12.0),
        ("rate 0.0125, 20 epochs", 1.25e-2, 20.0),
        ("rate 5e-05, 7 epochs", 5e-5, 7.0),
    }
    assert [t.seed for t in trials] == sorted(t.seed for t in trials), "a stop leaves whole seeds"


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_in_the_layout_of_sst2_is_read(kind: type[AdaptStudy], tmp_path: Path) -> None:
    """A sentence, a tab, 0 or 1; the test file has labels and is used as it is."""
    rows = made_up_texts(170).train
    parts = {"train": (*rows[:61], rows[99]), "dev": rows[61:84], "test": rows[84:113]}
    for name, part in parts.items():
        lines = [f"{row.text}\t{row.label}\n" for row in part]
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    study = smoke(kind, data=str(tmp_path), rows=0, scored=0, tested=0, longest=16)
    study.fetch()
    trial = next(t for t in study.trials() if t.config["data"] == str(tmp_path))
    out = study.run(trial, TrialContext())
    sizes = {name: out.metrics[name] for name in ("train_rows", "dev_rows", "tested")}
    assert sizes == {"train_rows": 61, "dev_rows": 23, "tested": 29}
    assert "; 1 training row left out: in dev or test too" in str(out.metrics["cut"])
    assert next(f for f in out.findings if f.name == "split-overlap").verdict == "pass"


def test_parameters_are_those_of_the_formulas() -> None:
    study = smoke(Adapters, pair_data="", encoders=[], methods=list(COUNTS), factors=[7.0])
    for trial in study.trials():
        out = study.run(trial, TrialContext())
        assert out.metrics["trained"] == COUNTS[trial.config["arm"]] == out.metrics["by_formula"]
    assert [t.config["rates"] for t in study.trials() if t.config["arm"] == "lora"] == [
        [pytest.approx(7 * RATES["lora"])]
    ]


def test_a_further_encoder_is_an_arm_of_its_own() -> None:
    study = smoke(Adapters, pair_data="", encoders=["tiny"], methods=["full"])
    table = Table([row_of(t, study.run(t, TrialContext())) for t in study.trials()])
    assert [row["arm"] for row in table] == ["full", "full, tiny"]
    one, other = table.rows
    assert one.metrics == other.metrics  # it is the same encoder here
    claim = next(c for c in study.claims(study.evidence(table)) if c.name == "texts-beats-tiny")
    assert claim.estimate.value == 0 and "does better than tiny" in claim.statement


def base(**changed: Any) -> FinetuneSettings:
    return FinetuneSettings(
        data="made-up",
        model="tiny",
        method="head",
        rows=24,
        longest=24,
        epochs=1.0,
        batch=8,
        evaluations=1,
        **changed,
    )


class ScriptedSearch(Search):
    """Cells whose results are given instead of trained."""

    results: Mapping[float, tuple[float | None, float]]

    def run_cell(self, s: FinetuneSettings) -> Cell:
        accuracy, loss = self.results[s.rate]
        key = f"{s.rate:g} {s.epochs:g}"
        cell = {"rate": s.rate, "batch": s.batch, "epochs": s.epochs}
        self.cells[key] = {"key": key, **cell, "dev_accuracy": accuracy, "dev_loss": loss}
        return self.cells[key]


def scripted(results: Mapping[float, tuple[float | None, float]]) -> ScriptedSearch:
    search = ScriptedSearch(load_task(base(), Seed(0)), Seed(0), TrialContext())
    search.results = results
    return search


def test_halving_gives_more_epochs_to_the_best_third() -> None:
    rates = [0.1 * (i + 1) for i in range(7)]
    search = scripted({rate: (0.5 + rate / 10, 1.0) for rate in rates})
    halving(search, base(), {"learning_rate": rates, "epochs": [1.0, 3.0, 9.0]})
    assert len(search.cells) == 7 + 2 + 1
    assert [key for key in search.cells if key.endswith(" 3")] == ["0.7 3", "0.6 3"]
    assert search.best_cell()["key"].startswith("0.7 ")


def test_the_best_has_the_lower_loss_among_equals_and_never_diverged() -> None:
    search = scripted({0.1: (0.8, 0.5), 0.2: (0.8, 0.4), 0.3: (None, 0.0), 0.4: (0.7, 0.1)})
    for s in grid(base(), {"learning_rate": list(search.results)}):
        search.run_cell(s)
    assert search.best_cell()["key"].startswith("0.2 ")


def growing(axes: Mapping[str, Sequence[float]], most: int) -> dict[str, GrowingGrid]:
    return {
        name: GrowingGrid(set(values), 2, most, 3, (0.001, 24)) for name, values in axes.items()
    }


def widened(results: Mapping[float, tuple[float | None, float]], most: int) -> tuple[int, Search]:
    """A grid of 0.1 and 0.2, widened by factors of 2."""
    search, axes = scripted(results), {"learning_rate": [0.1, 0.2], "batch": [8]}
    for s in grid(base(), axes):
        search.run_cell(s)
    return widen(search, base(), growing(axes, most)), search


def test_a_search_goes_on_beyond_the_end_that_dev_chose_until_it_gets_no_better() -> None:
    rising = {0.1: (0.6, 1.0), 0.2: (0.7, 1.0), 0.4: (0.8, 1.0), 0.8: (0.5, 1.0)}
    count, search = widened(rising, most=5)
    assert count == 2 and search.best_cell()["rate"] == 0.4 and len(search.cells) == 4
    falling = {0.2: (0.6, 1.0), 0.1: (0.7, 1.0), 0.05: (None, 1.0)}
    count, search = widened(falling, most=5)
    assert count == 1 and search.best_cell()["rate"] == 0.1  # what diverges was tried, too


def test_a_search_widens_no_further_than_it_may_and_not_at_all_without_a_result() -> None:
    rising: dict[float, tuple[float | None, float]] = {
        0.1 * 2**i: (0.6 + 0.01 * i, 1.0) for i in range(5)
    }
    assert widened(rising, most=2)[0] == 2 and widened(rising, most=0)[0] == 0
    assert widened({0.1: (None, 1.0), 0.2: (None, 1.0)}, most=2)[0] == 0
    one = scripted({0.1: (0.9, 1.0)})
    one.run_cell(base(learning_rate=0.1))
    assert widen(one, base(), growing({"learning_rate": [0.1], "batch": [8]}, 3)) == 0  # no search


def test_a_batch_size_is_widened_to_whole_rows_that_there_are() -> None:
    """24 training rows: beyond 16 there is no batch of 32; below 2 there is 1 and nothing else."""
    search, axes = scripted({0.1: (0.9, 1.0)}), {"learning_rate": [0.1], "batch": [16, 8]}
    search.run_cell(base(learning_rate=0.1).model_copy(update={"batch": 16}))
    assert widen(search, base(), growing(axes, 3)) == 0
    search.run_cell(base(learning_rate=0.1).model_copy(update={"batch": 2}))
    axes["batch"] = [2, 4]
    assert widen(search, base(), growing(axes, 3)) == 1
    assert search.best_cell()["batch"] == 1


def test_every_optimizer_has_the_same_budget() -> None:
    for scale in ("quick", "full"):
        s = Optimizers.at(scale).settings
        assert isinstance(s, OptimizerSettings)
        assert len({len(s.rates(name)) for name in s.optimizers}) == 1


def test_a_search_that_is_stopped_goes_on_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the third cell: two are not trained again, unless one of them is the best."""
    study = smoke(Optimizers, optimizers=["adamw"], adamw_rates=[0.003, 0.01, 0.03], widen=0)
    (trial,) = study.trials()
    whole = study.run(trial, TrialContext())
    count = 0

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        return fit(*args, **more)

    monkeypatch.setattr(one_tuning, "fit", counted)
    with pytest.raises(TrialStopped):
        study.run(trial, TrialContext(checkpoints=tmp_path, stopping=lambda: count > 2))
    assert len(list(tmp_path.glob("*.json"))) == 2
    count = 0
    again = study.run(trial, TrialContext(checkpoints=tmp_path))
    assert again.metrics == whole.metrics and again.documents == whole.documents
    assert 2 <= count <= 3


def test_padding_that_is_read_is_found_and_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_task(base(), Seed(0))
    model = build_classifier(task.encoder, 2, base().tuning(), Seed(0))
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    assert invariance(model, task.dev).verdict == "pass"
    assert all(torch.equal(before[name], now) for name, now in model.named_parameters())
    forward = model.forward

    def reading(ids: Tensor, key_padding_mask: Tensor, kinds: Tensor | None = None) -> Tensor:
        return forward(ids, torch.zeros_like(key_padding_mask), kinds)

    monkeypatch.setattr(model, "forward", reading)
    found = invariance(model, task.dev)
    assert found.verdict == "fail" and "padding is scored" in found.why


def test_freeze_is_judged_by_a_step_that_moves_what_has_a_gradient() -> None:
    """A rate at which SGD moves no bit says nothing about what learns."""
    s = base(optimizer="sgd", learning_rate=1e-30)
    task = load_task(s, Seed(0))
    model = build_classifier(task.encoder, 2, s.tuning(), Seed(0))
    findings = findings_before(model, s, task, training_settings(s, len(task.train)))
    assert {f.name: f.verdict for f in findings} == {"split-overlap": "pass", "freeze": "pass"}


def test_fewer_rows_are_part_of_more_and_other_seeds_draw_others() -> None:
    few, more = (load_task(base().model_copy(update={"rows": n}), Seed(3)) for n in (11, 23))
    other = load_task(base().model_copy(update={"rows": 23}), Seed(4))
    assert more.data.train[:11] == few.data.train
    assert set(other.data.train) != set(more.data.train)
    assert other.data.dev == more.data.dev and other.data.test == more.data.test


def test_a_trial_is_a_function_of_itself() -> None:
    study = smoke(Adapters, pair_data="", encoders=["random"], methods=["lora"])
    for trial in study.trials():
        one, two = (study.run(trial, TrialContext()) for _ in range(2))
        assert one.metrics == two.metrics and one.curves == two.curves
        assert one.findings == two.findings


def test_what_cannot_be_meant() -> None:
    with pytest.raises(UsageError, match="cannot be drawn"):
        FineTuning.at("quick", sizes=[700])
    with pytest.raises(UsageError, match="one for each of collapse_rates"):
        FineTuning.at("quick", collapse_epochs=[2.0, 3.0])
    with pytest.raises(UsageError, match="given twice"):
        FineTuning.at("quick", collapse_rates=[0.1, 0.1])
    with pytest.raises(UsageError, match="did you mean 'sentiment'"):
        Optimizers.at("quick", data="sentment")
    with pytest.raises(UsageError, match="unknown setting 'rate'"):
        Adapters.at("quick", rate=3)
    with pytest.raises(ValueError, match="method 'full'"):
        FinetuneSettings(init="random", method="lora")
    with pytest.raises(ValueError, match="momentum is an option of sgd"):
        FinetuneSettings(momentum=0.9)
    with pytest.raises(UsageError, match="no such folder, asset"):
        smoke(Optimizers, model="nowhere").fetch()


@pytest.mark.slow
@pytest.mark.assets
def test_a_real_encoder_on_real_sentences() -> None:
    """Sixteen sentences teach little: what is checked is that data, encoder and audits fit."""
    study = Adapters.at(
        "quick",
        seeds=1,
        rows=16,
        scored=8,
        tested=8,
        epochs=1.0,
        methods=["head"],
        encoders=[],
        pair_data="boolq",
        pair_rows=8,
        pair_scored=8,
        pair_longest=48,
        factors=[1.0],
    )
    study.fetch()
    for trial in study.trials():
        out = study.run(trial, TrialContext())
        assert out.metrics["trained"] == 2 * 384 + 2 and out.metrics["tested"] == 8
        verdicts = {f.name: f.verdict for f in out.findings}
        assert verdicts["freeze"] == verdicts["split-overlap"] == "pass"
