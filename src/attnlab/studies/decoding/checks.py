"""Audits of the model that all strategies share, of the sampler, and of the log-probabilities.

rescoring: the log-probabilities of generated tokens (cached, in a batch, padded on the left)
against those of the same texts read whole, each alone. Fails above ten times the model's own noise.
"""

from collections.abc import Sequence

import numpy as np
import torch

from attnlab.audit.catalogue import check
from attnlab.audit.checks.sampler_table import sampler_table
from attnlab.audit.during_training import AUDITED, LENGTH
from attnlab.audit.finding import Finding
from attnlab.audit.probing.noise import noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.wrap import subject_of
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.decode.draw import sample
from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from attnlab.measure.perplexity import token_nll
from attnlab.models.hub import HubModel
from attnlab.studies.decoding.data import Prompts
from attnlab.tasks.prompts import PromptExample, sequential_batches

OF_MODEL = (*AUDITED, "cache-parity")
RESCORED = 7  # texts that are read again, each alone
RESCORING = "rescoring"
Rows = Sequence[Sequence[int]]


def shared_findings(model: HubModel, data: Prompts, new_tokens: int) -> list[Finding]:
    """What every strategy rests on: the sampler, the log-probabilities, the model."""
    return [
        sampler_table(sample),
        rescoring(model, data.prompts[:RESCORED], new_tokens),
        *check(model, only=OF_MODEL, length=LENGTH).findings,
    ]


def rescoring(model: HubModel, prompts: Rows, most: int) -> Finding:
    """Compare the log-probabilities that `generate` reports with those of the texts read whole."""
    texts = generate(
        model, prompts, parse_strategy("sample"), max_new_tokens=most, seed=Seed(0).child(RESCORING)
    )
    reported = np.concatenate([text.logprobs for text in texts])
    alone = np.concatenate(logprobs(model, prompts, [text.ids for text in texts], 1))
    gap = float(np.abs(reported - alone).max())
    noise = noise_of(subject_of(model), Probe(0, LENGTH))
    # −log p is a log-sum-exp of logits minus a logit: it moves by at most twice as much
    limit = 2 * max(noise.threshold, noise.rounding)
    evidence = {**noise.evidence(), "tokens": reported.size, "texts": len(texts)}
    if gap <= limit:
        why = f"read whole and alone, {reported.size} tokens have the same log-probabilities"
        return Finding(RESCORING, "pass", gap, limit, why, evidence)
    why = f"a token's log-probability differs by {gap:.2g} when its text is read whole and alone"
    return Finding(RESCORING, "fail", gap, limit, why, evidence)


@torch.no_grad()
def logprobs(model: HubModel, prompts: Rows, answers: Rows, batch: int) -> list[tuple[float, ...]]:
    """log p of every token of each answer after its prompt, read whole."""
    examples = [PromptExample(tuple(p), tuple(a)) for p, a in zip(prompts, answers, strict=True)]
    nll, logps = token_nll(model.logits), []
    for rows in sequential_batches(examples, batch):
        ids, targets, padding = rows.to(model.device)
        each, scored = -nll(ids, targets, padding).double().cpu(), (targets != IGNORE).cpu()
        logps += [tuple(row[kept].tolist()) for row, kept in zip(each, scored, strict=True)]
    return logps


@torch.no_grad()
def smallest_lead(model: HubModel, prompts: Rows, answers: Rows) -> tuple[float, int]:
    """The smallest lead in logits of the likeliest token over the second, and exact ties."""
    leads = []
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([[*prompt, *answer]], device=model.device)
        best = model.logits(ids)[0, len(prompt) - 1 :].topk(2, dim=-1).values
        leads.append((best[:, 0] - best[:, 1]).double().cpu())
    lead = torch.cat(leads)
    return float(lead.min()), int((lead == 0).sum())
