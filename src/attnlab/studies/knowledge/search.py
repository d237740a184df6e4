"""A Perceiver's own learning rate: the one at which a short pretraining ends with the lowest loss.

The text is there to be memorised, so no part of it is held out; nor is a test question looked at.
A choice at the edge of the grid is no choice: the grid grows there, up to WIDER times. Too short a
pretraining favours large rates: at the quick scale 0.009 is ahead of 0.003 after 250 and 500 steps
(1.43 against 1.52, 1.14 against 1.22) and behind it after 1,000 and 2,000 (0.99 and 0.98, 0.90 and
0.86; one seed of perceiver-local).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.measure.grid_search import GrowingGrid

WIDER = 3  # further rates at most
STEP = math.sqrt(10)  # from one rate to the next beyond the grid


@dataclass(frozen=True)
class Searched:
    """The loss at every rate tried; infinite where training diverged."""

    losses: Mapping[float, float]

    @property
    def rate(self) -> float:
        """The rate of the lowest loss; the smallest of several."""
        return min(sorted(self.losses), key=self.losses.__getitem__)

    def metrics(self) -> dict[str, Any]:
        """The choice and what it was chosen from."""
        return {"rate": self.rate, "rates_tried": "; ".join(f"{r:g}" for r in sorted(self.losses))}

    def curves(self) -> dict[str, list[float]]:
        """The loss against the rate, for rates at which training did not diverge."""
        rates = [rate for rate in sorted(self.losses) if math.isfinite(self.losses[rate])]
        return {"search_rate": rates, "search_loss": [self.losses[rate] for rate in rates]}


def search_rate(loss_at: Callable[[float], float], rates: Sequence[float]) -> Searched:
    """Try all rates, then further ones while the best lies at an edge; one rate is not tried."""
    if len(rates) == 1:
        return Searched({rates[0]: math.nan})
    losses = {rate: loss_at(rate) for rate in rates}
    found, grid = Searched(losses), GrowingGrid(set(rates), STEP, WIDER)
    while (rate := grid.beyond([found.rate])) is not None:
        losses[rate] = loss_at(rate)
    return found
