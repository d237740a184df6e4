"""The loss in pieces is the plain cross-entropy: value, gradients, precision, memory."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models import loss
from attnlab.models.loss import LinearNll, linear_nll

EXACT = 1e-12


def problem(
    rows: int = 61, width: int = 7, vocab: int = 53, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    g = Seed(3).torch_generator()
    x = torch.randn(rows, width, generator=g, dtype=torch.float64)
    weight = torch.randn(vocab, width, generator=g, dtype=torch.float64)
    targets = torch.randint(0, vocab, (rows,), generator=g)
    return x.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), targets


def plain(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(x @ weight.T, targets, ignore_index=IGNORE, reduction="sum")


def grads(value: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return torch.autograd.grad(value, (x, weight))  # type: ignore[return-value]


def assert_equal(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], rtol: float) -> None:
    for a, b in zip(ours, theirs, strict=True):
        scale = float(b.detach().abs().max()) or 1.0
        torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("piece", [53, 5 * 53, 13 * 53, 10**6])
@pytest.mark.parametrize("ignored", [0, 1, 19])
@pytest.mark.parametrize("wide", [1, 8])
def test_equal_to_cross_entropy(
    piece: int, ignored: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(loss.PIECE, "cpu", piece)
    monkeypatch.setitem(loss.WIDTH, "cpu", wide)  # 53 -> 56 columns, as a GPU has them
    monkeypatch.setattr(loss, "UNDERFLOW", -80.0 if ignored else 0.0)  # both ways to log p
    x, weight, targets = problem()
    targets[torch.randperm(61, generator=Seed(5).torch_generator())[:ignored]] = IGNORE
    total, count = linear_nll(x, weight, targets)
    expected = plain(x, weight, targets)
    assert int(count) == 61 - ignored
    assert_equal((total,), (expected,), EXACT)
    assert_equal(grads(0.37 * total, x, weight), grads(0.37 * expected, x, weight), EXACT)


def test_rows_of_any_shape() -> None:
    x, weight, targets = problem(rows=60)
    flat, _ = linear_nll(x, weight, targets)
    shaped, count = linear_nll(x.view(3, 4, 5, 7), weight, targets.view(3, 4, 5))
    assert int(count) == 60
    assert torch.equal(flat, shaped)


def test_ignored_rows_stay_out_where_rows_cannot_be_selected() -> None:
    """The way of a GPU: every row is computed, ignored ones count nothing, whatever they hold."""
    x, weight, targets = problem()
    targets[::3] = IGNORE
    with torch.no_grad():
        x[::3] = torch.nan
    total: Any = LinearNll.apply(x, weight, targets, True)
    keep = targets != IGNORE
    expected = plain(x[keep], weight, targets[keep])
    assert_equal((total,), (expected,), EXACT)
    dx, dweight = grads(total, x, weight)
    other = grads(expected, x, weight)
    assert torch.equal(dx[::3], torch.zeros_like(dx[::3]))
    assert_equal((dx[keep], dweight), (other[0][keep], other[1]), EXACT)


def test_gradcheck() -> None:
    x, weight, targets = problem(rows=5, width=3, vocab=7)
    targets[2] = IGNORE
    assert torch.autograd.gradcheck(lambda a, b: linear_nll(a, b, targets)[0], (x, weight))


def test_a_batch_where_nothing_is_scored() -> None:
    x, weight, targets = problem()
    total, count = linear_nll(x, weight, torch.full_like(targets, IGNORE))
    assert (total.item(), count.item()) == (0.0, 0)
    for gradient in grads(total, x, weight):
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_no_gradient_is_computed_when_none_is_asked_for() -> None:
    x, weight, targets = problem()
    with torch.no_grad():
        total, _ = linear_nll(x, weight, targets)
    assert not total.requires_grad
    assert_equal((total,), (plain(x, weight, targets),), EXACT)


def test_a_second_derivative_is_refused_not_wrong() -> None:
    x, weight, targets = problem()
    total, _ = linear_nll(x, weight, targets)
    (dx,) = torch.autograd.grad(total.square(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_float32_is_as_exact_as_torchs_own(size: float) -> None:
    x, weight, targets = problem(rows=211, width=17, vocab=307, dtype=torch.float32)
    with torch.no_grad():
        x *= size
    wide = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    expected = plain(*wide, targets)
    exact = (expected.detach(), *grads(expected, *wide))

    def errors(value: Tensor) -> list[float]:
        found = [t.detach() for t in (value, *grads(value, x, weight))]
        return [
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, exact, strict=True)
        ]

    ours = errors(linear_nll(x, weight, targets)[0])
    theirs = errors(plain(x, weight, targets))
    eps = torch.finfo(torch.float32).eps
    for mine, other in zip(ours, theirs, strict=True):
        assert mine <= 2 * other + 4 * eps  # two sums of other order


def test_a_nearly_certain_target_keeps_its_digits_in_bfloat16() -> None:
    """p rounds to 1 here, and p − 1 to 0; the target would no longer be learnt."""
    logits = torch.tensor([[8.0, 0.0, -1.0], [7.0, 0.0, -0.5]])
    x = logits.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        total, _ = linear_nll(x, torch.eye(3), torch.tensor([0, 0]))
    (dx,) = torch.autograd.grad(total, x)
    p = torch.softmax(logits.double(), dim=1)
    assert bool((p[:, 0].bfloat16() == 1).all())
    expected = -p[:, 1:].sum(dim=1)
    torch.testing.assert_close(dx[:, 0].double(), expected, rtol=2**-8, atol=0)


def bfloat16_errors(device: str) -> tuple[list[float], list[float]]:
    """Of ours and of plain autocast, against float64 on the same rounded operands."""
    x, weight, targets = (t.detach().to(device) for t in problem(rows=211, width=17, vocab=307))
    targets[::5] = IGNORE
    x, weight = x.bfloat16().float().requires_grad_(), weight.bfloat16().float().requires_grad_()
    wide = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    expected = plain(*wide, targets)
    exact = (expected.detach(), *grads(expected, *wide))

    def errors(value: Tensor) -> list[float]:
        found = [t.detach() for t in (value, *grads(value, x, weight))]
        assert found[1].dtype == found[2].dtype == value.dtype == torch.float32
        return [float((a - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]

    with torch.autocast(device, torch.bfloat16):
        ours = linear_nll(x, weight, targets)[0]
        theirs = plain(x, weight, targets)
    return errors(ours), errors(theirs)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_bfloat16_autocast_is_as_exact_as_torchs_own(device: str) -> None:
    ours, theirs = bfloat16_errors(device)
    for mine, other in zip(ours, theirs, strict=True):
        assert 0 < mine < 1.5 * other + 2**-9


@pytest.mark.gpu
def test_cuda_equals_cpu() -> None:
    x, weight, targets = problem()
    targets[::7] = IGNORE
    here, _ = linear_nll(x, weight, targets)
    gx, gw = x.detach().cuda().requires_grad_(), weight.detach().cuda().requires_grad_()
    there, _ = linear_nll(gx, gw, targets.cuda())
    assert_equal((there.cpu(),), (here,), EXACT)
    found = tuple(g.cpu() for g in grads(there, gx, gw))
    assert_equal(found, grads(here, x, weight), EXACT)


class Largest(TorchDispatchMode):
    """The most numbers any result of an operation had."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for item in made if isinstance(made, tuple | list) else (made,):
            if isinstance(item, Tensor):
                self.numbers = max(self.numbers, item.untyped_storage().nbytes() // item.itemsize)
        return made


def test_the_logits_of_the_batch_never_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loss.PIECE, "cpu", 1009)
    x, weight, targets = problem(rows=307, width=7, vocab=53)
    with Largest() as ours:
        grads(linear_nll(x, weight, targets)[0], x, weight)
    with Largest() as theirs:
        grads(plain(x, weight, targets), x, weight)
    assert theirs.numbers == 307 * 53
    assert ours.numbers <= max(1009, 307 * 7)


COMPILED = """
import sys
import torch
from attnlab.models.loss import LinearNll
from torch.nn.functional import cross_entropy

g = torch.Generator().manual_seed(0)
x = torch.randn(61, 7, generator=g, dtype=torch.float64, requires_grad=True)
weight = torch.randn(53, 7, generator=g, dtype=torch.float64, requires_grad=True)
targets = torch.randint(0, 53, (61,), generator=g)
targets[::5] = -100
x, weight = (t.detach().to(sys.argv[1]).requires_grad_() for t in (x, weight))
targets = targets.to(sys.argv[1])
run = torch.compile(lambda a, b: LinearNll.apply(a, b, targets, True), fullgraph=True)
for value in (run(x, weight), cross_entropy(x @ weight.T, targets, reduction="sum")):
    total = [value, *torch.autograd.grad(value, (x, weight))]
    print(*(repr(float((t.detach() * t.detach()).sum())) for t in total))
"""


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("cpu", marks=pytest.mark.slow),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)
def test_compiled_as_on_a_gpu_it_is_one_graph_and_the_same(device: str) -> None:
    """In a process of its own: the shape checks of these tests cannot be compiled."""
    command = [sys.executable, "-c", COMPILED, device]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours, theirs = ([float(word) for word in line.split()] for line in done.stdout.splitlines())
    assert ours == pytest.approx(theirs, rel=EXACT)
