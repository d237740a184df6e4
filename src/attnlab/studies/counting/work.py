"""One trial: a start is trained, freed, and trained on in two ways; each end is looked into."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.audit.collapse import collapse
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext, TrialStopped
from attnlab.studies.counting.model import TERMS, Counter
from attnlab.studies.counting.task import Fresh, Rows, Sizes, draw, loss, without_model
from attnlab.train.batch import map_tensors
from attnlab.train.loop import train
from attnlab.train.result import Hooks, TrainResult
from attnlab.train.settings import TrainSettings

SHOWN = 2  # test rows whose attention maps are kept
FREED = ("gentle", "strong")  # two ways to train on: SGD as published, AdamW as before


def work(trial: Trial, context: TrialContext) -> Outcome:
    """Train, look, free, train on, look."""
    c, seed, sizes = trial.config, trial.stream, Sizes.of(trial.config)
    model = Counter(sizes, c["arm"], seed.child("weights").torch_generator()).to(context.device)
    drawn = draw(sizes, c["scored"], seed.child("test"))
    test: Rows = map_tensors(drawn, lambda tensor: tensor.to(context.device))
    done = _trained(trial, context, model, "first", test)
    if done.ending == "diverged":
        return Outcome({"first_accuracy": math.nan}, reasons={"first_accuracy": done.problem})
    metrics: dict[str, Scalar] = {**without_model(drawn, sizes), "held": model.held()}
    metrics |= seen(model, test, "first") | {"collapse": constant(model, test)}
    arrays = {"tokens": drawn.tokens[:SHOWN].numpy(), **maps(model, test, "first")}
    if c["freed_steps"] is None:
        return Outcome(metrics, arrays=arrays, curves=curve(done))
    model.release(c["noise"], seed.child("noise").torch_generator())
    start = {name: value.clone() for name, value in model.state_dict().items()}
    for way in FREED:
        model.load_state_dict(start)
        if _trained(trial, context, model, way, test).ending == "diverged":
            continue
        metrics |= seen(model, test, way) | {f"{way}_moved": moved(start, model.state_dict())}
        arrays |= maps(model, test, way)
    return Outcome(metrics, arrays=arrays, curves=curve(done))


def settings_of(c: Any, phase: str) -> TrainSettings:
    """`first` and `strong` are one recipe; `gentle` is SGD at a constant rate, as published.

    No weight decay: it would pull at what is held.
    """
    if phase == "gentle":
        return TrainSettings(
            steps=c["freed_steps"],
            batch=c["batch"],
            optimizer="sgd",
            learning_rate=c["gentle_rate"],
            schedule="constant",
            weight_decay=0.0,
        )
    steps = c["steps"] if phase == "first" else c["freed_steps"]
    return TrainSettings(
        steps=steps,
        batch=c["batch"],
        learning_rate=c["learning_rate"],
        weight_decay=0.0,
        evaluate_every=max(1, steps // c["points"]),
    )


def _trained(
    trial: Trial, context: TrialContext, model: Counter, phase: str, test: Rows
) -> TrainResult:
    """Curves are measured on test rows; nothing is chosen by them."""
    c = trial.config
    fresh = Fresh(Sizes.of(c), c["batch"], trial.stream.child("train", phase))
    hooks = Hooks(evaluate=_watched(test), stop=context.stopping)
    done = train(model, fresh, settings_of(c, phase), loss=loss, hooks=hooks)
    if done.ending == "stopped":
        raise TrialStopped
    return done


def _watched(test: Rows) -> Callable[[nn.Module], dict[str, float]]:
    def evaluate(model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            return {"value": 1 - right(model(test.tokens), test)}

    return evaluate


def right(logits: Tensor, rows: Rows) -> float:
    """Share of places whose count is given."""
    return (logits.argmax(dim=-1) + 1 == rows.answer).double().mean().item()


@torch.no_grad()
def seen(model: Counter, rows: Rows, phase: str) -> dict[str, Scalar]:
    """Accuracy; the same with scores of places, or of tokens, alone; what the scores vary with.

    A softmax does not see what all keys of a query share, so a term's variation is that of
    s_ij − mean_j s_ij; the shares of the four terms sum to 1.
    """
    total, count = loss(model, rows)
    varied = {
        name: (term - term.mean(dim=-1, keepdim=True)).square().mean().item()
        for name, term in model.terms(rows.tokens).items()
    }
    whole = sum(varied.values())
    found = {
        "accuracy": right(model(rows.tokens), rows),
        "nll": total.item() / int(count),
        "by_places": right(model.with_terms(rows.tokens, ["places"]), rows),
        "by_tokens": right(model.with_terms(rows.tokens, ["tokens"]), rows),
        **{f"share_{name}": varied[name] / whole for name in TERMS},
        **looks(model.weights(rows.tokens), rows.tokens),
    }
    return {f"{phase}_{name}": value for name, value in found.items()}


def looks(weights: Tensor, tokens: Tensor) -> dict[str, float]:
    """Mean weight of a place on itself, on an equal token elsewhere, and on another token."""
    itself = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
    equal = tokens[:, :, None] == tokens[:, None, :]
    kinds = {"itself": itself.expand_as(equal), "equal": equal & ~itself, "other": ~equal}
    return {f"on_{name}": float(weights[those].mean()) for name, those in kinds.items()}


@torch.no_grad()
def maps(model: Counter, rows: Rows, phase: str) -> dict[str, np.ndarray]:
    """Attention maps of the first test rows, and their mean over all."""
    weights = model.weights(rows.tokens).cpu().numpy()
    return {f"{phase}_maps": weights[:SHOWN], f"{phase}_mean": weights.mean(axis=0)}


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """‖w after − w before‖ / ‖w before‖ over all weights."""
    gap = sum(
        float((after[name] - value).double().square().sum()) for name, value in before.items()
    )
    size = sum(float(value.double().square().sum()) for value in before.values())
    return math.sqrt(gap / size)


def constant(model: Counter, rows: Rows) -> str:
    """The audit `collapse` of the predictions: 'pass', or 'fail: why'."""
    with torch.no_grad():
        said = (model(rows.tokens).argmax(dim=-1) + 1).flatten().tolist()
    found = collapse(said, rows.answer.flatten().tolist())
    return f"fail: {found.why}" if found.verdict == "fail" else found.verdict


def curve(done: TrainResult) -> dict[str, list[float]]:
    """Accuracy while the start is trained."""
    lines = [line for line in done.log if line.get("value") is not None]
    return {
        "step": [float(line["step"]) for line in lines],
        "accuracy": [1 - float(line["value"]) for line in lines],
    }
