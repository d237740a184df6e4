"""The learning rate of each step: a pure function, so that resuming needs no state for it."""

import math

from attnlab.training.settings import TrainSettings


def learning_rate(step: int, settings: TrainSettings) -> float:
    """peak · (step + 1) / w during w steps of warm-up, then peak · (f + (1 - f) · shape(p)).

    Steps count from 0, as batches do. p = (step - w) / (steps - w) is the progress: 0 just after
    the warm-up, 1 only when all steps are done, so that no step has learning rate 0.
    shape(p) is (1 + cos π·p) / 2 (cosine), 1 - p (linear) or 1 (constant); f is `final_fraction`.
    "unclamped" is peak · max(f, (1 + cos π·p) / 2) with p = 1 at `horizon` · steps, as in minGPT:
    in a run longer than its horizon the learning rate rises again, in a much shorter run it never
    decays. It is here to demonstrate that fault.
    """
    warmup = round(settings.warmup_fraction * settings.steps)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(settings.steps - warmup, 1)
    if settings.schedule == "unclamped":
        end = max(settings.horizon * settings.steps - warmup, 1)
        wave = (1 + math.cos(math.pi * (step - warmup) / end)) / 2
        return settings.learning_rate * max(settings.final_fraction, wave)
    if settings.schedule == "constant":
        return settings.learning_rate
    linear = settings.schedule == "linear"
    shape = 1 - progress if linear else (1 + math.cos(math.pi * progress)) / 2
    low = settings.final_fraction
    return settings.learning_rate * (low + (1 - low) * shape)
