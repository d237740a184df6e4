"""sampler-table: fires on each known fault of a sampler; a clean one and ours pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.audit.checks.sampler_table import NAME, sampler_table
from attnlab.audit.finding import Finding
from attnlab.decode.draw import sample


def scale(temperature: float, fault: str) -> float:
    if fault == "no temperature" or (temperature == 0 and fault != "divides by 0"):
        return 1.0
    return 1 / temperature if fault == "temperature multiplies" else temperature


def top(ranked: Tensor, k: int, fault: str) -> Tensor:
    """Exactly the first k of ranked logits; 0 is all."""
    size = ranked.shape[-1]
    if fault == "k above V":
        ranked.topk(k)
    if k == 0 and fault != "top_k 0 keeps none":
        k = 50 if fault == "hidden top_k" else size
    more = fault == "one token more" and 0 < k < size
    keep = (torch.arange(size) < k + more).expand_as(ranked)
    if fault == "ties kept" and k <= size:
        keep = ranked >= ranked[:, k - 1 : k]
    return ranked.where(keep, -torch.inf)


def nucleus(chance: Tensor, p: float, fault: str) -> Tensor:
    """The smallest set of the likeliest whose chances reach p."""
    before = chance.cumsum(-1) - chance
    inside = before < p
    if fault == "drops the crossing token":
        inside = before + chance <= p
    if fault == "extra at the sum":
        inside = before <= p
    if fault != "p 0 drops all":
        inside[:, 0] = True
    return chance * inside


def clean(
    logits: Tensor,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    fault: str = "",
) -> Tensor:
    """A right sampler: temperature, exactly k, then the nucleus; and its faults."""
    if fault != "nan passes" and torch.isnan(logits).any():
        raise ValueError("the logits hold a NaN")
    if temperature == 0 and fault not in ("temperature 0 is 1", "divides by 0"):
        return logits.argmax(-1)
    if fault == "temperature or a filter" and (top_k or top_p < 1):
        temperature = 1.0
    scaled = logits.double() / scale(temperature, fault)
    ranked, order = scaled.sort(dim=-1, descending=True, stable=True)
    if fault != "top_p or top_k" or top_p == 1:
        ranked = top(ranked, top_k, fault)
    chance = ranked.softmax(-1)
    if top_p < 1 and fault != "no top_p":
        chance = nucleus(chance, top_p, fault)
    own = None if fault == "global generator" else generator
    drawn = torch.multinomial(chance, 1, generator=own)
    found = drawn if fault == "sorted ids" else order.gather(-1, drawn)
    return order[:, 0] if fault == "always greedy" else found[:, 0]


def judged(fault: str = "", **options: Any) -> Finding:
    def sampler(
        logits: Tensor,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        assert generator is not None
        return clean(logits, generator, temperature, top_k, top_p, fault)

    return sampler_table(sampler, **options)


def off(found: Finding) -> set[str]:
    return {row["case"] for row in found.evidence["table"] if row["problem"]}


def test_the_clean_twin_passes() -> None:
    found = judged()
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 0), found.why
    assert len(found.evidence["table"]) >= 26 and found.evidence["skipped"] == []


FAULTS = {
    "temperature 0 is 1": "temperature 0",
    "divides by 0": "temperature 0",
    "no temperature": "temperature 0.5",
    "temperature multiplies": "temperature 2",
    "always greedy": "temperature 1",
    "temperature or a filter": "temperature 0.5 with top_k 3",
    "hidden top_k": "its own defaults",
    "k above V": "top_k above the vocabulary",
    "top_k 0 keeps none": "top_k 0",
    "one token more": "top_k 3",
    "ties kept": "top_k 2 where three tie for second",
    "top_p or top_k": "top_k 2 with top_p 0.95",
    "no top_p": "top_p 0.7",
    "drops the crossing token": "top_p 0.7",
    "extra at the sum": "top_p at an exact sum",
    "p 0 drops all": "top_p 0",
    "sorted ids": "temperature 1",
    "nan passes": "a NaN, temperature 0",
    "global generator": "temperature 1",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_faults_are_caught(fault: str) -> None:
    found = judged(fault)
    assert found.verdict == "fail", "not caught"
    assert FAULTS[fault] in off(found)
    assert found.number == len(off(found))


def test_ties_may_all_be_kept_if_so_stated() -> None:
    assert judged("ties kept", ties="all").verdict == "pass"


def test_hugging_face_filters_keep_all_ties() -> None:
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    def theirs(
        logits: Tensor,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        if torch.isnan(logits).any():
            raise ValueError("NaN")
        scores = TemperatureLogitsWarper(float(temperature))(None, logits)  # pyright: ignore[reportArgumentType]
        if top_k:
            scores = TopKLogitsWarper(top_k)(None, scores)  # pyright: ignore[reportArgumentType]
        if top_p < 1:
            scores = TopPLogitsWarper(top_p)(None, scores)  # pyright: ignore[reportArgumentType]
        return torch.multinomial(scores.softmax(-1), 1, generator=generator)[:, 0]

    assert sampler_table(theirs, ties="all").verdict == "pass"
    assert off(sampler_table(theirs)) == {
        "top_k 2 where three tie for second",
        "top_k 1 where all tie",
    }


def test_our_own_sampler_passes() -> None:
    found = sampler_table(sample)
    assert found.verdict == "pass", found.why
    assert found.evidence["options"] == ["temperature", "top_k", "top_p"]
    assert found.evidence["skipped"] == []


def test_options_it_has_not_are_skipped() -> None:
    def sampler(logits: Tensor, temperature: float = 1.0, *, generator: torch.Generator) -> Tensor:
        return sample(logits, generator=generator, temperature=temperature)

    found = sampler_table(sampler)
    assert found.verdict == "pass" and found.evidence["options"] == ["temperature"]
    assert "top_k 3" in found.evidence["skipped"]


def test_options_can_be_named_for_an_open_signature() -> None:
    def sampler(logits: Tensor, **options: Any) -> Tensor:
        return clean(logits, **options)

    assert sampler_table(sampler).evidence["options"] == ["temperature", "top_k", "top_p"]
    found = sampler_table(sampler, options=("top_p",))
    assert found.evidence["options"] == ["top_p"] and found.verdict == "pass"


def test_ids_that_are_none_are_caught() -> None:
    def sampler(logits: Tensor, temperature: float = 1.0) -> Tensor:
        return torch.full((len(logits),), logits.shape[-1])

    found = sampler_table(sampler)
    assert found.verdict == "fail" and "from 211 to 211" in found.why
