"""The shape of a Perceiver: a GPT's settings, how many latents, and where they stand."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.models.config import GPTConfig
from attnlab.parts.mask import Causal
from attnlab.parts.merge import Concat
from attnlab.parts.part import Dims

Reads = Literal["course", "block", "block+local"]


@dataclass(frozen=True)
class PerceiverConfig:
    """`base` gives sizes and parts; its layers are counted with both projections.

    reads="course"       latent j stands at place j: the first `latents` places are read, no other
    reads="block"        latent j stands at the end of block j of ⌈base.block / latents⌉ places
    reads="block+local"  that, and one of the layers is attention inside one's own block

    Everyone reads what stands at its own place or before it. `up_ratio` makes the MLP of the layer
    that reads back as many times as wide as the model; None: as wide as in the other layers.
    """

    base: GPTConfig
    latents: int = 32
    reads: Reads = "block+local"
    up_ratio: int | None = None

    def __post_init__(self) -> None:
        _check_positive("latents", self.latents)
        if self.up_ratio is not None:
            _check_positive("up_ratio", self.up_ratio)
        if self.latents > self.base.block:
            raise UsageError(
                f"{self.latents} latents for {self.base.block} positions: at most one each"
            )
        _check_reads(self.reads)
        if self.base.layers < 2 + self.local:
            raise UsageError(f"reads {self.reads!r} needs {2 + self.local} layers at least")
        if self.base.mask != Causal.Config() or self.base.merge != Concat.Config():
            raise UsageError("a Perceiver is causal by its `reads` and merges heads by 'concat'")

    @property
    def local(self) -> bool:
        """Whether a layer attends inside one's own block."""
        return self.reads == "block+local"

    @property
    def span(self) -> int:
        """Positions of a block, the last of which is its latent's; one in the course's way."""
        return 1 if self.reads == "course" else -(-self.base.block // self.latents)

    @property
    def up_dims(self) -> Dims:
        """The sizes of the layer that reads back."""
        dims = self.base.dims
        return dims if self.up_ratio is None else replace(dims, d_mlp=self.up_ratio * dims.d_model)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads it back. "latents" tells it from a GPT's."""
        wider = {} if self.up_ratio is None else {"up_ratio": self.up_ratio}
        return {**self.base.to_json(), "latents": self.latents, "reads": self.reads, **wider}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "PerceiverConfig":
        """What `to_json` wrote."""
        own = {name: values[name] for name in ("latents", "reads", "up_ratio") if name in values}
        _check_reads(own.get("reads", "block"))
        base = GPTConfig.from_json({k: v for k, v in values.items() if k not in own})
        return PerceiverConfig(base, **own)


def _check_positive(name: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise UsageError(f"setting {name!r}: must be a whole number from 1, got {value!r}")


def _check_reads(word: Any) -> None:
    if word not in get_args(Reads):
        raise UsageError(f"reads {word!r}: {suggest(str(word), get_args(Reads))}")
