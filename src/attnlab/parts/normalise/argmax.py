"""weights = 1 at the highest allowed score (the first of equals), 0 elsewhere."""

from attnlab.parts.normalise.base import Allowed, Normalise, Scores, one_hot


class Argmax(Normalise, name="argmax"):
    """Hard attention. The scores get no gradient: queries and keys do not learn."""

    def forward(self, scores: Scores, allowed: Allowed) -> Scores:
        """One 1 a row, or none where nothing is allowed."""
        return one_hot(scores, allowed)

    def expected_failed_checks(self) -> dict[str, str]:
        """No gradient passes the choice of the highest score."""
        return {"gradient": "the highest score is chosen: no gradient reaches queries and keys"}
