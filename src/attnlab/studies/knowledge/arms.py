"""The arms: what each changes in the plain one (pretrain, then fine-tune a GPT with learned
positions), and their trials. All arms have the same worlds, so that seeds are paired."""

from typing import Any

from attnlab.lab.arms import Arms, Count, Share
from attnlab.measure.intervals import Estimate
from attnlab.measure.shares import share_interval

READS = {"perceiver-course": "course", "perceiver-block": "block", "perceiver-local": "block+local"}
LABELS = {
    "none": "no pretraining",
    "pretrained": "pretrained",
    "one-phrasing": "pretrained, one sentence per person",
    "perceiver-course": "Perceiver, the course's mask",
    "perceiver-block": "Perceiver, block-causal",
    "perceiver-local": "Perceiver, block-causal and local",
    "rotary": "pretrained, rotary positions",
    "course-schedule": "pretrained, the course's schedule",
    "embeddings-6": "pretrained, embeddings 6 times as large",
}
SIX = 6.0  # a report found that embeddings so much larger help
# Of 650 epochs of reading the cosine has its end at 200 (of 128 tokens where 127 are counted), and
# of 10 epochs of fine-tuning at 200 as well
COURSE = {"reading": 200 * 128 / 127 / 650, "asked": 20.0}


def changes(arm: str) -> dict[str, Any]:
    """The settings of a trial that this arm overrides."""
    settings: dict[str, Any] = {
        "pretrain": arm != "none",
        "reads": READS.get(arm, ""),
        "position": "rotary" if arm == "rotary" else "learned",
        "schedule": "course" if arm == "course-schedule" else "fixed",
        "embedding_scale": SIX if arm == "embeddings-6" else 1.0,
    }
    return settings | ({"phrasings": 1} if arm == "one-phrasing" else {})


def schedule_of(schedule: str, phase: str) -> dict[str, Any]:
    """Settings of the training: the corrected schedule, or the course's unclamped one."""
    if schedule == "fixed":
        return {"schedule": "cosine"}
    return {"schedule": "unclamped", "horizon": COURSE[phase], "warmup_fraction": 0.0}


def shares_of(source: str) -> dict[str, Share]:
    """Metrics that are shares of people: another world for every seed, or the same files."""
    same = source == "files"
    return {
        "read_accuracy": Share("read_n", same),
        "recalled": Share("recalled_n", same),
        "surname_agreement": Share(),
        "surname_shuffled": Share(),
    }


class KnowledgeArms(Arms):
    """Arms with shares of people, and the share of sentences that were completed."""

    def share(self, arm: str, kind: str) -> Estimate:
        """The share of people answered; the interval covers other seeds and other people."""
        same = self.shares["read_accuracy"].same
        return share_interval(self.asked(arm, kind), same_items=same)

    def asked(self, arm: str, kind: str) -> list[Count]:
        """Right answers and people asked, of every seed that asked anybody."""
        rows = [row for row in self.rows(arm) if row.get(f"{kind}_n")]
        return [(int(row[f"{kind}_right"]), int(row[f"{kind}_n"])) for row in rows]

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """Seed -> metric; `recalled` is the share of sentences completed."""
        if metric != "recalled":
            return super().values(arm, metric)
        rows = [row for row in self.rows(arm) if row.get("recalled_n")]
        return {row.seed: row["recalled_right"] / row["recalled_n"] for row in rows}
