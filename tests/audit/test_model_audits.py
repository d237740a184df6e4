"""Every planted fault is caught and named, every twin and every clean model passes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from attnlab.audit.catalogue import NAMES, check
from attnlab.audit.probing.subject import Subject
from attnlab.audit.probing.wrap import subject_of

from .faults import CLEAN, PLANTED
from .faults.base import Cached, Clean, Planted, RoundTrip, failures

MODEL_FAULTS = [p for p in PLANTED if set(p.caught_by) & set(NAMES)]
FIRST_OF_EACH = {p.caught_by: p for p in reversed(MODEL_FAULTS)}.values()  # one per set of audits


def subject(model: nn.Module, cached: Cached | None, save_load: RoundTrip | None) -> Subject:
    """With the cache and the files that the entry says the model has."""
    made = subject_of(model)
    if save_load is not None:
        made = replace(made, save_load=lambda: subject_of(save_load(model)))
    return with_cache(made, cached) if cached is not None else made


def with_cache(made: Subject, cached: Cached) -> Subject:
    module, again = made.module, made.rewrap
    assert module is not None and again is not None
    return replace(
        made,
        cache=lambda chunks: [cached(module, list(chunks))],
        rewrap=lambda copy: with_cache(again(copy), cached),
    )


def longest(fault: Planted, least: int = 23) -> int:
    """Long enough to show it."""
    return max(least, fault.length)


def audits_for(fault: Planted) -> list[str]:
    """Those the fault concerns, and those that random answers or NaN would confuse.

    `slow` has every audit on every fault; here the clean models pass the others.
    """
    concerned = {*fault.caught_by, *fault.also, "non-finite", "eval-determinism"}
    return [name for name in NAMES if name in concerned]


def judge_fault(fault: Planted, found: dict[str, str]) -> None:
    """What it is caught by is among the failures, and no other audit blames it."""
    wanted = set(fault.caught_by) & set(NAMES)
    assert wanted <= found.keys()
    # a mask that lets the future in is a weak mask too
    rightly = {*wanted, *fault.also, *(["mask-strength"] if "causality" in wanted else [])}
    assert found.keys() <= rightly
    if fault.where and "causality" in wanted:
        place = found["causality"]
        assert fault.where in place or "own forward" in place


@pytest.mark.parametrize("fault", MODEL_FAULTS, ids=lambda p: p.name)
def test_a_planted_fault_is_caught_and_named(fault: Planted) -> None:
    model = subject(fault.build(), fault.cached, fault.save_load)
    judge_fault(fault, failures(check(model, only=audits_for(fault), length=longest(fault))))


@pytest.mark.parametrize("name", ["functional-dropout-in-eval", "noise-in-eval"])
def test_what_random_answers_explain_is_blamed_on_nothing_else(name: str) -> None:
    """Rows do not read each other because dropout is left on."""
    fault = next(p for p in PLANTED if p.name == name)
    compared = ["causality", "batch-independence", "coverage", "attention-matters"]
    found = check(fault.build(), only=compared, length=23)
    assert {f.verdict for f in found} == {found.verdict} == {"could-not-be-judged"}
    assert "different outputs for the same input" in found.why
    assert "see eval-determinism" in found["batch-independence"].why
    clean = check(fault.build_clean(), only=compared, length=23)
    assert {f.verdict for f in clean} <= {"pass", "not-applicable"} and clean.verdict == "pass"


@pytest.mark.parametrize("fault", FIRST_OF_EACH, ids=lambda p: p.name)
def test_its_clean_twin_passes(fault: Planted) -> None:
    """For one fault of each kind; `slow` has the twins of all."""
    twin = subject(fault.build_clean(), fault.cached, fault.clean_save_load)
    assert failures(check(twin, only=audits_for(fault), length=longest(fault))) == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", MODEL_FAULTS, ids=lambda p: p.name)
def test_every_audit_on_every_fault_and_twin(fault: Planted) -> None:
    length = longest(fault, least=131)
    model = subject(fault.build(), fault.cached, fault.save_load)
    judge_fault(fault, failures(check(model, length=length)))
    twin = subject(fault.build_clean(), fault.cached, fault.clean_save_load)
    assert failures(check(twin, length=length)) == {}


@pytest.mark.parametrize("clean", CLEAN, ids=lambda p: p.name)
def test_a_clean_model_raises_no_alarm(clean: Clean) -> None:
    assert failures(check(clean.build(), length=31)) == {}


@pytest.mark.parametrize("name", ["rotary-grouped-query", "hybrid"])
def test_a_clean_model_in_16_bits_raises_no_alarm(name: str) -> None:
    clean = next(p for p in CLEAN if p.name == name)
    assert failures(check(clean.build().to(torch.bfloat16), length=41)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("clean", CLEAN, ids=lambda p: p.name)
def test_a_clean_model_raises_no_alarm_at_full_length(clean: Clean, dtype: torch.dtype) -> None:
    assert failures(check(clean.build().to(dtype))) == {}


def as_function(build: Callable[[], nn.Module]) -> Callable[..., object]:
    """What a person has who shows nothing but answers."""
    model = build()
    return lambda ids: model(ids)


@pytest.mark.parametrize("name", ["mask-off-by-one", "fourier-mixing", "mean-over-the-batch"])
def test_a_bare_function_is_judged_by_its_answers(name: str) -> None:
    fault = next(p for p in PLANTED if p.name == name)
    found = failures(check(as_function(fault.build), length=41))
    assert set(fault.caught_by) <= found.keys()
    assert failures(check(as_function(fault.build_clean), length=41)) == {}
