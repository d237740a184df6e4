"""One trial: an arm writes summaries of the test articles, after its training if it has one."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.core.errors import UsageError
from attnlab.lab.trial import Outcome, Trial, TrialContext, TrialStopped
from attnlab.models.hub import HubModel
from attnlab.studies.distillation import checks
from attnlab.studies.distillation.baseline import line_ends, without_model
from attnlab.studies.distillation.data import Material, material
from attnlab.studies.distillation.models import student_of, teacher_of, weights_sha256
from attnlab.studies.distillation.scoring import as_json, columns, means, scored, variant_of, words
from attnlab.studies.distillation.settings import TRAINED, DistilSettings
from attnlab.studies.distillation.texts import Text, Written, teacher_texts, write
from attnlab.tasks.prompts import PromptBatches, PromptBuilder, PromptExample, sequential_batches
from attnlab.tasks.summaries import SummaryRow
from attnlab.train.distillation import DistillationLoss, sequence_nll
from attnlab.train.loop import train
from attnlab.train.result import Hooks, Progress, TrainResult
from attnlab.train.settings import TrainSettings
from attnlab.train.update import Loss

FIFTIETHS = 50


def work(s: DistilSettings, trial: Trial, context: TrialContext) -> Outcome:
    """By its arm."""
    arm = trial.config["arm"]
    if arm == "lines":
        return line_ends(s, trial)
    teacher = teacher_of(s, "cpu" if arm == "lead" else context.device)
    assert teacher.tokenizer is not None
    data = material(s, teacher.tokenizer)
    if arm == "lead":
        return without_model(s, trial, data)
    if arm == "teacher":
        return measured(Arm(s, trial, context, teacher, data), {})
    student = student_of(s, teacher, trial.stream)
    own = Arm(s, trial, context, student, data)
    return learnt(own, teacher) if arm in TRAINED else measured(own, {})


@dataclass(frozen=True)
class Arm:
    """What one trial is about."""

    s: DistilSettings
    trial: Trial
    context: TrialContext
    model: HubModel
    data: Material

    @property
    def prompter(self) -> PromptBuilder:
        """The instruction, in the model's own words."""
        return prompter_of(self.s, self.model)

    def human(self, rows: Sequence[SummaryRow]) -> list[PromptExample]:
        """What people wrote, to learn from or to be surprised by."""
        most = self.s.summary_tokens
        return [self.prompter.example(row.article, row.summary, most) for row in rows]

    def loss_of(self, rows: Sequence[SummaryRow]) -> float:
        """Mean −log p of a token of people's summaries, in nats."""
        total = count = 0.0
        with torch.no_grad():
            for batch in sequential_batches(self.human(rows), self.s.batch):
                nll, scored_tokens = sequence_nll(self.model.library, batch.to(self.model.device))
                total, count = total + nll.item(), count + scored_tokens.item()
        return total / count


def prompter_of(s: DistilSettings, model: HubModel) -> PromptBuilder:
    """The study's instruction as a model reads it."""
    assert model.tokenizer is not None
    return PromptBuilder(model.tokenizer, s.instruction, model.context)


def learnt(arm: Arm, teacher: HubModel) -> Outcome:
    """Train the student on its arm's texts by its arm's loss, then measure it."""
    s, name = arm.s, arm.trial.config["arm"]
    texts = None if _people(s, name) else _teachers(arm, teacher)
    examples = arm.human(arm.data.train) if texts is None else _taught(arm, texts)
    before = weights_sha256(teacher.library)
    on_logits = DistillationLoss(teacher.library, s.divergence, s.temperature)
    loss: Loss = on_logits if name == "logits" else sequence_nll
    settings = training(s, len(examples), arm.trial.seed, arm.context.device)
    metrics: dict[str, Any] = checks.of_training(arm.model, examples, arm.prompter, loss, settings)
    if name == "logits":
        metrics |= checks.identity(teacher, examples[0], on_logits)
    began = time.perf_counter()
    done = _train(arm, examples, loss, settings)
    cost = {"train_seconds": time.perf_counter() - began}
    if done.ending == "diverged":
        return Outcome({"rougeL": math.nan}, reasons={"rougeL": done.problem})
    metrics |= {
        "teacher_unchanged": weights_sha256(teacher.library) == before,
        "teacher_in_eval": not teacher.library.training,
        "steps": done.steps,
        "scored_step": _scored_step(s, done),
        "train_tokens": done.tokens,
        "examples": len(examples),
        "cut_answers": sum(e.cut for e in examples),
        "last_divergence" if name == "logits" else "last_nll": _last(done),
    }
    if texts is not None:
        metrics["teacher_text_words"] = words(texts.words)
        cost["teacher_text_seconds"] = texts.seconds
    if done.tokens_per_second:
        cost["tokens_per_second"] = done.tokens_per_second
    return measured(arm, metrics, cost, curves_of(done))


def training(s: DistilSettings, examples: int, seed: int, device: str) -> TrainSettings:
    """The same for every arm: so many steps that each example is met `epochs` times."""
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


def measured(
    arm: Arm,
    metrics: dict[str, Any],
    cost: dict[str, float] | None = None,
    curves: dict[str, list[float]] | None = None,
) -> Outcome:
    """Summaries of the test articles, scored; the loss on people's; the audits of the model."""
    s, rows, model = arm.s, arm.data.test, arm.model
    found = write(
        model, arm.prompter, [r.article for r in rows], s.summary_tokens, s.generate_batch
    )
    rated = scored(found.words, [r.summary for r in rows], variant_of(arm.trial.config))
    metrics = (
        metrics
        | means(rated)
        | checks.of_model(model)
        | {
            "words": words(found.words),
            "empty": rated.empty,
            "finished": sum(t.finished for t in found.texts) / len(found.texts),
            "line_ends": sum("\n" in t for t in found.words) / len(found.texts),
            "test_nll": arm.loss_of(rows),
            "dev_nll": arm.loss_of(arm.data.dev),
            "parameters": model.parameter_count(),
            "layers": int(model.library.config.num_hidden_layers),
            "model": model.name,
        }
    )
    seconds = {"generate_seconds": found.seconds, **(cost or {})}
    return Outcome(
        metrics,
        arrays=columns(rated),
        cost=seconds,
        curves=curves or {},
        samples=found.words[: s.shown],
        documents={"summaries.json": as_json(found.words)},
    )


def curves_of(done: TrainResult) -> dict[str, list[float]]:
    """The loss that was trained on, in fiftieths; the dev loss at each evaluation."""
    parts = np.array_split(np.asarray(done.losses), min(FIFTIETHS, len(done.losses)))
    lines = [line for line in done.log if line.get("value") is not None]
    return {
        "step": np.cumsum([len(part) for part in parts]).astype(float).tolist(),
        "train_loss": [float(part.mean()) for part in parts],
        "dev_step": [float(line["step"]) for line in lines],
        "dev_nll": [float(line["value"]) for line in lines],
    }


def _people(s: DistilSettings, name: str) -> bool:
    """Whether an arm learns from what people wrote."""
    return name == "human" or (name == "logits" and s.logits_on == "human")


def _teachers(arm: Arm, teacher: HubModel) -> Written:
    articles = [row.article for row in arm.data.train]
    return teacher_texts(
        teacher, prompter_of(arm.s, teacher), articles, arm.s.summary_tokens, arm.s.generate_batch
    )


def _taught(arm: Arm, texts: Written) -> list[PromptExample]:
    """The teacher's summaries in the student's tokens; where it was cut off, no end is taught."""
    pairs: zip[tuple[SummaryRow, Text]] = zip(arm.data.train, texts.texts, strict=True)
    most, found = arm.s.summary_tokens, []
    for row, text in pairs:
        if text.finished or text.text:
            made = arm.prompter.example(row.article, text.text, most, finished=text.finished)
            found.append(made)
    if not found:
        raise UsageError("the teacher wrote nothing: there is nothing to learn from it")
    return found


class Best:
    """The weights at the lowest dev loss so far."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.value = model, math.inf
        self.kept: dict[str, Tensor] = {}

    def note(self, value: float) -> float:
        """Keep them if this loss is the lowest."""
        if value < self.value:
            self.value = value
            self.kept = {k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()}
        return value

    def restore(self) -> None:
        """Put them back; a loss that was never a number leaves the last."""
        if self.kept:
            self.model.load_state_dict(self.kept)


def _train(
    arm: Arm, examples: Sequence[PromptExample], loss: Loss, settings: TrainSettings
) -> TrainResult:
    best = Best(arm.model.library)

    def evaluate(model: nn.Module) -> float:
        return best.note(arm.loss_of(arm.data.dev))

    def progress(p: Progress) -> None:
        arm.context.step(p.step, p.steps, f"{arm.trial.config['arm']}, loss {p.loss:.3f}")

    hooks = Hooks(evaluate=evaluate, progress=progress, stop=arm.context.stopping)
    batches = PromptBatches(examples, settings.batch, arm.trial.stream.child("order"))
    done = train(arm.model.library, batches, settings, loss=loss, hooks=hooks)
    if done.ending == "stopped":
        raise TrialStopped
    if arm.s.weights == "best":
        best.restore()
    return done


def _scored_step(s: DistilSettings, done: TrainResult) -> int:
    """After which step the weights are that write the summaries."""
    return done.steps if s.weights == "last" or done.best_step is None else done.best_step


def _last(done: TrainResult) -> float:
    """Mean loss of the last tenth of the steps."""
    return float(np.mean(done.losses[-max(1, len(done.losses) // 10) :]))
