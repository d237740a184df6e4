"""j = i: every position sees itself alone. This is the arm "attention switched off".

The values and the output map stay, so the parameters are those of the other arms; queries and keys
have no effect, since the one weight is 1.

    query 0   x . . .
    query 1   . x . .
    query 2   . . x .
    query 3   . . . x
"""

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions


class OnlySelf(Mask, name="self"):
    """The diagonal."""

    causal = True

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """j = i."""
        return key == query

    def expected_failed_checks(self) -> dict[str, str]:
        """Queries and keys are idle by design."""
        return {"gradient": "the one weight of a query is 1, whatever its score"}
