"""One trial: slopes of random instances, the given example, baselines, or a model trained."""

import math

import torch
from torch import Tensor, nn

from attnlab.audit.checks.collapse import collapse
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.studies.hard_attention.gradients import given, random_slopes
from attnlab.studies.hard_attention.model import (
    Choice,
    Fresh,
    Lookup,
    Rows,
    draw,
    loss,
    nll,
    normaliser,
    without_model,
)
from attnlab.studies.hard_attention.study import HardAttention, HardSettings
from attnlab.training.batch import map_tensors
from attnlab.training.loop import train
from attnlab.training.result import Hooks
from attnlab.training.settings import TrainSettings

ENOUGH = 20  # rows of a kind before a mean over them is taken
BATCHES = 32  # over which the first gradient is averaged
WHY_NOT = {
    "pushed_wrong": f"fewer than {ENOUGH} rows were routed rightly, or wrongly",
    "log_noise": "no gradient reaches queries and keys",
}


def run(study: HardAttention, trial: Trial, context: TrialContext) -> Outcome:
    """Measure slopes, give the example, score the baselines, or train one model."""
    kind, s = trial.config["kind"], study.settings_of(trial)
    if kind == "slopes":
        return random_slopes(trial)
    if kind == "given":
        return given(trial)
    if kind == "baselines":  # on the test rows that the models of this seed are scored on
        return Outcome(without_model(draw(s, s.scored, trial.stream.child("test")), s.answers))
    return train_model(s, trial, context)


def train_model(s: HardSettings, trial: Trial, context: TrialContext) -> Outcome:
    """Train one arm at one learning rate, then score it in every way the study asks for."""
    choice, seed = Choice(**trial.config["choice"]), trial.stream
    model = Lookup(s, choice, seed.child("weights").torch_generator()).to(context.device)
    dev, test = (
        map_tensors(draw(s, s.scored, seed.child(name)), lambda t: t.to(context.device))
        for name in ("dev", "test")
    )
    fresh = Fresh(s, s.batch, s.steps, choice.temperature, seed.child("train"))
    found_start = score(model, test)["found"]
    metrics: dict[str, Scalar] = {"found_start": found_start, **first_gradient(model, fresh)}
    before = model.maps.detach().clone()
    settings = TrainSettings(
        steps=s.steps,
        batch=s.batch,
        learning_rate=trial.config["rate"],
        weight_decay=0.0,
        evaluate_every=max(1, s.steps // s.points),
    )

    def evaluate(_: nn.Module) -> dict[str, float]:
        scores = score(model, dev)
        return {"value": scores["nll"], **scores}

    done = train(model, fresh, settings, loss=loss, hooks=Hooks(evaluate=evaluate))
    if done.ending == "diverged":
        return Outcome({"accuracy": math.nan}, reasons={"accuracy": done.problem})
    on_dev = score(model, dev)
    metrics |= {
        **score(model, test),
        "hard_accuracy": score_with_argmax(model, test)["accuracy"],
        **relative_changes(before, model.maps.detach()),
        "dev_accuracy": on_dev["accuracy"],
        "dev_nll": on_dev["nll"],
        **push_ratio(model, dev, choice),
        "collapsed": gives_one_answer(model, test),
    }
    speed = done.tokens_per_second
    return Outcome(
        metrics,
        curves={name: done.evaluated(name) for name in ("step", "accuracy", "found")},
        cost={"rows_per_second": speed} if speed else {},
        reasons={name: WHY_NOT[name] for name, value in metrics.items() if value is None},
    )


@torch.no_grad()
def score(model: Lookup, rows: Rows) -> dict[str, float]:
    """Share right, −log p of the answer, share of rows whose highest score is the right item's."""
    steps = model.steps(rows)
    logits = model.logits(steps)
    picked = steps.weights[:, 0, 0].argmax(dim=-1)
    return {
        "accuracy": (logits.argmax(dim=-1) == rows.answer).double().mean().item(),
        "nll": nll(logits.double(), rows).item() / len(rows),
        "found": (picked == rows.place).double().mean().item(),
    }


def score_with_argmax(model: Lookup, rows: Rows) -> dict[str, float]:
    """The same model with argmax in the place of whatever it was trained with."""
    own, argmax = model.attention.normalise, normaliser("argmax")
    model.attention.normalise = argmax.build(model.dims, torch.Generator())
    scores = score(model, rows)
    model.attention.normalise = own
    return scores


def first_gradient(model: Lookup, fresh: Fresh) -> dict[str, Scalar]:
    """The gradient that reaches W_q, W_k and W_v at the start: norm of its mean over batches.

    `log_noise`: for W_q and W_k together, how far a batch's gradient lies from that mean over the
    norm of the mean, log √(E‖g − ḡ‖²) / ‖ḡ‖; None where the mean is 0.
    """
    gradients: list[Tensor] = []
    for step in range(BATCHES):
        rows = map_tensors(fresh.batch(step), lambda t: t.to(model.maps.device))
        gradients += torch.autograd.grad(nll(model(rows), rows) / len(rows), [model.maps])
    every = torch.stack(gradients)
    mean = every.mean(dim=0)
    found: dict[str, Scalar] = {f"gradient_{n}": float(w.norm()) for n, w in by_map(mean).items()}
    both = slice(None, 2 * len(mean) // 3)
    size = float(mean[both].norm())
    spread = float((every - mean)[:, both].square().sum(dim=(1, 2)).mean().sqrt())
    return found | {"log_noise": math.log(spread / size) if size and spread else None}


def relative_changes(before: Tensor, after: Tensor) -> dict[str, float]:
    """‖W after − W before‖ / ‖W before‖ of the three maps."""
    old, new = by_map(before), by_map(after)
    return {f"moved_{n}": float((new[n] - w).norm() / w.norm()) for n, w in old.items()}


def by_map(maps: Tensor) -> dict[str, Tensor]:
    """The three blocks of rows of the projection."""
    return dict(zip(("query", "key", "value"), maps.chunk(3), strict=True))


def push_ratio(model: Lookup, rows: Rows, choice: Choice) -> dict[str, Scalar]:
    """How hard a step pushes the embedding of an item picked in error, over one picked rightly.

    Of argmax attention: there the embedding of the picked item is all that the loss can move.
    """
    if choice.normalise != "argmax":
        return {}
    items = model.items(rows).detach().requires_grad_(True)
    steps = model.steps(rows, items)
    (gradient,) = torch.autograd.grad(nll(model.logits(steps), rows), [items])
    size = gradient.norm(dim=-1).sum(dim=-1)  # one item a row is picked, the others get 0
    right = steps.weights[:, 0, 0].argmax(dim=-1) == rows.place
    if min(int(right.sum()), int((~right).sum())) < ENOUGH:
        return {"pushed_wrong": None}
    return {"pushed_wrong": float(size[~right].mean() / size[right].mean())}


@torch.no_grad()
def gives_one_answer(model: Lookup, rows: Rows) -> bool:
    """Whether the audit `collapse` finds the predicted values constant."""
    return collapse(model(rows).argmax(dim=-1).tolist(), rows.answer.tolist()).verdict == "fail"
