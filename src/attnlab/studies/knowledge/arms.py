"""What each arm changes in the plain one: pretrain, then fine-tune a GPT with learned positions."""

from typing import Any

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
