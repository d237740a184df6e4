"""One trial: train a start, free it, train it further in two ways; measure it each time."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.audit.checks.baselines import answer_baselines
from attnlab.audit.checks.collapse import collapse
from attnlab.audit.finding import Finding
from attnlab.lab.training import train_in_trial
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.studies.counting.model import Counter, Fresh, Rows, draw, loss
from attnlab.studies.counting.study import KINDS, PHASES, TERMS, Counting, CountingSettings
from attnlab.training.batch import map_tensors
from attnlab.training.result import TrainResult
from attnlab.training.settings import TrainSettings

SHOWN = 2  # test rows whose attention maps are kept


def run(study: Counting, trial: Trial, context: TrialContext) -> Outcome:
    """Metrics are prefixed by the phase they were measured in: first, gentle or strong."""
    s: CountingSettings = study.settings_of(trial)
    arm, seed = trial.config["arm"], trial.stream
    model = Counter(s, arm, seed.child("weights").torch_generator()).to(context.device)
    drawn = draw(s, s.scored, seed.child("test"))
    test: Rows = map_tensors(drawn, lambda tensor: tensor.to(context.device))

    def evaluate(_: nn.Module) -> dict[str, float]:  # for the curve only: nothing is chosen by it
        return {"value": 1 - accuracy(model(test.tokens), test)}

    def train_phase(phase: str) -> TrainResult:
        batches, options = Fresh(s, s.batch, seed.child("train", phase)), recipe(s, phase)
        return train_in_trial(
            context, PHASES[phase], model, batches, options, evaluate=evaluate, loss=loss
        )

    first = train_phase("first")
    if first.ending == "diverged":
        return Outcome({"first_accuracy": math.nan}, reasons={"first_accuracy": first.problem})
    metrics: dict[str, Scalar] = {
        **answer_baselines(drawn.answer.flatten().tolist(), classes=s.length),
        "held": model.held(),
        **measure(model, test, "first"),
    }
    with torch.no_grad():
        predicted = (model(test.tokens).argmax(dim=-1) + 1).flatten().tolist()
    findings = [collapse(predicted, test.answer.flatten().tolist())]
    if arm in KINDS:
        findings.append(held_at_zero(model.held()))
    arrays = {"tokens": drawn.tokens[:SHOWN].numpy(), **maps(model, test, "first")}
    if s.freed_steps is not None:
        model.release(s.noise, seed.child("noise").torch_generator())
        start = {name: value.clone() for name, value in model.state_dict().items()}
        for phase in ("gentle", "strong"):
            model.load_state_dict(start)
            if train_phase(phase).ending != "diverged":
                metrics |= measure(model, test, phase)
                metrics[f"{phase}_moved"] = relative_change(start, model.state_dict())
                arrays |= maps(model, test, phase)
    curves = {
        "step": first.evaluated("step"),
        "accuracy": [1 - wrong for wrong in first.evaluated("value")],
    }
    return Outcome(metrics, arrays=arrays, curves=curves, findings=findings)


def recipe(s: CountingSettings, phase: str) -> TrainSettings:
    """`first` and `strong` train alike; `gentle` is SGD at a constant rate, as published.

    No weight decay: it would pull at what is held at 0.
    """
    steps, gentle = s.steps if phase == "first" else s.freed_steps, phase == "gentle"
    return TrainSettings(
        steps=steps,
        batch=s.batch,
        optimizer="sgd" if gentle else "adamw",
        learning_rate=s.gentle_rate if gentle else s.learning_rate,
        schedule="constant" if gentle else "cosine",
        weight_decay=0.0,
        evaluate_every=0 if gentle else max(1, steps // s.points),
    )


def accuracy(logits: Tensor, rows: Rows) -> float:
    """Share of positions whose count is right."""
    return (logits.argmax(dim=-1) + 1 == rows.answer).double().mean().item()


@torch.no_grad()
def measure(model: Counter, rows: Rows, phase: str) -> dict[str, Scalar]:
    """Accuracy with all scores and with one kind alone; what the scores vary with.

    A softmax does not see what all keys of a query share, so the variance of a term is that of
    s_ij − mean_j s_ij; the shares of the four terms sum to 1.
    """
    total, count = loss(model, rows)
    variance = {
        name: (term - term.mean(dim=-1, keepdim=True)).square().mean().item()
        for name, term in model.terms(rows.tokens).items()
    }
    whole = sum(variance.values())
    metrics = {
        "accuracy": accuracy(model(rows.tokens), rows),
        "nll": total.item() / int(count),
        "by_places": accuracy(model.with_terms(rows.tokens, ["places"]), rows),
        "by_tokens": accuracy(model.with_terms(rows.tokens, ["tokens"]), rows),
        **{f"share_{name}": variance[name] / whole for name in TERMS},
        **mean_weights(model.weights(rows.tokens), rows.tokens),
    }
    return {f"{phase}_{name}": value for name, value in metrics.items()}


def mean_weights(weights: Tensor, tokens: Tensor) -> dict[str, float]:
    """Mean weight of a position on itself, on an equal token elsewhere, and on another token."""
    itself = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
    equal = tokens[:, :, None] == tokens[:, None, :]
    kinds = {"itself": itself.expand_as(equal), "equal": equal & ~itself, "other": ~equal}
    return {f"on_{name}": float(weights[where].mean()) for name, where in kinds.items()}


@torch.no_grad()
def maps(model: Counter, rows: Rows, phase: str) -> dict[str, np.ndarray]:
    """Attention maps of the first test rows, and the mean map over all."""
    weights = model.weights(rows.tokens).cpu().numpy()
    return {f"{phase}_maps": weights[:SHOWN], f"{phase}_mean": weights.mean(axis=0)}


def relative_change(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """‖w after − w before‖ / ‖w before‖ over all weights."""
    gap = sum(float((after[name] - w).double().square().sum()) for name, w in before.items())
    size = sum(float(w.double().square().sum()) for w in before.values())
    return math.sqrt(gap / size)


def held_at_zero(largest: float) -> Finding:
    """`freeze`: the entries that a start holds at 0 are 0 to the last bit after training."""
    if largest:
        why = f"an entry held at 0 is {largest:.2g} after training: the start is of no pure kind"
        return Finding("freeze", "fail", largest, 0, why)
    return Finding("freeze", "pass", 0, 0, "the entries held at 0 stay 0")
