"""The shape of a Perceiver: a GPT's settings, how many latents, and where they stand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.models.config import GPTConfig
from attnlab.parts.mask import Causal
from attnlab.parts.merge import Concat

Reads = Literal["course", "block", "block+local"]


@dataclass(frozen=True)
class PerceiverConfig:
    """`base` gives sizes and parts; its layers are counted with both projections.

    reads="course"       latent j stands at place j: the first `latents` places are read, no other
    reads="block"        latent j stands at the end of block j of ⌈base.block / latents⌉ places
    reads="block+local"  that, and one of the layers is attention inside one's own block

    Everyone reads what stands at its own place or before it.
    """

    base: GPTConfig
    latents: int = 32
    reads: Reads = "block+local"

    def __post_init__(self) -> None:
        if type(self.latents) is not int or self.latents < 1:
            raise UsageError(
                f"setting 'latents': must be a whole number from 1, got {self.latents!r}"
            )
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

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads it back. "latents" tells it from a GPT's."""
        return {**self.base.to_json(), "latents": self.latents, "reads": self.reads}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "PerceiverConfig":
        """What `to_json` wrote."""
        own = {name: values[name] for name in ("latents", "reads") if name in values}
        _check_reads(own.get("reads", "block"))
        base = GPTConfig.from_json({k: v for k, v in values.items() if k not in own})
        return PerceiverConfig(base, **own)


def _check_reads(word: Any) -> None:
    if word not in get_args(Reads):
        raise UsageError(f"reads {word!r}: {suggest(str(word), get_args(Reads))}")
