"""Every variant of every seam, in each of its ways, with usual parts in the other seams.

The ways are read from the Config: every word of a Literal, both values of a bool, 2 for a number
that has no default. So a new variant has its cases the moment it is imported.
"""

import copy
import types
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from attnlab.core.config import canonical_json
from attnlab.core.seeds import Seed
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.mask import Causal, Full, Mask, Prefix, Window
from attnlab.parts.merge import Concat, Merge
from attnlab.parts.mlp import Mlp
from attnlab.parts.norm import Norm
from attnlab.parts.normalise import Normalise, Softmax
from attnlab.parts.part import Dims, Part, PositionIds
from attnlab.parts.position import Alibi, Position, Rotary
from attnlab.parts.project import Linear, Project

SEAMS: tuple[type[Part], ...] = (Project, Position, Mask, Normalise, Merge, Norm, Mlp)
# All sizes differ, so that swapped axes cannot pass; d_head is even for the rotations.
BATCH, LENGTH, DIMS = 2, 5, Dims(d_model=7, heads=3, d_head=10, block=11, d_mlp=13)
GROUPED = replace(DIMS, heads=6, kv_heads=2)
USUAL: dict[str, Part.Config[Any]] = {
    "project": Linear.Config(),
    "position": Rotary.Config(),
    "mask": Causal.Config(),
    "normalise": Softmax.Config(),
    "merge": Concat.Config(),
}
SIDES: dict[str, list[tuple[Mask.Config, ...]]] = {
    "and": [(Causal.Config(), Prefix.Config(length=3)), (Full.Config(), Window.Config(size=2))],
    "or": [
        (Window.Config(size=2), Prefix.Config(length=3)),
        (Causal.Config(), Window.Config(size=3)),
    ],
}


@dataclass(frozen=True)
class Case:
    """One Config to check; `attention` is a layer with it."""

    config: Part.Config[Any]
    dims: Dims = DIMS

    def __str__(self) -> str:
        values = self.config.to_json()
        values.pop("name")
        grouped = "-grouped" if self.dims == GROUPED else ""
        return f"{self.config.part.seam}-{self.config.part.name}{canonical_json(values)}{grouped}"

    def attention(self, seed: int = 3, dtype: torch.dtype = torch.float64) -> Attention:
        """A layer whose parameters are large enough for every part to matter."""
        made = self.fresh(seed)
        generator = Seed(seed).child("large").torch_generator()
        for module in (made.position, made):
            for parameter in module.parameters():
                size = 1.5 / parameter.shape[-1] ** 0.5
                parameter.data.normal_(0, size, generator=generator)
            module.to(dtype)
        return made

    def fresh(self, seed: int = 3) -> Attention:
        """A layer as it is built; a norm or an MLP stands before its projection."""
        generator = Seed(seed).torch_generator()
        seam = self.config.part.seam
        before = self.config.build(self.dims, generator) if seam in ("norm", "mlp") else None
        parts = USUAL if before is not None else USUAL | {seam: self.config}
        parts = dict(parts)
        position = parts.pop("position").build(self.dims, generator)
        layer = Attention(Attention.Config(**parts), self.dims, position, generator)  # pyright: ignore[reportArgumentType]
        if before is not None:
            layer.project = After(before, layer.project)  # pyright: ignore[reportAttributeAccessIssue]
        return layer

    @staticmethod
    def part(attention: Attention, seam: str) -> Part:
        """The part of a layer in this seam."""
        project = attention.project
        return project.before if isinstance(project, After) else getattr(attention, seam)

    def expected_failures(self) -> dict[str, str]:
        """What the variant declares beside its class; masks that look ahead say so by `causal`."""
        attention = self.fresh()
        declared = dict(self.part(attention, self.config.part.seam).expected_failed_checks())
        return declared | ({"causality": attention.leaks} if attention.leaks else {})


class After(nn.Module):
    """A projection of what a norm or an MLP makes of x: so that both meet the shared checks."""

    name, leaks = "after", None

    def __init__(self, before: Part, project: Project) -> None:
        super().__init__()
        self.before, self.project, self.heads = before, project, project.heads

    def forward(self, x_query: Tensor, x_key: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query = self.before(x_query)
        return self.project(query, query if x_key is x_query else self.before(x_key))


def cases() -> list[Case]:
    """Every variant in each of its ways; projections with shared keys too, where they can."""
    found = [
        Case(config)
        for seam in SEAMS
        for variant in seam.variants.values()
        for config in configurations(variant)
    ]
    grouped = [
        Case(config, GROUPED)
        for variant in Project.variants.values()
        if variant.grouped  # pyright: ignore[reportAttributeAccessIssue]
        for config in configurations(variant)
    ]
    return [*found, *grouped, Case(Alibi.Config(), GROUPED)]


def configurations(variant: type[Part]) -> Iterator[Part.Config[Any]]:
    """The Config with its defaults, and with each other value of each field that has few."""
    if variant.name in SIDES and variant.seam == "mask":
        for sides in SIDES[variant.name]:
            yield variant.Config(sides=sides)  # pyright: ignore[reportCallIssue]
        return
    hints = get_type_hints(variant.Config)
    values = {
        field.name: _values(hints[field.name], field.default) for field in fields(variant.Config)
    }
    first = {name: ways[0] for name, ways in values.items()}
    yield variant.Config(**first)
    for name, ways in values.items():
        for other in ways[1:]:
            yield variant.Config(**first | {name: other})


def _values(hint: Any, default: Any) -> list[Any]:
    """The default (or an example) first, then the other values worth a case."""
    if get_origin(hint) is Literal:
        known: list[Any] = list(get_args(hint))
    elif get_origin(hint) in (types.UnionType,):
        known = [None, *_values(get_args(hint)[0], MISSING)]
    else:
        known = {bool: [False, True], int: [2], float: [0.5]}.get(hint, [])
        if default is not MISSING and hint in (int, float):
            known = [2 * default]
    if default is MISSING and not known:
        raise TypeError(f"give a Config field of type {hint} a default, or an example here")
    return known if default is MISSING else [default, *(v for v in known if v != default)]


def rows(seed: int = 5, batch: int = BATCH, length: int = LENGTH) -> Tensor:
    """Inputs in fp64."""
    generator = Seed(seed).torch_generator()
    return torch.randn(batch, length, DIMS.d_model, generator=generator, dtype=torch.float64)


def plain(batch: int = BATCH, length: int = LENGTH) -> Tensor:
    """Positions 0, 1, 2 … of every row."""
    return torch.arange(length).expand(batch, length)


def place(attention: Attention, x: Tensor, at: Tensor | None = None) -> Tensor:
    """x with what the position does to embeddings."""
    return attention.position.on_embeddings(x, plain(*x.shape[:2])[:1] if at is None else at)


def run(
    attention: Attention,
    x: Tensor,
    padding: Tensor | None = None,
    position_ids: PositionIds | None = None,
) -> tuple[Tensor, Steps]:
    """forward and steps of two copies of a layer, so that a part that counts calls counts alike."""
    fast, slow = twin(attention), twin(attention)
    return fast(x, position_ids, padding), slow.steps(x, x, position_ids, padding)


def twin(attention: Attention) -> Attention:
    """A layer with the same parameters (the same tensors) and its own copy of every buffer."""
    memo = {id(p): p for module in (attention.position, attention) for p in module.parameters()}
    return copy.deepcopy(attention, memo)


def paddings() -> dict[str, tuple[Tensor, PositionIds | None]]:
    """Hidden keys of (BATCH, LENGTH), with the position_ids that go with them."""
    end, start, middle = (torch.zeros(BATCH, LENGTH, dtype=torch.bool) for _ in range(3))
    end[1, 3:] = True
    start[1, :2] = True
    middle[0, 1:3] = True
    middle[1, 0] = True
    return {
        "end": (end, None),
        "start": (start, PositionIds.after(start)),
        "middle": (middle, None),
    }
