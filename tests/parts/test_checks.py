"""The shared checks see what they are for: planted faults turn them red, a new variant green."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from attnlab.parts.initialise import normal
from attnlab.parts.mask import Mask
from attnlab.parts.merge import Merge
from attnlab.parts.normalise import Normalise
from attnlab.parts.part import Dims, Part, PositionIds
from attnlab.parts.position import Position
from attnlab.parts.project import Linear
from tests.parts.cases import SEAMS, Case, configurations
from tests.parts.registry import every_check


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    """Variants made here leave with the test."""
    before = {seam: dict(seam.variants) for seam in SEAMS}
    yield
    for seam, variants in before.items():
        seam.variants.clear()
        seam.variants.update(variants)


def red(case: Case) -> set[str]:
    """The checks that fail."""
    found = set()
    for name, function in every_check().items():
        try:
            function(case)
        except (AssertionError, RuntimeError):  # a fault may also stop torch itself
            found.add(name)
    return found


def test_a_new_position_is_checked_without_a_test_of_its_own() -> None:
    """A learned bias by distance: no formula in tests/reference, all checks apply."""

    class Bias(Position, name="bias"):
        additive: ClassVar[bool] = True

        @dataclass(frozen=True, kw_only=True)
        class Config(Position.Config):
            sign: bool = True

        def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
            super().__init__(config, dims, generator)
            self.by_distance = normal((2 * dims.block, dims.heads), 0.5, generator)
            self.sign = 1 if config.sign else -1

        def on_scores(self, scores: Tensor, position_ids: PositionIds) -> Tensor:
            distance = position_ids.query[:, :, None] - position_ids.key[:, None, :]
            added = self.by_distance[distance + len(self.by_distance) // 2]
            return scores + self.sign * added.movedim(-1, 1)

    found = list(configurations(Position.variants["bias"]))
    assert [config.to_json()["sign"] for config in found] == [True, False]
    for config in found:
        assert red(Case(config)) == set()


class Faults:
    """Parts that are wrong in one way, and the checks that must see it."""

    @staticmethod
    def looks_ahead() -> type[Part]:
        class Ahead(Mask, name="ahead"):
            causal = True

            def forward(self, query: Tensor, key: Tensor) -> Tensor:
                return key <= query + 1

        return Ahead

    @staticmethod
    def says_triangle() -> type[Part]:
        class Strict(Mask, name="strict"):
            triangular = causal = True

            def forward(self, query: Tensor, key: Tensor) -> Tensor:
                return (key < query) | (key == 0)

        return Strict

    @staticmethod
    def not_a_number() -> type[Part]:
        class Careless(Normalise, name="careless"):
            def forward(self, scores: Tensor, allowed: Tensor) -> Tensor:
                return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)

        return Careless

    @staticmethod
    def reads_neighbours() -> type[Part]:
        class Crowd(Normalise, name="crowd"):
            def forward(self, scores: Tensor, allowed: Tensor) -> Tensor:
                centred = scores - scores.mean(dim=0, keepdim=True)
                weights = centred.masked_fill(~allowed, -1e300).softmax(dim=-1)
                return weights.masked_fill(~allowed, 0)

        return Crowd

    @staticmethod
    def says_additive() -> type[Part]:
        class Stretch(Position, name="stretch"):
            additive = True

            def on_scores(self, scores: Tensor, position_ids: PositionIds) -> Tensor:
                return 2 * scores + 1

        return Stretch

    @staticmethod
    def counts_from_the_query() -> type[Part]:
        class Index(Position, name="index"):
            def on_scores(self, scores: Tensor, position_ids: PositionIds) -> Tensor:
                return scores + torch.arange(scores.shape[-1])  # the index, not the place

        return Index

    @staticmethod
    def idle_parameter() -> type[Part]:
        class Idle(Position, name="idle"):
            def __init__(self, config: Any, dims: Dims, generator: torch.Generator) -> None:
                super().__init__(config, dims, generator)
                self.unused = normal((dims.d_model,), 1.0, generator)

        return Idle

    @staticmethod
    def stays_behind() -> type[Part]:
        class Behind(Position, name="behind"):
            def __init__(self, config: Any, dims: Dims, generator: torch.Generator) -> None:
                super().__init__(config, dims, generator)
                self.waves = torch.ones(dims.d_model)  # neither buffer nor parameter

            def on_embeddings(self, x: Tensor, position_ids: Tensor) -> Tensor:
                return x + self.waves

        return Behind

    @staticmethod
    def global_start() -> type[Part]:
        class Global(Linear, name="global"):
            def __init__(self, config: Any, dims: Dims, generator: torch.Generator) -> None:
                super().__init__(config, dims, generator)
                self.qkv = nn.Linear(dims.d_model, 3 * self.inner)

        return Global

    @staticmethod
    def forgets() -> type[Part]:
        class Forgets(Merge, name="forgets"):
            def __init__(self, config: Any, dims: Dims, generator: torch.Generator) -> None:
                super().__init__(config, dims, generator)
                self.gain = torch.rand((), generator=generator, dtype=torch.float64).item()

            def arrange(self, heads: Tensor) -> Tensor:
                return heads * self.gain

        return Forgets

    @staticmethod
    def says_per_position() -> type[Part]:
        class Past(Merge, name="past"):
            per_position = True

            def arrange(self, heads: Tensor) -> Tensor:
                return heads.cumsum(dim=2)

        return Past


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("looks_ahead", {"causality", "cached", "padding"}),
        ("says_triangle", {"fast"}),
        ("not_a_number", {"nothing-to-see"}),
        ("reads_neighbours", {"batch-independence", "definition"}),
        ("says_additive", {"additive", "fast"}),
        ("counts_from_the_query", {"definition", "device"}),
        ("idle_parameter", {"gradient"}),
        ("stays_behind", {"device", "dtype", "loading"}),
        ("global_start", {"seed"}),
        ("forgets", {"state"}),
        ("says_per_position", {"cached"}),
    ],
)
def test_a_planted_fault_is_seen(fault: str, seen: set[str]) -> None:
    case = Case(getattr(Faults, fault)().Config())
    assert seen <= red(case)


def test_a_field_that_no_example_fits_is_named() -> None:
    class Odd(Position, name="odd"):
        @dataclass(frozen=True, kw_only=True)
        class Config(Position.Config):
            words: tuple[str, ...]

    with pytest.raises(TypeError, match="give a Config field"):
        list(configurations(Odd))
