"""What every part of attention is: a module with a frozen Config, filed under its seam by name.

    class Position(Part): ...                  # a seam: a folder, a base class, a table `variants`
    class Alibi(Position, name="alibi"): ...   # a variant: one file, one line in __init__.py

In Python one writes `Alibi.Config(base=4.0)`; the word "alibi" is for JSON and the command line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast, get_type_hints

import torch
from jaxtyping import Bool, Float, Int
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError

P = TypeVar("P", bound="Part")
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
Count = Annotated[int, Field(ge=1)]
QueryRows = Float[Tensor, "batch query d_model"]
KeyRows = Float[Tensor, "batch key d_model"]
Query = Float[Tensor, "batch head query d_head"]
Key = Float[Tensor, "batch kv_head key d_head"]
Scores = Float[Tensor, "batch head query key"]
Padding = Bool[Tensor, "batch key"] | None  # True: padding, a key nobody may look at


@dataclass(frozen=True)
class Dims:
    """The sizes every part may need; `block` is the longest sequence the model is made for.

    With fewer `kv_heads` than heads (grouped-query attention, Ainslie et al. 2023), consecutive
    query heads share one head of keys and values; one of them for all is multi-query attention.
    """

    d_model: int
    heads: int
    d_head: int
    block: int
    bias: bool = True  # whether the linear maps have one
    kv_heads: int = 0  # heads of keys and values; 0: as many as `heads`
    d_mlp: int = 0  # hidden width of the MLP; 0: 4 · d_model
    norm_eps: float = 1e-5  # what norms add to a variance

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "d_mlp", self.d_mlp or 4 * self.d_model)
        for name in ("d_model", "heads", "d_head", "block", "kv_heads", "d_mlp"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise UsageError(f"{self.heads} heads cannot share {self.kv_heads} kv_heads evenly")

    @staticmethod
    def of(d_model: int, heads: int, block: int, bias: bool = True) -> "Dims":
        """d_head = d_model / heads, which must be a whole number."""
        if heads < 1 or d_model % heads:
            raise UsageError(f"d_model {d_model} cannot be divided among {heads} heads")
        return Dims(d_model, heads, d_model // heads, block, bias)


@dataclass(frozen=True)
class PositionIds:
    """Positions of queries and keys: 0, 1, 2 … unless a cache or left padding moves them."""

    query: Int[Tensor, "#batch query"]
    key: Int[Tensor, "#batch key"]
    plain: bool = False  # known to be 0, 1, 2 … in every row
    newest: bool = False  # known to be one query at the last of all keys
    # what parts have computed from these positions, so that layers after the first need not
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(q: Query, k: Key) -> "PositionIds":
        """Queries and keys both start at 0."""
        ids = torch.arange(max(q.shape[2], k.shape[2]), device=q.device)[None]
        return PositionIds(ids[:, : q.shape[2]], ids[:, : k.shape[2]], plain=True)

    @staticmethod
    def after(key_padding_mask: Bool[Tensor, "batch key"]) -> "PositionIds":
        """The first real token of a row is at 0; padding to its left at −1, seeing nothing."""
        ids = (~key_padding_mask).cumsum(dim=1) - 1
        return PositionIds(ids, ids)


class Part(nn.Module):
    """A variant of one seam. Subclasses of Part are seams; subclasses of a seam are variants."""

    variants: ClassVar[dict[str, type["Part"]]]
    seam: ClassVar[str]
    name: ClassVar[str]
    leaks: ClassVar[str | None] = None  # why the variant is not causal although it may be asked

    @dataclass(frozen=True, kw_only=True)
    class Config(Generic[P]):
        """A variant's own settings; values are checked against the annotations, strictly."""

        part: ClassVar[type["Part"]]

        def __post_init__(self) -> None:
            given = {field.name: getattr(self, field.name) for field in fields(self)}
            for name, value in _validate(type(self), given).items():
                object.__setattr__(self, name, value)

        def build(self, dims: Dims, generator: torch.Generator) -> P:
            """The part, its parameters drawn from the generator."""
            return cast("P", self.part(self, dims, generator))

        def to_json(self) -> dict[str, Any]:
            """{"name": …, and every field}; `config_from_json` of the seam reads it back."""
            values = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
            return {"name": self.part.name, **values}

    def __init__(self, config: Config[Any], dims: Dims, generator: torch.Generator) -> None:
        del dims, generator  # a variant takes what it needs
        super().__init__()
        self.config = config

    def __init_subclass__(
        cls, name: str | None = None, abstract: bool = False, **rest: object
    ) -> None:
        """File a variant under its seam, tie its Config to it; refuse a clash or a mutable one.

        `abstract`: what several variants share, not a variant itself.
        """
        super().__init_subclass__(**rest)
        if abstract:
            return
        if Part in cls.__bases__:
            cls.seam, cls.variants = cls.__name__.lower(), {}
            return
        if name is None or name in cls.variants:
            raise TypeError(f"{cls.__name__}: {cls.seam} {name!r} needs a name of its own")
        if "Config" not in vars(cls):
            plain = type("Config", (cls.Config,), {"__module__": cls.__module__})
            cls.Config = dataclass(frozen=True, kw_only=True)(plain)
        config: Any = cls.Config
        frozen = "__dataclass_params__" in vars(config) and config.__dataclass_params__.frozen
        if not frozen or not all(field.kw_only for field in fields(config)):
            raise TypeError(f"{cls.__name__}.Config must be a frozen, keyword-only dataclass")
        cls.name, config.part = name, cls
        config.__qualname__ = f"{cls.__qualname__}.Config"
        cls.variants[name] = cls

    @classmethod
    def config_from_json(cls, values: Mapping[str, Any]) -> "Config[Any]":
        """The Config written by `to_json`; an unknown name or field raises with the nearest one."""
        name = values.get("name")
        if not isinstance(name, str) or name not in cls.variants:
            raise UsageError(f"unknown {cls.seam} {name!r}: {suggest(str(name), cls.variants)}")
        config = cls.variants[name].Config
        known = {field.name for field in fields(config)}
        for key in values.keys() - known - {"name"}:
            raise UsageError(f"{name} has no setting {key!r}: {suggest(key, known)}")
        given = {key: cls._from_plain(values[key]) for key in values.keys() & known}
        try:
            return config(**_validate(config, given))
        except TypeError as error:  # a field without default was left out
            raise UsageError(f"{cls.seam} {name!r}: {error}") from None

    @classmethod
    def _from_plain(cls, value: Any) -> Any:
        """Lists are tuples; a mapping is the config of a part of the same seam."""
        if isinstance(value, list | tuple):
            return tuple(cls._from_plain(item) for item in value)
        return cls.config_from_json(value) if isinstance(value, Mapping) else value

    def expected_failed_checks(self) -> dict[str, str]:
        """Shared checks this part must fail, and why; a test proves that it does."""
        return {"causality": self.leaks} if self.leaks else {}


def _validate(config: type[Part.Config[Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values checked against the fields' annotations; a UsageError names the wrong setting."""
    rules, values = _rules(config), {}
    for name, value in given.items():
        try:
            values[name] = rules[name].validate_python(value)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            where = f"{config.part.name}.{name}"
            raise UsageError(f"setting {where!r}: {reason} (got {value!r})") from None
    return values


@cache
def _rules(config: type[Any]) -> dict[str, Any]:
    """What each field of a Config accepts: strict, finite."""
    hints = get_type_hints(config, include_extras=True)
    return {field.name: TypeAdapter(hints[field.name], config=STRICT) for field in fields(config)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_json() if isinstance(value, Part.Config) else value
