"""The shape of a GPT and its parts; a plain record that is JSON on disk."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.parts.attention import Attention
from attnlab.parts.mask import Causal, Mask
from attnlab.parts.merge import Concat, Merge
from attnlab.parts.mlp import Gelu, Mlp, Swiglu
from attnlab.parts.norm import Layer, Norm, Rms
from attnlab.parts.normalise import Normalise, Softmax
from attnlab.parts.part import Dims, Part
from attnlab.parts.position import Learned, Position, Rotary
from attnlab.parts.project import Linear, Project

SIZES = {"nano": (3, 3, 48), "micro": (4, 4, 128), "mini": (6, 6, 192)}  # layers, heads, width
SEAMS: dict[str, type[Part]] = {
    "project": Project,
    "position": Position,
    "mask": Mask,
    "normalise": Normalise,
    "merge": Merge,
    "norm": Norm,
    "mlp": Mlp,
}
NUMBERS = ("vocab", "block", "layers", "heads", "d_model", "mlp_ratio")
OPTIONAL = ("kv_heads", "d_head", "d_mlp")  # whole numbers too, or None
# fields that are written to JSON only where they differ from their default, so that a model stored
# before they existed keeps its JSON, and with it the id of its trial
OMITTED = ("norm", "mlp", *OPTIONAL)


@dataclass(frozen=True)
class GPTConfig:
    """Every default together, with a vocabulary of 50,257, is the smallest GPT-2 but for its size.

    `block` is the longest sequence; `tie` makes the output matrix the embedding itself; `bias` is
    that of every linear map and LayerNorm. None stands for what follows from the other sizes:
    `kv_heads` heads, `d_head` d_model / heads, `d_mlp` (units of the MLP) mlp_ratio · d_model.
    A Llama has position rotary, norm rms, mlp swiglu and no bias.
    """

    vocab: int
    block: int = 128
    layers: int = 3
    heads: int = 3
    d_model: int = 48
    project: Project.Config = field(default_factory=Linear.Config)
    position: Position.Config = field(default_factory=Learned.Config)
    mask: Mask.Config = field(default_factory=Causal.Config)
    normalise: Normalise.Config = field(default_factory=Softmax.Config)
    merge: Merge.Config = field(default_factory=Concat.Config)
    tie: bool = True
    bias: bool = True
    mlp_ratio: int = 4
    norm_eps: float = 1e-5
    norm: Norm.Config = field(default_factory=Layer.Config)
    mlp: Mlp.Config = field(default_factory=Gelu.Config)
    kv_heads: int | None = None
    d_head: int | None = None
    d_mlp: int | None = None

    def __post_init__(self) -> None:
        _check_values({f.name: getattr(self, f.name) for f in fields(self)})
        _ = self.dims  # heads must divide the width

    @staticmethod
    def named(size: str, *, vocab: int, **changes: Any) -> "GPTConfig":
        """`nano`, `micro` or `mini`, with whatever is changed."""
        if size not in SIZES:
            raise UsageError(f"unknown size {size!r}: {suggest(size, SIZES)}")
        layers, heads, width = SIZES[size]
        base = GPTConfig(vocab, layers=layers, heads=heads, d_model=width)
        _check_known(changes)
        return replace(base, **changes)

    @property
    def dims(self) -> Dims:
        """The sizes that parts need."""
        d_head = self.d_head or Dims.of(self.d_model, self.heads, self.block).d_head
        kv_heads, d_mlp = self.kv_heads or self.heads, self.d_mlp or self.mlp_ratio * self.d_model
        sizes = (self.d_model, self.heads, d_head, self.block, self.bias)
        return Dims(*sizes, kv_heads=kv_heads, d_mlp=d_mlp, norm_eps=self.norm_eps)

    @property
    def attention(self) -> Attention.Config:
        """The parts of one layer."""
        return Attention.Config(
            project=self.project, mask=self.mask, normalise=self.normalise, merge=self.merge
        )

    @property
    def is_gpt2(self) -> bool:
        """Whether this is the model that Hugging Face calls gpt2."""
        dims = self.dims
        plain = dims.kv_heads == dims.heads and dims.heads * dims.d_head == dims.d_model
        return self.bias and plain and self._has_parts(GPTConfig(self.vocab))

    @property
    def is_llama(self) -> bool:
        """Whether this is a model that Hugging Face calls llama."""
        return self._has_parts(
            GPTConfig(self.vocab, position=self.position, norm=Rms.Config(), mlp=Swiglu.Config())
        ) and isinstance(self.position, Rotary.Config)

    def _has_parts(self, other: "GPTConfig") -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in SEAMS)

    def to_json(self) -> dict[str, Any]:
        """Plain values, parts by name; `from_json` reads it back."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        usual = GPTConfig(self.vocab)
        for name in OMITTED:
            if values[name] == getattr(usual, name):
                del values[name]
        return values | {name: values[name].to_json() for name in SEAMS if name in values}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "GPTConfig":
        """What `to_json` wrote; unknown names and wrong values raise one line."""
        _check_known(values)
        if "vocab" not in values:
            raise UsageError("a GPT needs the setting 'vocab'")
        parts: dict[str, Any] = {}
        for name in SEAMS.keys() & values.keys():
            if not isinstance(values[name], Mapping):
                raise UsageError(f"setting {name!r}: a part by name, got {values[name]!r}")
            parts[name] = SEAMS[name].config_from_json(values[name])
        given = {**values, **parts}
        _check_values(given)
        return GPTConfig(**given)


def _check_known(keys: Iterable[str]) -> None:
    known = [f.name for f in fields(GPTConfig)]
    for key in keys:
        if key not in known:
            raise UsageError(f"unknown setting {key!r}: {suggest(key, known)}")


def _check_values(values: Mapping[str, Any]) -> None:
    """Strict: 1 is no flag, true no number, "5" neither."""
    for name, value in values.items():
        if name in NUMBERS or (name in OPTIONAL and value is not None):
            fits, rule = type(value) is int and value >= 1, "a whole number from 1"
        elif name in SEAMS:
            seam = SEAMS[name]
            fits, rule = isinstance(value, seam.Config), f"the Config of a {seam.__name__}"
        elif name in OPTIONAL:
            continue
        elif name == "norm_eps":
            fits, rule = type(value) is float and 0 < value < 1, "a number between 0 and 1"
        else:
            fits, rule = type(value) is bool, "true or false"
        if not fits:
            raise UsageError(f"setting {name!r}: must be {rule}, got {value!r}")
