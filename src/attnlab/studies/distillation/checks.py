"""Audits inside a trial, as metrics: `audit_NAME` is 'pass', 'not-applicable' or 'fail: why'.

What is judged is what trains: the batches of tasks/prompts.py and the losses of
train/distillation.py, not copies of them. `collected` makes one finding an audit of all trials.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.catalogue import check
from attnlab.audit.checks.freeze import freeze
from attnlab.audit.checks.gradient_accumulation import gradient_accumulation
from attnlab.audit.checks.label_shift import label_shift
from attnlab.audit.checks.loss_mask import loss_mask
from attnlab.audit.finding import Finding
from attnlab.core.tokens import IGNORE
from attnlab.models.hub import HubModel
from attnlab.studies.audited import AUDITED, LENGTH
from attnlab.tasks.batches import Batch
from attnlab.tasks.prompts import PromptBuilder, PromptExample, collate
from attnlab.train.distillation import DistillationLoss, logits_of, sequence_nll
from attnlab.train.optimizer import build_optimizer
from attnlab.train.settings import TrainSettings
from attnlab.train.update import Loss, Updater

ROWS = 3  # looked at by the audits of the loss
VOCABULARY = 97


def as_metrics(findings: Sequence[Finding]) -> dict[str, str]:
    """One word an audit, with the reason where it fails."""
    return {
        f"audit_{f.name}": f"fail: {f.why}" if f.verdict == "fail" else f.verdict for f in findings
    }


def of_model(model: HubModel) -> dict[str, str]:
    """Causality, padding, batches, determinism of a model as it is used."""
    return as_metrics(check(model, only=AUDITED, length=LENGTH).findings)


def of_training(
    student: HubModel,
    examples: Sequence[PromptExample],
    prompter: PromptBuilder,
    loss: Loss,
    settings: TrainSettings,
) -> dict[str, str]:
    """What is scored, against what, and who moves; the student is left as it was."""
    teacher = loss.teacher if isinstance(loss, DistillationLoss) else None
    findings = [
        _mask(examples, prompter),
        label_shift(_shifted, VOCABULARY, given="ids"),
        _moves(student.library, teacher, examples[:1], loss, settings),
    ]
    if settings.accumulate > 1:
        batch = collate(examples[: settings.batch]).to(next(student.library.parameters()).device)
        findings.append(gradient_accumulation(loss, student.library, batch))
    return as_metrics(findings)


def identity(teacher: HubModel, example: PromptExample, loss: DistillationLoss) -> dict[str, float]:
    """Loss of the teacher as its own student, and its largest gradient by a logit, a token."""
    student = Watched(teacher.library)
    total, count = loss(student, collate([example]).to(teacher.device))
    (slope,) = torch.autograd.grad(total / count, student.logits)
    return {
        "identity_loss": float(total.detach() / count),
        "identity_gradient": float(slope.abs().max()),
    }


class Watched(nn.Module):
    """A transformers model, called as ours are; the logits of its last answer are kept."""

    nll = None  # as models of ours have: called with ids and a padding mask

    def __init__(self, library: nn.Module) -> None:
        super().__init__()
        self.library, self.logits = library, torch.zeros(())

    def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """What the library gives."""
        self.logits = logits_of(self.library, Batch(ids, ids, key_padding_mask))
        return self.logits


class Fixed(nn.Module):
    """A model that gives these logits whatever it reads: its loss is the loss of the logits."""

    nll = None  # as models of ours have: called with ids and a padding mask

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """The same for every text."""
        return self.logits


def _mask(examples: Sequence[PromptExample], prompter: PromptBuilder) -> Finding:
    """Exactly the answers are scored; the end too, though pads have its id in many models."""
    chosen = sorted(examples, key=lambda e: e.cut)[:ROWS]
    batch = collate(chosen, pad=prompter.end)
    wanted = torch.zeros_like(batch.targets, dtype=torch.bool)
    for row, example in enumerate(chosen):
        last = len(example.prompt) + len(example.answer) - 1
        wanted[row, last - len(example.answer) : last] = True
    known = sorted({IGNORE, *batch.targets.unique().tolist()} - {IGNORE})
    small = batch.targets.clone()  # few ids: a whole vocabulary in float64 is gigabytes
    for place, token in enumerate(known):
        small[batch.targets == token] = place
    finished = any(not e.cut for e in chosen)
    return loss_mask(
        lambda logits, labels: _mean(logits, Batch(batch.ids, labels, batch.key_padding_mask)),
        small,
        max(len(known), 2),
        scored=wanted,
        given="next",
        end=known.index(prompter.end) if finished and prompter.end in known else None,
        decode=lambda ids: prompter.tokenizer.decode([known[i] for i in ids]),
    )


def _shifted(logits: Tensor, ids: Tensor) -> Tensor:
    """The loss of rows whose first token is the prompt and the rest the answer."""
    batch = collate([PromptExample((row[0],), tuple(row[1:])) for row in ids.tolist()])
    return _mean(logits[:, :-1], batch)


def _mean(logits: Tensor, batch: Batch) -> Tensor:
    total, count = sequence_nll(Fixed(logits), batch)
    return total / count


def _moves(
    student: nn.Module,
    teacher: nn.Module | None,
    examples: Sequence[PromptExample],
    loss: Loss,
    settings: TrainSettings,
) -> Finding:
    """One step moves every tensor of the student and no bit of the teacher."""
    both = nn.ModuleDict({"student": student} | ({"teacher": teacher} if teacher else {}))
    batch = collate(examples).to(next(student.parameters()).device)

    def step() -> None:
        updater = Updater(student, build_optimizer(student, settings), loss, settings)
        updater.start(batch)
        updater.finish(0, settings.learning_rate)

    return freeze(both, step, lambda name: name.startswith("student."))


def collected(name: str, said: dict[str, tuple[str, str]]) -> Finding:
    """All trials' words on one audit: trial id -> (arm, what it said)."""
    counts = {word: sum(s == word for _, s in said.values()) for word in ("pass", "not-applicable")}
    evidence: dict[str, Any] = {"trials": len(said), **counts}
    wrong = {key: pair for key, pair in said.items() if pair[1].startswith("fail")}
    if wrong:
        arm, words = next(iter(wrong.values()))
        why = f"{len(wrong)} of {len(said)} trials, {arm} first: {words.removeprefix('fail: ')}"
        return Finding(name, "fail", len(wrong), 0, why, evidence)
    if not counts["pass"]:
        return Finding(name, "not-applicable", None, 0, "it applies to no trial", evidence)
    return Finding(name, "pass", 0, 0, f"all {counts['pass']} trials asked pass", evidence)
