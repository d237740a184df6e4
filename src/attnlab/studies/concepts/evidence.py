"""The trials of a run by part, and those of "anew" by target text."""

import json
from typing import Any

from attnlab.lab.arms import Arms, Share
from attnlab.lab.table import Row
from attnlab.measure.intervals import Estimate
from attnlab.measure.shares import share_interval

TARGETS = {"law": "court cases", "plays": "Shakespeare's plays", "records": "rows of a table"}
LABELS = {
    "pair": "pairs of texts",
    "loop": "a training step",
    "order": "order of the training data",
    "merges": "BPE merges",
    "masking": "masked language modelling",
    "ids": "ids of another tokenizer",
    **TARGETS,
}


SHARES = {
    "shuffled_accuracy": Share("tested"),
    "sorted_accuracy": Share("tested"),
    "shuffled": Share(),  # curves
    "sorted": Share(),
}


class Evidence(Arms):
    """Arms are parts and targets; counts are summed over seeds."""

    def rows(self, arm: str) -> list[Row]:
        """One row per seed of a part or of a target, sorted by seed."""
        columns = {"part": "anew", "target": arm} if arm in TARGETS else {"part": arm}
        return sorted(self.table.where(**columns), key=lambda row: row.seed)

    def total(self, arm: str, metric: str) -> int:
        """A count summed over seeds."""
        return sum(int(row[metric]) for row in self.rows(arm))

    def share(self, arm: str, count: str, of: str) -> Estimate:
        """A share of all items; the interval covers other seeds and other items."""
        return share_interval([(int(row[count]), int(row[of])) for row in self.rows(arm)])

    def document(self, arm: str, name: str) -> Any:
        """A JSON document of the first seed that has it, else None."""
        documents = (row.documents for row in self.rows(arm))
        return next((json.loads(texts[name]) for texts in documents if name in texts), None)
