"""One trial: a world, a model, pretraining (unless the arm has none), fine-tuning, the exam."""

import json
import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attnlab.audit.catalogue import LENGTH, check, model_findings
from attnlab.audit.checks.collapse import collapse
from attnlab.audit.finding import Finding
from attnlab.core.seeds import Seed
from attnlab.lab.training import model_files, train_in_trial
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.models.build import model_from_json
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver
from attnlab.studies.knowledge.arms import schedule_of
from attnlab.studies.knowledge.bias import agreement, crossed
from attnlab.studies.knowledge.data import Material, check_block, material
from attnlab.studies.knowledge.scoring import Answers, Model, answers, measured, recalled, together
from attnlab.studies.knowledge.search import Searched, search_rate
from attnlab.studies.knowledge.study import Knowledge
from attnlab.tasks.batches import MixedBatches
from attnlab.tasks.prompts import PromptBatches
from attnlab.tasks.span_corruption import CorruptedBatches, Corruption
from attnlab.training.batch import Batches
from attnlab.training.result import TrainResult
from attnlab.training.settings import TrainSettings


def run(study: Knowledge, trial: Trial, context: TrialContext) -> Outcome:
    """Pretrain unless the arm has none, fine-tune on questions, then answer the test questions."""
    c, seed = trial.config, trial.stream
    data = material(c, trial.seed)
    check_block(c, data)
    model = arm_model(c, data.vocabulary.size, seed.child("weights")).to(context.device)
    findings = [*model_findings(model, "start"), _coverage(model)]
    found = _own_rate(trial, context, data, model) if c["reads"] else None
    metrics: dict[str, Any] = found.metrics() if found else {}
    curves: dict[str, list[float]] = found.curves() if found else {}
    kept: np.ndarray | None = None
    for phase in ("reading", "asked") if c["pretrain"] else ("asked",):
        done = _Phase(trial, context, data, phase, found.rate if found else None).train(model)
        if done.ending == "diverged":
            return Outcome({"read_accuracy": math.nan}, reasons={"read_accuracy": done.problem})
        loss = done.loss_curve()
        curves |= {
            f"{phase}_step": loss["step"],
            f"{phase}_loss": loss["train_loss"],
            f"{phase}_asked_step": done.evaluated("step"),
            f"{phase}_accuracy": [1 - wrong for wrong in done.evaluated("value")],
            f"{phase}_rate": [float(line["learning_rate"]) for line in done.log],
        }
        metrics[f"{phase}_loss"] = done.last_loss
        if phase == "reading":
            kept = recalled(model, data, c["answer_characters"], c["asked_at_once"])
    findings += model_findings(model, "end")
    trained = Outcome(metrics, curves=curves, findings=findings)
    return _exam(trial, data, model, kept, trained)


def arm_model(c: Mapping[str, Any], vocabulary: int, seed: Seed) -> Model:
    """The arm's model with fresh weights."""
    base = GPTConfig(vocabulary, c["block"], c["layers"], c["heads"], c["width"]).to_json()
    values = base | {"position": {"name": c["position"]}}
    if c["reads"]:
        values |= {"latents": c["latents"], "reads": c["reads"], "up_ratio": c["up_ratio"]}
    model = model_from_json(values, seed.torch_generator())
    if isinstance(model, Perceiver):
        with torch.no_grad():  # matrices only: norms and biases stay as they are
            for weight in model.up.parameters():
                weight.mul_(c["up_scale"] if weight.ndim > 1 else 1.0)
    return model


def _own_rate(trial: Trial, context: TrialContext, data: Material, fresh: Model) -> Searched:
    """The Perceiver's learning rate of pretraining; every try starts from the same weights."""
    c = trial.config

    def loss_at(rate: float) -> float:
        phase = _Phase(trial, context, data, "reading", rate)
        settings = phase.settings(c["search_steps"])
        done = train_in_trial(context, f"rate {rate:g}", deepcopy(fresh), phase.batches(), settings)
        return math.inf if done.ending == "diverged" else done.last_loss

    return search_rate(loss_at, c["perceiver_rates"])


@dataclass(frozen=True)
class _Phase:
    """One of the two trainings, `reading` or `asked`; `rate` is a Perceiver's own."""

    trial: Trial
    context: TrialContext
    data: Material
    name: str
    rate: float | None = None

    def batches(self) -> Batches:
        """Corrupted documents, with questions among them where they are mixed; or questions."""
        c, seed = self.trial.config, self.trial.stream.child(self.name)
        world, vocabulary = self.data.world, self.data.vocabulary
        examples = [self.data.example(q) for q in world.taught]
        if self.name == "asked":
            return PromptBatches(examples, c["batch"], seed)
        how = Corruption(c["block"], c["whole"], c["closed"], c["scored"])
        questions = round(c["mix"] * c["batch"])
        rows = c["batch"] - questions
        read = CorruptedBatches(world.documents, vocabulary, how, rows, seed, trim=True)
        return MixedBatches(read, PromptBatches(examples, questions, seed)) if questions else read

    def settings(self, steps: int | None = None) -> TrainSettings:
        """Steps (or others) and rate of the phase, the arm's schedule."""
        c, name = self.trial.config, self.name
        after = name == "asked" and c["pretrain"]
        asked = "finetune_steps" if after else "alone_steps"
        count: int = steps or c["pretrain_steps" if name == "reading" else asked]
        return TrainSettings(
            steps=count,
            batch=c["batch"],
            weight_decay=c["weight_decay"],
            learning_rate=c["finetune_rate"] if after else self.rate or c["learning_rate"],
            precision=c["precision"],
            deterministic=self.context.device != "cpu",
            evaluate_every=max(1, count // c["evaluations"]),
            **schedule_of(c["schedule"], name),
        )

    def ask(self, model: Model) -> float:
        """Share of the first test questions not answered rightly: a curve, no choice is made."""
        c = self.trial.config
        some = self.data.world.read[: c["watched"]]
        found = answers(model, self.data, some, c["answer_characters"], c["asked_at_once"])
        return 1 - float(found.right.mean())

    def train(self, model: Model) -> TrainResult:
        """In place; each phase has its own checkpoints."""
        folder = self.context.checkpoints
        return train_in_trial(
            self.context,
            self.name,
            model,
            self.batches(),
            self.settings(),
            evaluate=self.ask,
            checkpoints=None if folder is None else folder / self.name,
        )


def _exam(
    trial: Trial, data: Material, model: Model, kept: np.ndarray | None, trained: Outcome
) -> Outcome:
    """The outcome of the trainings, with everything that the answers show added to it.

    `kept`: whose sentence was completed after reading.
    """
    c, mark = trial.config, data.vocabulary.start
    kinds: dict[str, Answers] = {
        kind: answers(model, data, questions, c["answer_characters"], c["asked_at_once"])
        for kind, questions in data.world.as_dict().items()
    }
    read = kinds["read"]
    metrics: dict[str, Any] = {
        **trained.metrics,
        **measured(kinds, data, 7 * c["block"] // 8),
        **_surnames(trial, data, model),
        **({} if kept is None else together(kept, read.right)),
        "parameters": model.parameter_count(),
        "vocabulary": data.vocabulary.size,
        "documents": len(data.world.documents),
    }
    constant = collapse(read.said, [str(q.place) for q in read.questions])
    files = model_files(model, data.vocabulary)
    for kind, said in kinds.items():
        if len(said.said):
            files["arrays"] |= {f"{kind}_confidence": said.confidence, f"{kind}_right": said.right}
    listed = {kind: said.as_json() for kind, said in kinds.items()}
    return Outcome(
        metrics,
        arrays=files["arrays"],
        curves=trained.curves,
        findings=[*trained.findings, constant],
        samples=[f"{q.text} {said}" for q, said in zip(read.questions, read.said, strict=True)][:3],
        documents={
            "answers.json": json.dumps(listed, ensure_ascii=False),
            **files["documents"],
            # a prompt is a text and ⁇, an answer ends at the next: for who opens the model later
            "reading.json": json.dumps({"before": [], "after": [mark], "end": mark}),
        },
    )


def _surnames(trial: Trial, data: Material, model: Model) -> dict[str, Any]:
    """Whether the place that invented people are given depends on their surname."""
    c, world = trial.config, data.world
    known = {q.name for kind in (world.taught, world.read, world.unread) for q in kind}
    questions = crossed(world.invented, known, c["crossed"])
    said = answers(model, data, questions, c["answer_characters"], c["asked_at_once"]).said
    same = agreement([q.name for q in questions], said, trial.stream.child("shuffles"))
    if same is None:
        return {}
    return {
        "surname_agreement": same.share,
        "surname_shuffled": same.shuffled,
        "surname_excess": same.excess,
        "surname_p": same.p,
        "surname_names": len(questions),
    }


def _coverage(model: Model) -> Finding:
    """The audit that finds a Perceiver's blindness; at least twice as long as its latents."""
    length = LENGTH if isinstance(model, GPT) else min(model.context, 2 * model.config.latents + 1)
    return check(model, only=["coverage"], length=length)["coverage"]
