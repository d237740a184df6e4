"""One trial is one part with one seed."""

from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.concepts import adaptation, encoding, merges, training
from attnlab.studies.concepts.study import Concepts

MEASUREMENTS = {
    "pair": encoding.read_pairs,
    "ids": adaptation.read_foreign_ids,
    "masking": encoding.mask_sentences,
    "merges": merges.compare_merges,
}


def run(study: Concepts, trial: Trial, context: TrialContext) -> Outcome:
    """The part that the trial names."""
    part, s = trial.config["part"], study.settings_of(trial)
    if part == "anew":
        return adaptation.compare_starts(s, trial, context)
    if part == "order":
        return training.compare_orders(s, trial.stream, context)
    if part == "loop":
        return training.measure_step(trial.stream)
    return MEASUREMENTS[part](s, trial.stream)
