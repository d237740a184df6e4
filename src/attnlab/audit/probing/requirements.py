"""What an audit may need of a model. Each gives the reason why a model lacks it, or None."""

from attnlab.audit.probing.noise import largest_movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.repeats import measure_repeats
from attnlab.audit.probing.subject import Subject
from attnlab.audit.registry import CannotJudge


def causal(subject: Subject, probe: Probe) -> str | None:
    """It claims to predict the next token at every position."""
    if not subject.per_position:
        return "it gives one answer a row, not one a position"
    return None if subject.causal else "it is not a causal language model"


def two_tokens(subject: Subject, probe: Probe) -> str | None:
    """Its vocabulary has a token that another can be replaced by."""
    return None if subject.vocabulary > 1 else "its vocabulary is a single token"


def repeatable(subject: Subject, probe: Probe) -> None:
    """Asked the same twice, it answers the same; else a comparison would blame something else."""
    if reason := not_repeatable(subject, probe):
        raise CannotJudge(reason)


def not_repeatable(subject: Subject, probe: Probe) -> str | None:
    """Why answers cannot be compared: random numbers, or state that cannot be restored."""
    finest = subject.finest()
    if "repeat movement" not in finest.memo:
        threshold = noise_of(finest, probe).threshold
        rows = probe.rows(finest, probe.short_length(finest))
        first = finest.logits(rows)
        finest.logits(probe.different_ids(rows, finest))
        size = largest_movement(first, finest.logits(rows))
        size = max(size, measure_repeats(subject, probe).random)
        finest.memo["repeat movement"] = size if size > threshold else 0.0
    size = finest.memo["repeat movement"]
    if not size:
        return None
    return (
        f"the model gives different outputs for the same input, by {size:.2g}, so nothing can be "
        "compared (see eval-determinism)"
    )


def padding_mask(subject: Subject, probe: Probe) -> str | None:
    """It takes a padding mask, and texts of more than one length."""
    if not subject.takes_mask:
        return "it takes no padding mask"
    if subject.context < 2 * subject.step:
        return "it reads texts of one length only, which leaves no room for padding"
    return None


def cache(subject: Subject, probe: Probe) -> str | None:
    """It is a causal language model that decodes with a cache."""
    if causal(subject, probe) or subject.finest().cache is None:
        return "it has no cache"
    return None


def module(subject: Subject, probe: Probe) -> str | None:
    """It is a module, whose weights can be seen and saved."""
    return "a function has no weights to save" if subject.module is None else None
