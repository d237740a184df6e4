"""Speed of the solvable model against plain autograd descent, in one run, side by side.

python benchmarks/solvable.py [--json] [--diagram]
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch
from common import Row, arguments, best_time, report
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from attnlab.core.config import build
from attnlab.core.seeds import Seed
from attnlab.solvable.quadrature import sobol
from attnlab.solvable.simulation import SimulationSettings, simulate
from attnlab.solvable.solve import SolverSettings, minimise
from attnlab.solvable.student import Loss
from attnlab.solvable.teacher import Dataset, Teacher, TeacherSettings
from attnlab.solvable.theory import Model, Point, curve

DIM, ALPHA, RIDGE, RATE, STEPS = 1000, 1.5, 0.01, 0.15, 5000


def problem(dtype: torch.dtype) -> tuple[Teacher, Dataset]:
    """The instance everything below is timed on."""
    teacher = Teacher.draw(build(TeacherSettings, {"dim": DIM}), Seed(0).child("teacher"))
    return teacher, teacher.sample(round(ALPHA * DIM), Seed(0).child("train"), dtype)


def autograd_step(data: Dataset, start: Tensor) -> tuple[Callable[..., Tensor], DataLoader]:
    """One step of W ← W − rate·∇E as anyone would write it, and a loader for the other variant."""
    x = data.tokens.transpose(0, 1).contiguous()
    targets = data.targets().transpose(0, 1).contiguous()
    signs = data.settings.signs.to(x.dtype)[:, None]
    inputs = x + signs / DIM**0.5
    weights = start.to(x.dtype).clone().requires_grad_()
    optimiser = torch.optim.SGD([weights], lr=RATE)

    def step(batch: tuple[Tensor, Tensor] = (inputs, targets)) -> Tensor:
        given, wanted = batch
        optimiser.zero_grad()
        fields = given @ weights.T / DIM**0.5
        attention = torch.softmax(fields @ fields.transpose(1, 2), dim=-1)
        loss = (wanted - attention @ given).square().sum() / (2 * DIM)
        loss = loss + RIDGE / 2 * weights.square().sum()
        loss.backward()
        optimiser.step()
        return loss

    loader = DataLoader(TensorDataset(inputs, targets), batch_size=len(inputs), shuffle=True)
    return step, loader


def one_student() -> Iterator[Row]:
    """One student, D = 1000, α = 1.5: descent's 5,000 steps against the quasi-Newton solver."""
    teacher, data = problem(torch.float32)
    loss, settings = Loss.of(data, RIDGE), SolverSettings(tolerance=1e-4)
    for name, start in (
        ("semantic", teacher.weights),
        ("positional", torch.full((1, DIM), DIM**-0.5, dtype=torch.float64)),
    ):
        step, loader = autograd_step(data, start)
        plain = best_time(lambda step=step: [step() for _ in range(20)], 5) / 20 * STEPS
        loaded = best_time(lambda s=step, d=loader: [s(tuple(batch)) for batch in d], 3) * STEPS
        ours = best_time(lambda start=start: minimise(loss, start[None], settings), 5)
        found = minimise(loss, start[None], settings)
        slow = SolverSettings(method="gradient-descent", max_evaluations=STEPS, tolerance=1e-9)
        reached = minimise(loss, start[None], slow)
        note = (
            f"fastest 20 of 100 steps timed, scaled to {STEPS:,}; loss {float(found.value):.6f} "
            "against "
            f"{float(reached.value):.6f} after {STEPS:,} steps, "
            f"|∇|∞ {float(found.gradient_max):.0e} against {float(reached.gradient_max):.0e}; "
            f"{int(found.evaluations)} evaluations"
        )
        assert float(found.value) <= float(reached.value), "ours must be at equal or lower loss"
        yield Row(f"one student, {name} start", ours, plain, "s", plain / ours, 150, note)
        yield Row(
            f"one student, {name} start, against a data loader",
            ours,
            loaded,
            "s",
            loaded / ours,
            150,
            "one pass timed, best of 3, scaled",
        )


def many_students() -> Iterator[Row]:
    """64 students (2 starts × 8 ridges × 4 folds) of one data set, per student."""
    teacher, data = problem(torch.float32)
    starts = torch.stack([teacher.weights, torch.full_like(teacher.weights, DIM**-0.5)])
    starts = starts.repeat_interleave(32, dim=0)
    ridges = torch.logspace(-3, -1, 8, dtype=torch.float64).repeat_interleave(4).repeat(2)
    fold = torch.arange(data.samples) % 4
    keep = (fold[:, None] != torch.arange(64) % 4).double()
    loss = Loss.of(data, ridges, keep)
    settings = SolverSettings(tolerance=1e-4)
    ours = best_time(lambda: minimise(loss, starts, settings), 2) / 64
    found = minimise(loss, starts, settings)
    step, _ = autograd_step(data, teacher.weights)
    plain = best_time(lambda: [step() for _ in range(20)], 5) / 20 * STEPS
    note = (
        f"{int(found.converged.sum())} of 64 below |∇|∞ = 1e-4, at most "
        f"{int(found.evaluations.max())} evaluations"
    )
    yield Row("64 students at once, per student", ours, plain, "s", plain / ours, 1000, note)


def bandwidth() -> Iterator[Row]:
    """Bytes of x read by one gradient per second, over the measured read bandwidth."""
    dim = 4000
    teacher = Teacher.draw(build(TeacherSettings, {"dim": dim}), Seed(0))
    data = teacher.sample(round(ALPHA * dim), Seed(1), torch.float32)
    loss = Loss.of(data, RIDGE)
    size = data.tokens.numel() * 4
    flat = data.tokens.reshape(-1)
    reads = (flat.sum, flat.max, lambda: torch.dot(flat, flat))  # the fastest way to read it once
    read = size / min(best_time(work, 10) for work in reads)
    for students in (1, 2):
        weights = teacher.weights[None].repeat(students, 1, 1)
        seconds = best_time(lambda w=weights: loss.value_and_gradient(w), 10)
        rate = 2 * size / seconds
        note = f"{size / 1e6:.0f} MB read twice; {rate / 1e9:.1f} of {read / 1e9:.1f} GB/s"
        yield Row(
            f"share of the read bandwidth, {students} student(s), D = {dim:,}",
            rate / 1e9,
            read / 1e9,
            "GB/s",
            rate / read,
            None,
            note,
        )


def branch_curve(branch: str, points: int, seed: int = 0) -> list[Point]:
    """One branch at 20 α; a process of its own."""
    alphas = [float(a) for a in np.linspace(0.1, 2.0, 20)]
    return curve(Model(), alphas, branch, sobol(points, seed=seed))  # type: ignore[arg-type]


def theory() -> Iterator[Row]:
    """20 α × 2 branches on two cores, and how far an independent set of points differs."""
    names = ("semantic", "positional")
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(branch_curve, names, (64, 64)))  # start the processes
        began = time.perf_counter()
        found = list(pool.map(branch_curve, names, (2**16, 2**16)))
        seconds = time.perf_counter() - began
        other = list(pool.map(branch_curve, names, (2**16, 2**16), (1, 1)))
    off, counted = 0.0, 0
    for coarse, fine in zip(found, other, strict=True):
        for a, b in zip(coarse, fine, strict=True):
            if a.converged and b.converged and b.order > 0.02:
                gaps = [abs(getattr(a, n) / getattr(b, n) - 1) for n in ("q", "train_error")]
                off, counted = max(off, *gaps, abs(a.order / b.order - 1)), counted + 1
    settled = sum(p.converged for c in found for p in c)
    note = (
        f"{settled} of 40 points converged; largest difference from another 2^16 points "
        f"{off:.2%} over {counted} points (q, ε_t, overlap)"
    )
    yield Row("theory, 20 α × 2 branches, at most", seconds, None, "s", None, 60, note)


def cell(alpha: float, omega: float) -> int:
    """One cell of the diagram: both starts, the baseline, a test set of 20,000."""
    torch.set_num_threads(1)
    settings = build(
        SimulationSettings,
        {"dim": 1000, "alpha": alpha, "omega": omega, "dtype": "float32", "test_samples": 20_000},
    )
    return len(simulate(settings, Seed(0)).students)


def diagram() -> Iterator[Row]:
    """The full 25 × 26 diagram at D = 1000 on two cores."""
    pairs = [(0.08 * a, 0.02 * o) for a in range(25, 0, -1) for o in range(26)]
    began = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        cells = sum(pool.map(cell, *zip(*pairs, strict=True), chunksize=4))
    seconds = time.perf_counter() - began
    yield Row(
        "25 × 26 diagram, D = 1000",
        seconds / 60,
        None,
        "min",
        None,
        None,
        f"{cells} students, {len(pairs)} baselines, 20,000 test samples each",
    )


def main() -> None:
    """Run the benchmarks and print their rows."""
    parser = arguments("Speed of the solvable model")
    parser.add_argument("--diagram", action="store_true", help="also the 25 × 26 diagram (minutes)")
    chosen = parser.parse_args()
    parts = [one_student, many_students, bandwidth, theory]
    if chosen.diagram:
        parts.append(diagram)
    report([row for part in parts for row in part()], chosen.json)


if __name__ == "__main__":
    main()
