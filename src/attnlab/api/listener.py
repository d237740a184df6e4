"""What `generate` tells while it runs; imports nothing, so that commands start quickly."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnlab.decode.generate import Generated
    from attnlab.decode.strategy import Strategy


class Listener:
    """Receives the texts while they are generated; override a method to print them, say."""

    def remark(self, text: str) -> None:
        """Called with a remark on how the model reads the prompt."""

    def begins(self, strategy: "Strategy") -> None:
        """Called before the texts of a strategy are generated."""

    def piece(self, text: str) -> None:
        """Called with each new piece of the strategy's first text."""

    def ends(self, texts: "Sequence[Generated]") -> None:
        """Called with all texts of the strategy."""
