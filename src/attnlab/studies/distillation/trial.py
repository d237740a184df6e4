"""One trial: an arm summarizes the test articles, after its training if it has one."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from attnlab.audit.catalogue import model_findings
from attnlab.core.errors import UsageError
from attnlab.lab.training import train_in_trial
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.models.hub import HubModel
from attnlab.models.trainable import weights_sha256
from attnlab.studies.distillation import checks
from attnlab.studies.distillation.data import build_student, load_articles, load_teacher
from attnlab.studies.distillation.evidence import TRAINED
from attnlab.studies.distillation.scoring import (
    first_sentences,
    line_breaks,
    mean_words,
    score_texts,
)
from attnlab.studies.distillation.study import Distillation, DistilSettings
from attnlab.studies.distillation.teacher_texts import Summaries, summarize, teacher_texts
from attnlab.tasks.prompts import PromptBatches, PromptBuilder, PromptExample, sequential_batches
from attnlab.tasks.summaries import SummaryRow, SummarySplits
from attnlab.training.distillation import DistillationLoss, sequence_nll
from attnlab.training.result import TrainResult
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import BestWeights
from attnlab.training.update import Loss


def run(study: Distillation, trial: Trial, context: TrialContext) -> Outcome:
    """Train if the arm learns; then summarize, score and audit."""
    s, arm = study.settings, trial.config["arm"]
    if arm == "lines":
        return line_breaks(s)
    teacher = load_teacher(s, "cpu" if arm == "lead" else context.device)
    assert teacher.tokenizer is not None
    data = load_articles(s, teacher.tokenizer)
    if arm == "lead":
        return first_sentences(s, data)
    if arm == "teacher":
        return measure(ArmTrial(s, trial, context, teacher, data))
    student = ArmTrial(s, trial, context, build_student(s, teacher, trial.stream), data)
    return train_student(student, teacher) if arm in TRAINED else measure(student)


@dataclass(frozen=True)
class ArmTrial:
    """The settings, the model and the data of one trial."""

    s: DistilSettings
    trial: Trial
    context: TrialContext
    model: HubModel
    data: SummarySplits

    @cached_property
    def prompter(self) -> PromptBuilder:
        """Articles as prompts of this model."""
        return prompter_of(self.s, self.model)

    def examples(self, rows: Sequence[SummaryRow]) -> list[PromptExample]:
        """Articles with people's summaries."""
        most = self.s.summary_tokens
        return [self.prompter.example(row.article, row.summary, most) for row in rows]

    @torch.no_grad()
    def loss_of(self, rows: Sequence[SummaryRow]) -> float:
        """Mean −log p of a token of people's summaries, in nats."""
        total = count = 0.0
        for batch in sequential_batches(self.examples(rows), self.s.batch):
            nll, scored_tokens = sequence_nll(self.model.library, batch.to(self.model.device))
            total, count = total + nll.item(), count + scored_tokens.item()
        return total / count


def prompter_of(s: DistilSettings, model: HubModel) -> PromptBuilder:
    """The study's instruction and an article as a prompt of this model."""
    assert model.tokenizer is not None
    return PromptBuilder(model.tokenizer, s.instruction, model.context)


def train_student(arm: ArmTrial, teacher: HubModel) -> Outcome:
    """Train the student on its arm's texts with its arm's loss, then measure it."""
    s, name = arm.s, arm.trial.config["arm"]
    from_people = name == "human" or (name == "logits" and s.logits_on == "human")
    texts = None
    if not from_people:
        articles, most = [row.article for row in arm.data.train], s.summary_tokens
        texts = teacher_texts(teacher, prompter_of(s, teacher), articles, most, s.generate_batch)
    examples = arm.examples(arm.data.train) if texts is None else _teacher_examples(arm, texts)
    before = weights_sha256(teacher.library)
    on_logits = DistillationLoss(teacher.library, s.divergence, s.temperature)
    loss: Loss = on_logits if name == "logits" else sequence_nll
    settings = train_settings(s, len(examples), arm.trial.seed, arm.context.device)
    findings = checks.training_findings(arm.model, examples, arm.prompter, loss, settings)
    metrics: dict[str, Any] = {}
    if name == "logits":
        metrics = checks.identity(teacher, examples[0], on_logits)
        findings.append(checks.identity_finding(metrics, on_logits))
    began = time.perf_counter()
    result = _train(arm, examples, loss, settings)
    cost = {"train_seconds": time.perf_counter() - began}
    if result.ending == "diverged":
        return Outcome({"rougeL": math.nan}, reasons={"rougeL": result.problem})
    unchanged = weights_sha256(teacher.library) == before, not teacher.library.training
    best_step = result.steps if result.best_step is None else result.best_step
    metrics |= {
        "teacher_unchanged": unchanged[0],
        "teacher_in_eval": unchanged[1],
        "steps": result.steps,
        "scored_step": best_step if s.weights == "best" else result.steps,
        "train_tokens": result.tokens,
        "examples": len(examples),
        "cut_answers": sum(e.cut for e in examples),
        "last_divergence" if name == "logits" else "last_nll": result.last_loss,
    }
    findings.append(checks.teacher_unchanged(*unchanged))
    if texts is not None:
        metrics["teacher_text_words"] = mean_words(texts.texts)
        cost["teacher_text_seconds"] = texts.seconds
    curves = result.curves(dev_nll="value")
    return measure(arm, Outcome(metrics, cost | result.cost, curves=curves, findings=findings))


def train_settings(s: DistilSettings, examples: int, seed: int, device: str) -> TrainSettings:
    """The same for every arm: each example is seen `epochs` times."""
    steps = max(1, math.ceil(s.epochs * examples / s.batch))
    return TrainSettings(
        steps=steps,
        batch=s.batch,
        accumulate=s.accumulate,
        learning_rate=s.learning_rate,
        warmup_fraction=s.warmup,
        weight_decay=s.weight_decay,
        precision=s.precision,
        seed=seed,
        deterministic=s.deterministic and device != "cpu",
        evaluate_every=max(1, steps // s.evaluations),
    )


def measure(arm: ArmTrial, trained: Outcome | None = None) -> Outcome:
    """Summaries of the test articles, scored; the loss on people's; the audits of the model.

    They are added to the outcome of the training, where there was one.
    """
    before = trained or Outcome({})
    s, rows, model = arm.s, arm.data.test, arm.model
    articles = [row.article for row in rows]
    written = summarize(model, arm.prompter, articles, s.summary_tokens, s.generate_batch)
    outcome, empty = score_texts(s, written.texts, rows)
    metrics = {
        **before.metrics,
        **outcome.metrics,
        "empty": empty,
        "finished": sum(written.finished) / len(rows),
        "line_ends": sum("\n" in text for text in written.texts) / len(rows),
        "test_nll": arm.loss_of(rows),
        "dev_nll": arm.loss_of(arm.data.dev),
        "parameters": model.parameter_count(),
        "layers": int(model.library.config.num_hidden_layers),
        "model": model.name,
    }
    return replace(
        outcome,
        metrics=metrics,
        cost={"generate_seconds": written.seconds, **before.cost},
        curves=before.curves,
        findings=[*before.findings, *model_findings(model, "end")],
    )


def _teacher_examples(arm: ArmTrial, texts: Summaries) -> list[PromptExample]:
    """The teacher's summaries in the student's tokens; one that was cut off teaches no end."""
    examples = [
        arm.prompter.example(row.article, text, arm.s.summary_tokens, finished=finished)
        for row, text, finished in zip(arm.data.train, texts.texts, texts.finished, strict=True)
        if finished or text
    ]
    if not examples:
        raise UsageError("the teacher wrote nothing, so the student cannot learn from its texts")
    return examples


def _train(
    arm: ArmTrial, examples: Sequence[PromptExample], loss: Loss, settings: TrainSettings
) -> TrainResult:
    best = BestWeights(arm.model.library)

    def evaluate(_: nn.Module) -> float:
        dev_loss = arm.loss_of(arm.data.dev)
        best.update(dev_loss)
        return dev_loss

    words, model = arm.trial.config["arm"], arm.model.library
    batches = PromptBatches(examples, settings.batch, arm.trial.stream.child("order"))
    result = train_in_trial(
        arm.context, words, model, batches, settings, loss=loss, evaluate=evaluate
    )
    if arm.s.weights == "best":
        best.restore()
    return result
