"""One trial: slopes of random instances, the given example, baselines, or a model trained."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.checks.collapse import collapse
from attnlab.audit.finding import Finding
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.studies.hard_attention.gradients import given, random_slopes
from attnlab.studies.hard_attention.model import Choice, Lookup
from attnlab.studies.hard_attention.study import HardAttention
from attnlab.studies.hard_attention.task import Fresh, Rows, Sizes, draw, loss, nll, without_model
from attnlab.training.batch import map_tensors
from attnlab.training.loop import train
from attnlab.training.result import Hooks, TrainResult
from attnlab.training.settings import TrainSettings

MAPS = ("query", "key", "value")  # the three blocks of rows of the projection
ENOUGH = 20  # rows of a kind before a mean over them is taken
BATCHES = 32  # over which the first gradient is averaged
WHY_NOT = {
    "pushed_wrong": f"fewer than {ENOUGH} rows were routed rightly, or wrongly",
    "log_noise": "no gradient reaches queries and keys",
}


def run(study: HardAttention, trial: Trial, context: TrialContext) -> Outcome:
    """Measure slopes, give the example, score the baselines, or train one model."""
    kinds = {"slopes": random_slopes, "given": given, "baselines": baselines}
    kind = trial.config["kind"]
    return kinds[kind](trial) if kind in kinds else train_model(trial, context)


def sizes_of(c: Mapping[str, Any]) -> Sizes:
    """The task and model of a trial."""
    return Sizes(c["pairs"], c["symbols"], c["answers"], c["width"])


def baselines(trial: Trial) -> Outcome:
    """What needs no model, on the test rows that the models of this seed are scored on."""
    sizes = sizes_of(trial.config)
    rows = draw(sizes, trial.config["scored"], trial.stream.child("test"))
    return Outcome(dict(without_model(rows, sizes)))


def train_model(trial: Trial, context: TrialContext) -> Outcome:
    """Train one arm at one learning rate, then score it in every way the study asks for."""
    c, seed, sizes = trial.config, trial.stream, sizes_of(trial.config)
    choice = Choice.of(c["choice"])
    model = Lookup(sizes, choice, seed.child("weights").torch_generator()).to(context.device)

    def rows(name: str) -> Rows:
        drawn = draw(sizes, c["scored"], seed.child(name))
        return map_tensors(drawn, lambda tensor: tensor.to(context.device))

    dev, test = rows("dev"), rows("test")
    fresh = Fresh(sizes, c["batch"], c["steps"], choice.temperature, seed.child("train"))
    metrics: dict[str, Scalar] = {
        "found_start": score(model, test)["found"],
        **first_gradient(model, fresh),
    }
    before = model.maps.detach().clone()
    settings = TrainSettings(
        steps=c["steps"],
        batch=c["batch"],
        learning_rate=c["rate"],
        weight_decay=0.0,
        evaluate_every=max(1, c["steps"] // c["points"]),
    )
    done = train(model, fresh, settings, loss=loss, hooks=Hooks(evaluate=_evaluate_on(dev)))
    if done.ending == "diverged":
        return Outcome({"accuracy": math.nan}, reasons={"accuracy": done.problem})
    last, hard = score(model, test), score_with_argmax(model, test)
    metrics |= last | {
        "hard_accuracy": hard["accuracy"],
        **relative_changes(before, model.maps.detach()),
    }
    on_dev = {f"dev_{name}": value for name, value in score(model, dev).items() if name != "found"}
    metrics |= on_dev | push_ratio(model, dev, choice)
    metrics["collapsed"] = constant_answers(model, test).verdict == "fail"
    speed = done.tokens_per_second
    return Outcome(
        metrics,
        curves=curve(done),
        cost={"rows_per_second": speed} if speed else {},
        reasons={name: WHY_NOT[name] for name, value in metrics.items() if value is None},
    )


def score(model: Lookup, rows: Rows) -> dict[str, float]:
    """Share right, −log p of the answer, share of rows whose highest score is the right item's."""
    with torch.no_grad():
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
    own = model.read_with("argmax")
    try:
        return score(model, rows)
    finally:
        model.attention.normalise = own


def _evaluate_on(dev: Rows) -> Callable[[nn.Module], dict[str, float]]:
    def evaluate(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Lookup)
        scores = score(model, dev)
        return {"value": scores["nll"], **{k: scores[k] for k in ("accuracy", "found")}}

    return evaluate


def first_gradient(model: Lookup, fresh: Fresh) -> dict[str, Scalar]:
    """The gradient that reaches W_q, W_k and W_v at the start: norm of its mean over batches.

    `log_noise`: for W_q and W_k together, how far a batch's gradient lies from that mean over the
    norm of the mean, log √(E‖g − ḡ‖²) / ‖ḡ‖; None where the mean is 0.
    """
    batches = [
        map_tensors(fresh.batch(step), lambda t: t.to(model.maps.device)) for step in range(BATCHES)
    ]
    every = torch.stack(
        [
            torch.autograd.grad(nll(model(rows), rows) / len(rows), [model.maps])[0]
            for rows in batches
        ]
    )
    mean = every.mean(dim=0)
    found: dict[str, Scalar] = {f"gradient_{n}": float(part.norm()) for n, part in _named(mean)}
    both = slice(None, 2 * len(mean) // 3)
    size = float(mean[both].norm())
    spread = float((every - mean)[:, both].square().sum(dim=(1, 2)).mean().sqrt())
    return found | {"log_noise": math.log(spread / size) if size and spread else None}


def relative_changes(before: Tensor, after: Tensor) -> dict[str, float]:
    """‖W after − W before‖ / ‖W before‖ of the three maps."""
    pairs = zip(_named(before), _named(after), strict=True)
    return {f"moved_{n}": float((b - a).norm() / a.norm()) for (n, a), (_, b) in pairs}


def _named(maps: Tensor) -> list[tuple[str, Tensor]]:
    return list(zip(MAPS, maps.chunk(3), strict=True))


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
def constant_answers(model: Lookup, rows: Rows) -> Finding:
    """`collapse` of the predicted values."""
    return collapse(model(rows).argmax(dim=-1).tolist(), rows.answer.tolist())


def curve(done: TrainResult) -> dict[str, list[float]]:
    """Dev accuracy and the share of items found, while training."""
    names = ("step", "accuracy", "found")
    return {name: [float(line[name]) for line in done.evaluations] for name in names}
