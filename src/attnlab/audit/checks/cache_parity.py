"""cache-parity: does decoding with the cache give the logits of one forward pass?

Runs: the same text whole; token by token through the model's cache; in two pieces; in three.
Number: the largest difference of a logit. Fails above ten times the model's own noise. Generated
tokens may still differ where two logits are nearly equal: that is not a fault.
"""

import torch
from torch import Tensor

from attnlab.audit.finding import CannotJudge, Finding, audit, describe_error
from attnlab.audit.probing.noise import movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import cache, repeatable
from attnlab.audit.probing.subject import Subject

NAME = "cache-parity"


@audit(
    NAME, question="Do logits through the cache equal those of one pass?", needs=(cache, repeatable)
)
def cache_parity(subject: Subject, probe: Probe) -> Finding:
    """Judge a causal language model that has a cache."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    limit = noise.position_threshold
    ids = probe.rows(fine, rows=2)
    whole = fine.logits(ids)
    differences_at: dict[str, tuple[float, int]] = {}
    not_run: dict[str, str] = {}
    for words, sizes in _ways(ids.shape[1]).items():
        try:
            gap = movement(whole, _decode(fine, ids, sizes))
            differences_at[words] = float(gap.max()), int(gap.amax(dim=0).argmax())
        except Exception as error:  # anyone's cache: some take one token at a time
            not_run[words] = describe_error(error)
    if not differences_at:
        raise CannotJudge(f"its cache cannot be used: {next(iter(not_run.values()))}")
    worst = max(differences_at, key=lambda name: differences_at[name][0])
    size, position = differences_at[worst]
    differences = {k: v[0] for k, v in differences_at.items()}
    evidence = {**noise.evidence(), "differences": differences, "not_run": not_run}
    if size <= limit:
        why = "with its cache the model gives the same logits as without"
        why += f"; it could not be read {' or '.join(not_run)}" if not_run else ""
        return Finding(NAME, "pass", size, limit, why, evidence)
    bad = [name for name, (value, _) in differences_at.items() if value > limit]
    size, position = differences_at[bad[0]]
    why = (
        f"read {bad[0]} through the cache, the logits at position {position} differ by {size:.2g} "
        f"from those of one forward pass: {_cause(fine, ids, limit, bad)}"
    )
    return Finding(
        NAME, "fail", differences_at[worst][0], limit, why, {**evidence, "position": position}
    )


def _ways(length: int) -> dict[str, list[int]]:
    third = max(1, length // 3)
    return {
        "token by token": [1] * length,
        "in two pieces": [length // 2, length - length // 2],
        "in three pieces": [third, third, length - 2 * third],
    }


def _decode(subject: Subject, ids: Tensor, sizes: list[int]) -> Tensor:
    assert subject.cache is not None
    with torch.no_grad(), subject.mode(training=False):
        return torch.cat(list(subject.cache(list(ids.split(sizes, dim=1)))), dim=1)


def _cause(subject: Subject, ids: Tensor, threshold: float, bad: list[str]) -> str:
    """Whether decoding looks ahead inside a piece, ignores the cache, or counts wrongly."""
    steps, two, _ = _ways(ids.shape[1])
    if two in bad and _looks_ahead(subject, ids, threshold):
        return "inside a piece it looks ahead"
    if steps not in bad:
        return "single tokens are right, but a longer piece does not continue from the cache"
    return "the cache, or the positions counted from it, is wrong"


def _looks_ahead(subject: Subject, ids: Tensor, threshold: float) -> bool:
    """Whether the last token of a piece changes logits before it."""
    sizes = [ids.shape[1] // 2, ids.shape[1] - ids.shape[1] // 2]
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % subject.vocabulary
    gap = movement(_decode(subject, ids, sizes), _decode(subject, other, sizes))[:, :-1]
    return float(gap.max()) > threshold
