"""What a model does, by brute force in float64: change something, compare everything.

Nothing here knows the audits. Each function gives a movement relative to the spread of the logits
(inf where one side is not finite and the other is), or says which pairs do not move.
"""

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

Trace = list[tuple[str, Tensor]]


def tensor_of(output: object) -> Tensor:
    """A tensor, the first of a tuple, or .logits."""
    output = getattr(output, "logits", output)
    output = output[0] if isinstance(output, tuple) else output
    assert isinstance(output, Tensor)
    return output


@contextmanager
def equal_draws() -> Iterator[None]:
    """The global generator at the same place each time, and put back."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(5)
        yield


def double(model: nn.Module, training: bool = False) -> nn.Module:
    """A float64 copy in one mode."""
    return copy.deepcopy(model).double().train(training)


def logits(model: nn.Module, ids: Tensor, seen: Tensor | None = None) -> Tensor:
    """Logits with equal draws of the generator."""
    with equal_draws():
        given = {} if seen is None else {"attention_mask": seen}
        return tensor_of(model(ids, **given))


def takes_mask(model: nn.Module) -> bool:
    """Whether forward has an attention_mask."""
    return "attention_mask" in inspect.signature(model.forward).parameters


def tokens(vocabulary: int, *shape: int, seed: int = 0) -> Tensor:
    """Uniformly random tokens."""
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def moved(a: Tensor, b: Tensor) -> float:
    """max |a − b| / spread of a; two NaN at one place are no movement, one is an infinite one."""
    if not torch.equal(a.isfinite(), b.isfinite()):
        return math.inf
    a, b = a.nan_to_num(), b.nan_to_num()
    return float((a - b).abs().max() / a.std().clamp_min(1e-30))


# ---------------------------------------------------------------------------------- the symptoms


def changed_after(ids: Tensor, t: int, vocabulary: int) -> Tensor:
    """Other tokens behind position t: none of them stays."""
    other = ids.clone()
    step = 1 + tokens(vocabulary - 1, *ids[:, t + 1 :].shape, seed=t + 1)
    other[:, t + 1 :] = (ids[:, t + 1 :] + step) % vocabulary
    return other


def cuts(length: int) -> list[int]:
    """Where the future begins: the ends and some places between; fewer in long inputs."""
    between = [length // 2] if length > 100 else [length // 5, length // 2]
    return [0, *between, length - 2]


def future(model: nn.Module, ids: Tensor, vocabulary: int, seen: Tensor | None = None) -> float:
    """How far logits at ≤ t move when tokens after t change."""
    base = logits(model, ids, seen)
    return max(
        moved(
            base[:, : t + 1],
            logits(model, changed_after(ids, t, vocabulary), seen)[:, : t + 1],
        )
        for t in cuts(ids.shape[1])
    )


def neighbours(model: nn.Module, ids: Tensor) -> float:
    """How far a row moves when it is alone, or when the others are in another order."""
    base, turned = logits(model, ids), logits(model, ids.flip(0)).flip(0)
    alone = torch.cat([logits(model, row[None]) for row in ids])
    return max(moved(base, turned), moved(base, alone))


def padded(model: nn.Module, ids: Tensor, left: int, right: int) -> float:
    """How far real tokens move when `left` and `right` pads of two kinds come before and after."""
    worst = 0.0
    for base in (logits(model, ids), logits(model, ids, torch.ones_like(ids))):
        for pad in (0, 3):
            seen = F.pad(torch.ones_like(ids), (left, right))
            said = logits(model, F.pad(ids, (left, right), value=pad), seen)
            worst = max(worst, moved(base, said[:, left : left + ids.shape[1]]))
    return worst


def unread(model: nn.Module, length: int, vocabulary: int) -> set[tuple[int, int]]:
    """Pairs (input j, output t ≥ j) where changing input j moves no logit of output t."""
    ids = tokens(vocabulary, 1, length, seed=3)
    base = logits(model, ids)[0]
    reached = torch.zeros(length, length, dtype=torch.bool)
    for step in (1, 5, 11):
        rows = ids.repeat(length, 1)
        rows += torch.eye(length, dtype=torch.long) * step
        moves = (logits(model, rows % vocabulary) - base).abs().amax(-1)
        reached |= moves > 1e-12 * base.std()
    blind = ~reached & torch.ones_like(reached).triu()
    return {(j, t) for j, t in blind.nonzero().tolist()}


def random_loss(model: nn.Module, vocabulary: int, length: int) -> tuple[float, float]:
    """ln V − loss on uniformly random tokens, and its standard error."""
    ids = tokens(vocabulary, 31, length, seed=7)
    said = logits(model, ids)[:, :-1]
    loss = F.cross_entropy(said.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return math.log(vocabulary) - float(loss.mean()), float(loss.std() / len(loss) ** 0.5)


# ---------------------------------------------------------------------- inside the model


class Softmaxes(TorchFunctionMode):
    """Every square softmax over keys while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Tensor] = []

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax" and isinstance(out, Tensor):
            self.weights += [out] if out.shape[-1] == out.shape[-2] else []
        return out


def attention_weights(model: nn.Module, ids: Tensor) -> list[Tensor]:
    """What the softmaxes of a forward gave, those of queries by keys."""
    with Softmaxes() as seen:
        logits(model, ids)
    return seen.weights


def traced(model: nn.Module, ids: Tensor, draw: bool = True) -> Trace:
    """(module name, output) in the order modules finish, of those with a position axis."""
    trace: Trace = []

    def keep(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_module: nn.Module, _given: object, output: object) -> None:
            if not isinstance(output, Tensor | tuple):
                return
            out = tensor_of(output)
            if ids.shape[1] in out.shape[1:]:
                axis = list(out.shape).index(ids.shape[1], 1)
                trace.append((name, out.detach().movedim(axis, 1)))

        return hook

    hooks = [part.register_forward_hook(keep(name)) for name, part in model.named_modules() if name]
    if draw:
        logits(model, ids)
    else:
        with torch.no_grad():
            model(ids)
    for hook in hooks:
        hook.remove()
    return trace


def first_difference(a: Trace, b: Trace, floor: float) -> str:
    """Name of the first module whose two outputs differ."""
    for (name, one), (_, other) in zip(a, b, strict=True):
        if moved(one, other) > floor:
            return name
    return ""


# ------------------------------------------------------------ proofs of what hides from the usual


Shows = Callable[[nn.Module], float]


def every_future(
    vocabulary: int,
    length: int,
    *,
    rows: int = 2,
    step: int = 1,
    kinds: int = 0,
    holding: int | None = None,
) -> Shows:
    """The future after every position; texts of few `kinds` of ids, or `holding` one id."""

    def shows(model: nn.Module) -> float:
        ids = tokens(kinds or vocabulary, rows, length, seed=2)
        if holding is not None:
            ids[:, length // 2] = holding
        return _every_future(model, ids, kinds or vocabulary, step)

    return shows


def _every_future(model: nn.Module, ids: Tensor, vocabulary: int, step: int = 1) -> float:
    subject = double(model)
    base = logits(subject, ids)
    found = 0.0
    for t in range(0, ids.shape[1] - 1, step):
        said = logits(subject, changed_after(ids, t, vocabulary))
        found = max(found, moved(base[:, : t + 1], said[:, : t + 1]))
    return found


def cut_off(vocabulary: int, length: int) -> Shows:
    """How far logits move when the text is cut off behind them."""

    def shows(model: nn.Module) -> float:
        subject, ids = double(model), tokens(vocabulary, 2, length, seed=2)
        base = logits(subject, ids)
        cuts = range(2, length)
        return max(moved(base[:, :t], logits(subject, ids[:, :t])) for t in cuts)

    return shows


def woken(vocabulary: int, length: int) -> Shows:
    """The future after every position, once every weight of zero is a small number."""

    def shows(model: nn.Module) -> float:
        awake = copy.deepcopy(model)
        with torch.no_grad():
            for weight in awake.parameters():
                if not weight.any():
                    draws = torch.Generator().manual_seed(6)
                    weight.copy_(0.1 * torch.randn(weight.shape, generator=draws))
        return _every_future(awake, tokens(vocabulary, 2, length, seed=2), vocabulary)

    return shows


def with_labels(vocabulary: int, length: int) -> Shows:
    """The future after every position, each label being the next token."""

    class Labelled(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, ids: Tensor) -> object:
            return self.inner(ids, ids.roll(-1, 1))

    ids = tokens(vocabulary, 2, length, seed=2)
    return lambda model: _every_future(Labelled(model), ids, vocabulary)
