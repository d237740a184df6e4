"""weights_ij = exp(s_ij) / sum over allowed j' of exp(s_ij')."""

from attnlab.parts.normalise.base import Allowed, Normalise, Scores, soft


class Softmax(Normalise, name="softmax"):
    """The usual one."""

    fused = True

    def forward(self, scores: Scores, allowed: Allowed) -> Scores:
        """Rows sum to 1, or to 0 where nothing is allowed."""
        return soft(scores, allowed)
