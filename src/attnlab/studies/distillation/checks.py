"""Audits inside a trial, on what trains: the batches of tasks/prompts.py and the actual losses."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from attnlab.audit.checks.distillation_identity import LIMIT, distillation_identity
from attnlab.audit.checks.freeze import freeze
from attnlab.audit.checks.gradient_accumulation import gradient_accumulation
from attnlab.audit.checks.label_shift import label_shift
from attnlab.audit.checks.loss_mask import loss_mask
from attnlab.audit.finding import Finding
from attnlab.core.tokens import IGNORE
from attnlab.models.hub import HubModel
from attnlab.tasks.batches import Batch
from attnlab.tasks.prompts import PromptBuilder, PromptExample, collate
from attnlab.training.distillation import DIVERGENCES, DistillationLoss, logits_of, sequence_nll
from attnlab.training.optimizer import build_optimizer
from attnlab.training.settings import TrainSettings
from attnlab.training.update import Loss, Updater

ROWS = 3  # examples that the audit of the loss mask reads
VOCABULARY = 97


def training_findings(
    student: HubModel,
    examples: Sequence[PromptExample],
    prompter: PromptBuilder,
    loss: Loss,
    settings: TrainSettings,
) -> list[Finding]:
    """Which tokens are scored, against which targets, and which weights move.

    One step moves every tensor of the student and no bit of the teacher; then the student is put
    back as it was.
    """
    model, device = student.library, next(student.library.parameters()).device
    teacher = {"teacher": loss.teacher} if isinstance(loss, DistillationLoss) else {}

    def step() -> None:
        updater = Updater(model, build_optimizer(model, settings), loss, settings)
        updater.start(collate(examples[:1]).to(device))
        updater.finish(0, settings.learning_rate)

    findings = [
        _mask(examples, prompter),
        label_shift(_shifted_loss, VOCABULARY, given="ids"),
        freeze(
            nn.ModuleDict({"student": model, **teacher}), step, lambda n: n.startswith("student.")
        ),
    ]
    if settings.accumulate > 1:
        batch = collate(examples[: settings.batch]).to(device)
        findings.append(gradient_accumulation(loss, model, batch))
    return findings


def identity(teacher: HubModel, example: PromptExample, loss: DistillationLoss) -> dict[str, float]:
    """Loss of the teacher as its own student, and the largest gradient of a logit, per token."""
    student = LogitsModel(lambda batch: logits_of(teacher.library, batch))
    total, count = loss(student, collate([example]).to(teacher.device))
    (slope,) = torch.autograd.grad(total / count, student.logits)
    return {
        "identity_loss": float(total.detach() / count),
        "identity_gradient": float(slope.abs().max()),
    }


def identity_finding(numbers: dict[str, float], loss: DistillationLoss) -> Finding:
    """`distillation-identity` of the divergence, and of the real teacher as its own student."""
    divergence = DIVERGENCES[loss.divergence]
    finding = distillation_identity(
        lambda student, teacher: divergence(student, teacher, loss.temperature).mean()
    )
    largest = max(abs(value) for value in numbers.values())
    evidence = {**finding.evidence, "teacher_as_student": largest}
    if finding.verdict == "pass" and not largest <= LIMIT:
        why = f"the teacher as its own student has loss or gradient {largest:.3g}, not 0"
        return replace(finding, verdict="fail", number=largest, why=why, evidence=evidence)
    why = f"{finding.why}; the teacher as its own student: {largest:.2g}"
    number = max(finding.number or 0.0, largest)
    return replace(finding, number=number, why=why, evidence=evidence)


def teacher_unchanged(same_weights: bool, in_eval: bool) -> Finding:
    """Whether the teacher is the same after the whole training, not only after one step."""
    name = "teacher-unchanged"
    if same_weights and in_eval:
        why = "after training the teacher has every bit it had and is in evaluation mode"
        return Finding(name, "pass", 0, 0, why)
    what = "is in training mode" if same_weights else "has other weights"
    return Finding(name, "fail", 1, 0, f"after training the teacher {what}")


class LogitsModel(nn.Module):
    """A function from a batch to logits, called like our models; keeps the logits it gave last."""

    nll = None  # marks a model that is called with ids and a padding mask, as ours are

    def __init__(self, function: Callable[[Batch], Tensor]) -> None:
        super().__init__()
        self.function, self.logits = function, torch.zeros(())

    def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """The function's logits."""
        self.logits = self.function(Batch(ids, ids, key_padding_mask))
        return self.logits


def _mask(examples: Sequence[PromptExample], prompter: PromptBuilder) -> Finding:
    """Exactly the answers are scored, with their end, though padding often has the same id."""
    chosen = sorted(examples, key=lambda e: e.cut)[:ROWS]
    batch = collate(chosen, pad=prompter.end)
    wanted = torch.zeros_like(batch.targets, dtype=torch.bool)
    for row, example in enumerate(chosen):
        last = len(example.prompt) + len(example.answer) - 1
        wanted[row, last - len(example.answer) : last] = True
    known = sorted({IGNORE, *batch.targets.unique().tolist()} - {IGNORE})
    # few ids: a whole vocabulary in float64 is gigabytes
    places = torch.searchsorted(torch.tensor(known), batch.targets)
    small = places.where(batch.targets != IGNORE, IGNORE)
    finished = any(not e.cut for e in chosen)
    return loss_mask(
        lambda logits, labels: _mean_loss(logits, Batch(batch.ids, labels, batch.key_padding_mask)),
        small,
        max(len(known), 2),
        scored=wanted,
        given="next",
        end=known.index(prompter.end) if finished and prompter.end in known else None,
        decode=lambda ids: prompter.tokenizer.decode([known[i] for i in ids]),
    )


def _shifted_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """The loss of rows whose first token is the prompt and the rest the answer."""
    batch = collate([PromptExample((row[0],), tuple(row[1:])) for row in ids.tolist()])
    return _mean_loss(logits[:, :-1], batch)


def _mean_loss(logits: Tensor, batch: Batch) -> Tensor:
    total, count = sequence_nll(LogitsModel(lambda _: logits), batch)
    return total / count
