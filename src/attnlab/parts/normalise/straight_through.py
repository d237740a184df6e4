"""Forward the argmax, backward the softmax (Bengio, Léonard, Courville 2013)."""

from attnlab.parts.normalise.base import Allowed, Normalise, Scores, one_hot, soft


class StraightThrough(Normalise, name="straight-through"):
    """Hard attention that learns: d weights / d scores is taken from the softmax."""

    def forward(self, scores: Scores, allowed: Allowed) -> Scores:
        """one_hot + (softmax − softmax held fixed): the bracket is exactly 0, its slope is not."""
        weights = soft(scores, allowed)
        return one_hot(scores, allowed) + (weights - weights.detach())
