"""Simulate one instance: draw a teacher and its data, train students from their starts, test.

The order parameters are the same as in theory:

    m = |W·1_D| / D      (positional: the mean of the student's field on token 1)
    θ = σ² |W·W*| / D    (semantic)
    q = σ² ‖W‖² / D      (variance of the student's field)

Absolute values are taken because the model is even in W. For rank > 1, m is the norm over the
rows, θ the largest singular value of the matrix θ, and q the trace.
"""

import math
import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor

from attnlab.core.config import suggest
from attnlab.core.devices import DtypeName, torch_dtype
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.solvable.generalisation import (
    TestErrors,
    exact_test_error,
    linear_fit,
    sample_test_error,
)
from attnlab.solvable.solve import Solution, SolverSettings, minimise
from attnlab.solvable.student import Loss, Weights
from attnlab.solvable.teacher import Dataset, Teacher, TeacherSettings, softmax_scores
from attnlab.solvable.validate import leave_one_out

START = re.compile(r"semantic|positional|random(-[1-9]\d{0,2})?")


class SimulationSettings(TeacherSettings):
    """Settings of the teacher, the number of samples N = α·D, and of training and testing."""

    alpha: float = Field(default=1.5, gt=0)
    ridge: float = Field(default=0.01, ge=0)
    student_rank: int = Field(default=1, ge=1)
    starts: tuple[str, ...] = ("semantic", "positional")
    semantic_norm: float | None = None  # norm of the start; None: ‖W*‖ ≈ √D, as published
    positional_norm: float | None = None  # None: ‖r_1‖, 1 in the paper's scaling
    displacement: float = Field(
        default=0.0, ge=0, le=2
    )  # Δ/q by which trained students are displaced
    test_samples: int = Field(default=50_000, ge=2)
    dtype: DtypeName = "float64"
    tolerance: float | None = None  # None: 1e-6 in float64, 1e-4 in float32
    method: Literal["quasi-newton", "gradient-descent"] = "quasi-newton"
    max_evaluations: int = 2000

    @field_validator("starts")
    @classmethod
    def _known_starts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not START.fullmatch(name):
                raise ValueError(
                    "a start must be semantic, positional, random, or random-2, random-3 …"
                )
        return value

    @property
    def samples(self) -> int:
        """The number of training samples N = α·D, rounded."""
        return max(1, round(self.alpha * self.dim))

    @property
    def teacher(self) -> TeacherSettings:
        """The part of these settings that describes the teacher."""
        names = TeacherSettings.model_fields
        return TeacherSettings.model_validate({name: getattr(self, name) for name in names})

    @property
    def torch_dtype(self) -> torch.dtype:
        """The floating-point type of the two large matrix products."""
        return torch_dtype(self.dtype)

    @property
    def solver(self) -> SolverSettings:
        """The settings of the solver, with the default tolerance of the dtype."""
        tolerance = self.tolerance or (1e-6 if self.dtype == "float64" else 1e-4)
        return SolverSettings(
            method=self.method, tolerance=tolerance, max_evaluations=self.max_evaluations
        )


@dataclass(frozen=True)
class Student:
    """A student trained from one start; `train_error` is E/D, `test_error` the sampled ε_g."""

    start: str
    m: float
    theta: float
    q: float
    train_error: float
    test_error: float
    test_standard_error: float
    test_error_exact: float
    leave_one_out: float | None
    evaluations: int
    gradient_max: float
    converged: bool
    theta_values: tuple[float, ...]
    start_norm: float
    returned: float | None  # Δ/q that remains after displacing a trained student and training again

    def as_json(self) -> dict[str, Any]:
        """All fields, as a dictionary for metrics and `--json`."""
        return asdict(self)


@dataclass(frozen=True)
class Simulation:
    """All students of one instance and the linear baseline on the same data."""

    students: tuple[Student, ...]
    linear_train_error: float
    linear_test_error: float
    score_variance: float
    largest_weight: float
    seconds: float

    def student(self, start: str) -> Student:
        """The student of this start; UsageError with the nearest name if there is none."""
        by_start = {student.start: student for student in self.students}
        if start not in by_start:
            raise UsageError(f"no student started from {start!r}: {suggest(start, by_start)}")
        return by_start[start]


def draw_data(settings: SimulationSettings, seed: Seed, device: str) -> tuple[Teacher, Dataset]:
    """The teacher and the training samples of this seed."""
    teacher = Teacher.draw(settings.teacher, seed.child("teacher"), device)
    return teacher, teacher.sample(settings.samples, seed.child("train"), settings.torch_dtype)


def simulate(
    settings: SimulationSettings,
    seed: Seed | int,
    device: str = "cpu",
    drawn: tuple[Teacher, Dataset] | None = None,
) -> Simulation:
    """Draw, train and test; the result depends only on the settings, the seed and the device.

    With a teacher and samples `drawn` before, the seed serves for starts and test samples only.
    """
    seed = Seed(seed) if isinstance(seed, int) else seed
    began = time.perf_counter()
    teacher, data = drawn or draw_data(settings, seed, device)
    loss = Loss.of(data, settings.ridge)
    starts = start_weights(settings, teacher, seed)
    solution = minimise(loss, starts, settings.solver)
    linear, linear_value = linear_fit(data, settings.ridge)
    test = sample_test_error(
        teacher, solution.weights, linear, settings.test_samples, seed.child("test")
    )
    # The cavity formula is derived for rank 1, the paper's scaling and λ > 0.
    cavity = settings.student_rank == 1 and settings.scaling == "paper" and settings.ridge > 0
    held_out = leave_one_out(loss, solution.weights) if cavity else None
    returned = _displace_and_retrain(settings, loss, solution, seed)
    students = tuple(
        _measure(index, settings, teacher, starts, solution, test, held_out, returned)
        for index in range(len(settings.starts))
    )
    variance, largest = start_scores(loss, starts)
    return Simulation(
        students,
        linear_value / settings.dim,
        test.linear,
        variance,
        largest,
        time.perf_counter() - began,
    )


def start_weights(settings: SimulationSettings, teacher: Teacher, seed: Seed) -> Weights:
    """One W per start: W* (semantic), the position vector r_1 (positional), or random of norm √D.

    Rows beyond the teacher's rank start small and random, because a zero row would stay zero.
    """
    device, shape = teacher.weights.device, (settings.student_rank, settings.dim)
    weights_by_start: list[Tensor] = []
    for name in settings.starts:
        generator = seed.child("start", name).torch_generator()
        noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(device)
        if name.startswith("random"):
            weights_by_start.append(noise)
            continue
        weights = noise / math.sqrt(settings.dim)
        if name.startswith("semantic"):
            rows = min(settings.student_rank, settings.rank)
            weights[:rows] = _with_norm(teacher.weights[:rows], settings.semantic_norm)
        else:
            position = torch.full_like(weights[:1], settings.position_size)
            weights[:1] = _with_norm(position, settings.positional_norm)
        weights_by_start.append(weights)
    return torch.stack(weights_by_start)


def start_scores(loss: Loss, starts: Weights) -> tuple[float, float]:
    """The variance of the first student's scores at its start, and its mean largest weight."""
    fields = loss.fields(starts[:1])
    scores = torch.einsum("lnkr,mnkr->lmnk", fields, fields)
    weights = softmax_scores(fields, loss.data.settings)
    return float(scores.var()), float(weights.amax(dim=1).mean())


def _with_norm(weights: Tensor, norm: float | None) -> Tensor:
    return weights if norm is None else weights * (norm / torch.linalg.vector_norm(weights))


def _displace_and_retrain(
    settings: SimulationSettings, loss: Loss, solution: Solution, seed: Seed
) -> Tensor | None:
    """Displace every trained student by Δ/q = `displacement`, train again, and measure Δ/q.

    Δ/q = ‖W − W'‖² / ‖W‖² for equal norms: W' is W rotated towards a random direction by an angle
    with cosine 1 − Δ/2q. A result of 0 means that the student returned to its minimum.
    """
    if settings.displacement == 0:
        return None
    trained = solution.weights.flatten(1)
    generator = seed.child("displacement").torch_generator()
    noise = torch.randn(trained.shape, generator=generator, dtype=torch.float64).to(trained.device)
    norm = trained.norm(dim=1, keepdim=True)
    noise = noise - (noise * trained).sum(dim=1, keepdim=True) / norm.square() * trained
    cosine = 1 - settings.displacement / 2
    sine = math.sqrt(1 - cosine**2)
    moved = cosine * trained + sine * norm * noise / noise.norm(dim=1, keepdim=True)
    start = moved.reshape(solution.weights.shape)
    end = minimise(loss, start, settings.solver).weights.flatten(1)
    gap = torch.minimum((end - trained).square().sum(dim=1), (end + trained).square().sum(dim=1))
    return 2 * gap / (trained.square().sum(dim=1) + end.square().sum(dim=1))


def _measure(  # noqa: PLR0913  (each is computed for all students at once)
    index: int,
    settings: SimulationSettings,
    teacher: Teacher,
    starts: Weights,
    solution: Solution,
    test: TestErrors,
    held_out: Tensor | None,
    returned: Tensor | None,
) -> Student:
    overlaps = measure_overlaps(solution.weights[index], teacher.weights, settings.sigma)
    return Student(
        start=settings.starts[index],
        **vars(overlaps),
        train_error=float(solution.value[index]) / settings.dim,
        test_error=float(test.students[index]),
        test_standard_error=float(test.standard_error[index]),
        test_error_exact=exact_test_error(teacher, solution.weights[index]),
        leave_one_out=None if held_out is None else float(held_out[index]),
        evaluations=int(solution.evaluations[index]),
        gradient_max=float(solution.gradient_max[index]),
        converged=bool(solution.converged[index]),
        start_norm=float(torch.linalg.vector_norm(starts[index])),
        returned=None if returned is None else float(returned[index]),
    )


@dataclass(frozen=True)
class Overlaps:
    """m, θ and q of one student; `theta_values` holds all singular values of θ."""

    m: float
    theta: float
    q: float
    theta_values: tuple[float, ...]


def measure_overlaps(
    weights: Float[Tensor, "rank dim"], teacher: Float[Tensor, "rank2 dim"], sigma: float
) -> Overlaps:
    """The order parameters of student `weights` with respect to the teacher weights."""
    dim = weights.shape[1]
    singular = torch.linalg.svdvals(sigma**2 * weights @ teacher.T / dim)
    return Overlaps(
        m=float(torch.linalg.vector_norm(weights.sum(dim=1)) / dim),
        theta=float(singular[0]),
        q=float(sigma**2 * weights.square().sum() / dim),
        theta_values=tuple(float(v) for v in singular),
    )
