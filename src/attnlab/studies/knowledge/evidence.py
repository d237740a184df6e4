"""Arms of a run: the same worlds for every arm, so that seeds are paired."""

from attnlab.lab.arms import Arms
from attnlab.measure.intervals import Estimate, wilson


class KnowledgeArms(Arms):
    """Arms with shares of people, and the share of sentences that were completed."""

    def share(self, arm: str, kind: str) -> Estimate:
        """Right answers of all seeds together, with Wilson's interval over the people asked."""
        rows = [row for row in self.rows(arm) if row.get(f"{kind}_n")]
        counts = [(int(row[f"{kind}_right"]), int(row[f"{kind}_n"])) for row in rows]
        return wilson(sum(k for k, _ in counts), sum(n for _, n in counts))

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """Seed -> metric; `recalled` is the share of sentences completed."""
        if metric != "recalled":
            return super().values(arm, metric)
        rows = [row for row in self.rows(arm) if row.get("recalled_n")]
        return {row.seed: row["recalled_right"] / row["recalled_n"] for row in rows}
