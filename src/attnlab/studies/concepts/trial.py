"""One trial is one part with one seed."""

from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.concepts import adaptation, foreign_ids, masking, merges, order, pairs
from attnlab.studies.concepts.study import Concepts
from attnlab.studies.concepts.training_loop import measure_step

MEASUREMENTS = {
    "pair": pairs.read_pairs,
    "ids": foreign_ids.read_foreign_ids,
    "masking": masking.mask_sentences,
    "merges": merges.compare_merges,
}


def run(study: Concepts, trial: Trial, context: TrialContext) -> Outcome:
    """The part that the trial names."""
    part, s = trial.config["part"], study.settings_of(trial)
    if part == "anew":
        return adaptation.compare_starts(s, trial, context)
    if part == "order":
        return order.compare_orders(s, trial.stream, context)
    if part == "loop":
        return measure_step(trial.stream)
    return MEASUREMENTS[part](s, trial.stream)
