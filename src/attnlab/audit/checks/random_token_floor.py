"""random-token-floor: does the model predict what cannot be predicted?

Runs: the mean loss on tokens drawn evenly and independently; nobody can do better than ln V.
Number: the loss. Fails below ln V − 3 standard errors: the model reads the answer.
"""

import math

import torch
from torch.nn import functional

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import causal
from attnlab.audit.probing.subject import Subject
from attnlab.core.seeds import Seed

NAME = "random-token-floor"
TOKENS = 2000
FEW = 300  # of a large model
ROUNDING = 1e-12  # of the mean: constant logits have no standard error


@audit(NAME, question="Does it predict random tokens?", needs=(causal,))
def random_token_floor(subject: Subject, probe: Probe) -> Finding:
    """Judge a causal model whose logits are over its own vocabulary."""
    length = subject.fitting(4 * probe.short_length(subject))
    generator = Seed(probe.seed).child(NAME).torch_generator()
    tokens = FEW if subject.large else TOKENS
    size = (max(2, tokens // length), length)
    ids = torch.randint(0, subject.vocabulary, size, generator=generator).to(subject.device)
    losses = torch.cat([_losses(subject, row[None]) for row in ids])
    width = subject.logits(ids[:1]).shape[-1]
    floor = math.log(min(subject.vocabulary, width))
    mean, error = float(losses.mean()), float(losses.std() / math.sqrt(losses.numel()))
    threshold = floor - 3 * error - ROUNDING * floor
    evidence = {"ln_vocabulary": floor, "standard_error": error, "tokens": losses.numel()}
    if not math.isfinite(mean):
        raise NotApplicable("the loss is not finite", threshold=threshold, evidence=evidence)
    least = f"{mean:.3f} nats, and the least possible is {floor:.3f}: the model reads the answer"
    problem = f"the loss on random tokens is {least}" if mean < threshold else ""
    why = f"the loss on random tokens is {mean:.2f} nats, not below the {floor:.2f} of guessing"
    return Finding.judged(NAME, problem, why, mean, threshold, evidence)


def _losses(subject: Subject, ids: torch.Tensor) -> torch.Tensor:
    logits = subject.logits(ids)[:, :-1].double()
    return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
