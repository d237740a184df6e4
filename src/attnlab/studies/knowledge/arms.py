"""The arms: what each changes in the plain one (pretrain, then fine-tune a GPT with learned
positions), and their trials. All arms have the same worlds, so that seeds are paired."""

from typing import Any

import numpy as np

from attnlab.lab.arms import Arms, Count, Share
from attnlab.measure.calibration import Bin, calibration_bins
from attnlab.measure.intervals import Estimate
from attnlab.measure.shares import share_interval

READS = {
    "perceiver-course": "course",
    "perceiver-wide-6": "course",
    "perceiver-weights-6": "course",
    "perceiver-local": "block+local",
}
BLIND = tuple(arm for arm, reads in READS.items() if reads == "course")
LABELS = {
    "none": "no pretraining",
    "pretrained": "pretrained",
    "one-phrasing": "pretrained, one sentence per person",
    "perceiver-course": "Perceiver, the course's mask",
    "perceiver-wide-6": "Perceiver, the course's mask, up-projection's MLP 6 times the width",
    "perceiver-weights-6": "Perceiver, the course's mask, up-projection's weights 6 times as large",
    "perceiver-local": "Perceiver, block-causal and local",
    "rotary": "pretrained, rotary positions",
    "course-schedule": "pretrained, the course's schedule",
}
# A report scaled "the embedding parameters" of the up-projection by 6 and says that scaling linear
# layers helps. That is the width of its MLP (6 · embedding width instead of 4 ·) or the weights.
SIX = 6
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
        "up_ratio": SIX if arm == "perceiver-wide-6" else None,
        "up_scale": float(SIX) if arm == "perceiver-weights-6" else 1.0,
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
        return share_interval(self.asked(arm, kind), same_items=self._same)

    def judged(self, arm: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Confidence in the answers about read people, and whether they are right, by seed."""
        names = ("read_confidence", "read_right")
        return list(zip(*(self.arrays(arm, name) for name in names), strict=True))

    def calibration(self, arm: str) -> tuple[Bin, ...]:
        """Accuracy by confidence; the intervals cover other seeds and other people."""
        judged = self.judged(arm)
        return calibration_bins(judged, same_items=self._same) if judged else ()

    def searches(self, arm: str) -> list[tuple[str, float, tuple[float, ...]]]:
        """The learning rate that each trial of a Perceiver chose, and those that it tried."""
        return [
            (row.id, float(row["rate"]), tuple(map(float, str(row["rates_tried"]).split("; "))))
            for row in self.rows(arm)
            if row.get("rate")
        ]

    @property
    def _same(self) -> bool:
        return self.shares["read_accuracy"].same

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
