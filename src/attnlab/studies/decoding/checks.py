"""The audits of the model that all strategies share, of the sampler, and of the log-probabilities.

rescoring: the log-probabilities of generated tokens (cached, in a batch, padded on the left) beside
those of the same texts read whole, each alone. Fails above ten times the model's own noise.
"""

from collections.abc import Sequence

import torch

from attnlab.audit.catalogue import check
from attnlab.audit.checks.sampler_table import sampler_table
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
from attnlab.studies.audited import AUDITED, LENGTH
from attnlab.studies.decoding.material import Material
from attnlab.studies.decoding.settings import DecodingSettings
from attnlab.studies.distillation.checks import as_metrics
from attnlab.tasks.prompts import PromptExample, sequential_batches

OF_MODEL = (*AUDITED, "cache-parity")
RESCORED = 7  # texts that are read again, each alone
RESCORING, SAMPLER = "rescoring", "sampler-table"
TOLD = (SAMPLER, RESCORING, *OF_MODEL)
Rows = Sequence[Sequence[int]]


def of_model(model: HubModel, data: Material, s: DecodingSettings) -> dict[str, str]:
    """One word an audit, with the reason where it fails."""
    found = [sampler_table(sample), rescoring(model, data.prompts[:RESCORED], s.new_tokens)]
    found += check(model, only=OF_MODEL, length=LENGTH).findings
    return as_metrics(found)


def rescoring(model: HubModel, prompts: Rows, most: int) -> Finding:
    """Judge what `generate` says of its own tokens."""
    made = generate(
        model, prompts, parse_strategy("sample"), max_new_tokens=most, seed=Seed(0).child(RESCORING)
    )
    alone = logprobs(model, prompts, [text.ids for text in made], 1)
    pairs = [
        (a, b)
        for text, row in zip(made, alone, strict=True)
        for a, b in zip(text.logprobs, row, strict=True)
    ]
    gap = max(abs(a - b) for a, b in pairs)
    noise = noise_of(subject_of(model), Probe(0, LENGTH))
    # −log p is a logit and a log-sum-exp of logits: it moves by twice as much at most
    limit = 2 * max(noise.threshold, noise.rounding)
    evidence = {**noise.evidence(), "tokens": len(pairs), "texts": len(made)}
    if gap <= limit:
        why = (
            f"read whole and alone, {len(pairs)} tokens have the log-probabilities they were given"
        )
        return Finding(RESCORING, "pass", gap, limit, why, evidence)
    why = f"a token's log-probability differs by {gap:.2g} when its text is read whole and alone"
    return Finding(RESCORING, "fail", gap, limit, why, evidence)


@torch.no_grad()
def logprobs(model: HubModel, prompts: Rows, answers: Rows, batch: int) -> list[tuple[float, ...]]:
    """log p of every token of each answer after its prompt, read whole."""
    examples = [PromptExample(tuple(p), tuple(a)) for p, a in zip(prompts, answers, strict=True)]
    nll, found = token_nll(model.logits), []
    for rows in sequential_batches(examples, batch):
        ids, targets, key_padding_mask = rows.to(model.device)
        each, scored = (
            -nll(ids, targets, key_padding_mask).double().cpu(),
            (targets != IGNORE).cpu(),
        )
        found += [tuple(row[kept].tolist()) for row, kept in zip(each, scored, strict=True)]
    return found


@torch.no_grad()
def gaps(model: HubModel, prompts: Rows, answers: Rows) -> tuple[float, int]:
    """The smallest lead of the likeliest token over the second at any place, and exact ties."""
    leads = []
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([[*prompt, *answer]], device=model.device)
        best = model.logits(ids)[0, len(prompt) - 1 :].topk(2, dim=-1).values
        leads.append((best[:, 0] - best[:, 1]).double().cpu())
    lead = torch.cat(leads)
    return float(lead.min()), int((lead == 0).sum())
