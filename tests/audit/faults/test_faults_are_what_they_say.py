"""Each planted fault shows what it says and nothing else; twins and clean models show nothing.

By brute force in float64 (proofs.py), without any audit: so that the catalogue can be trusted to
judge the audits. The brute force is slow; the gate builds every entry and checks the catalogue.
"""

import math
import time
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.audit.faults import CLEAN, CLEAN_BY_NAME, PLANTED, PLANTED_BY_NAME, Clean, Planted
from tests.audit.faults.proofs import (
    attention_weights,
    changed_after,
    cuts,
    double,
    first_difference,
    future,
    logits,
    moved,
    neighbours,
    padded,
    random_loss,
    takes_mask,
    tensor_of,
    tokens,
    traced,
    unread,
)

Entry = Planted | Clean
BATCH, SHORT, LONG = 5, 23, 211


def causality(model: nn.Module, entry: Entry) -> bool:
    """In eval and in training mode, short and long, without and with a mask of ones."""
    longest = max(entry.length, LONG if entry.context > LONG else SHORT)
    for training, length in ((False, SHORT), (True, SHORT), (False, longest)):
        ids = tokens(entry.vocabulary, BATCH if length < LONG else 2, length, seed=length)
        masks = [None, torch.ones_like(ids)] if takes_mask(model) else [None]
        subject = double(model, training)
        if any(future(subject, ids, entry.vocabulary, seen) > entry.floor for seen in masks):
            return True
    return False


def padding(model: nn.Module, entry: Entry) -> bool:
    if not takes_mask(model):
        return False
    ids = tokens(entry.vocabulary, 3, 17)
    sides = ((5, 0), (0, 5), (2, 3))
    return any(padded(double(model), ids, *side) > entry.floor for side in sides)


def coverage(model: nn.Module, entry: Entry) -> bool:
    blind = unread(double(model), min(entry.length, 61), entry.vocabulary)
    reach = entry.reach if isinstance(entry, Clean) else None
    return bool(blind if reach is None else {(j, t) for j, t in blind if t - j < reach})


def eval_determinism(model: nn.Module, entry: Entry) -> bool:
    ids = tokens(entry.vocabulary, BATCH, SHORT)
    with torch.no_grad():
        one, other = tensor_of(model(ids)), tensor_of(model(ids))
    return not torch.equal(one, other)


def cache_parity(model: nn.Module, entry: Entry) -> bool:
    if entry.cached is None:
        return False
    subject, ids = double(model), tokens(entry.vocabulary, BATCH, SHORT)
    with torch.no_grad():
        said = entry.cached(subject, list(ids.split([7, 1, 5, 1, 1, 8], dim=1)))
    return moved(logits(subject, ids), said) > entry.floor


def random_token_floor(model: nn.Module, entry: Entry) -> bool:
    gain, error = random_loss(double(model), entry.vocabulary, SHORT)
    return gain > 3 * error


def non_finite(model: nn.Module, entry: Entry) -> bool:
    """At every length and, with a mask, at real tokens behind left padding."""
    for length in {SHORT, entry.length}:
        ids = tokens(entry.vocabulary, BATCH, length)
        if not logits(model, ids).isfinite().all():
            return True
        if takes_mask(model):
            seen = (torch.arange(length) >= 5).long().expand_as(ids)
            if not logits(model, ids, seen)[:, 5:].isfinite().all():
                return True
    return False


def mask_strength(model: nn.Module, entry: Entry) -> bool:
    """Some weight on a later key, by a softmax over keys."""
    weights = attention_weights(double(model), tokens(entry.vocabulary, BATCH, SHORT))
    return any(bool((part.triu(1) > 0).any()) for part in weights)


def score_scale(model: nn.Module, entry: Entry) -> bool:
    weights = attention_weights(double(model), tokens(entry.vocabulary, BATCH, SHORT))
    largest = [float(part[..., 1:, :].amax(-1).mean()) for part in weights]
    return bool(largest) and sum(largest) / len(largest) > 0.99


def tying_and_save(model: nn.Module, entry: Entry) -> bool:
    if entry.save_load is None:
        return False
    again, ids = entry.save_load(model), tokens(entry.vocabulary, BATCH, SHORT)
    return shared(again) != shared(model) or not torch.equal(logits(again, ids), logits(model, ids))


def shared(model: nn.Module) -> list[tuple[str, str]]:
    """Pairs of names that are one storage."""
    named = list(model.named_parameters(remove_duplicate=False))
    return [
        (a, b)
        for i, (a, x) in enumerate(named)
        for b, y in named[:i]
        if x.data_ptr() == y.data_ptr()
    ]


def attention_matters(model: nn.Module, entry: Entry) -> bool:
    """Fails when an output reads its own token only."""
    blind = unread(double(model), SHORT, entry.vocabulary)
    return len(blind) == SHORT * (SHORT - 1) // 2 and not causality(model, entry)


def batch_independence(model: nn.Module, entry: Entry) -> bool:
    return neighbours(double(model), tokens(entry.vocabulary, BATCH, SHORT)) > entry.floor


SYMPTOMS = {
    "causality": causality,
    "batch-independence": batch_independence,
    "padding": padding,
    "coverage": coverage,
    "eval-determinism": eval_determinism,
    "cache-parity": cache_parity,
    "random-token-floor": random_token_floor,
    "non-finite": non_finite,
    "tying-and-save": tying_and_save,
    "score-scale": score_scale,
    "attention-matters": attention_matters,
}
KNOWN = {*SYMPTOMS, "mask-strength"}


def symptoms(model: nn.Module, entry: Entry) -> set[str]:
    return {name for name, shows in SYMPTOMS.items() if shows(model, entry)}


# ------------------------------------------------------------------------------------ the tests


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED_BY_NAME)
def test_a_fault_shows_what_it_says_and_nothing_else(name: str) -> None:
    entry = PLANTED_BY_NAME[name]
    model, claimed = entry.build(), set(entry.caught_by)
    found = symptoms(model, entry)
    if entry.shows is None:
        assert claimed & SYMPTOMS.keys() <= found
    else:
        assert entry.shows(model) > entry.floor
    # outputs that differ from call to call differ from batch to batch as well
    random = {"batch-independence"} if "eval-determinism" in claimed else set[str]()
    assert found <= claimed | set(entry.also) | random
    if "mask-strength" in claimed:
        assert mask_strength(model, entry)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED_BY_NAME)
def test_a_twin_shows_nothing(name: str) -> None:
    entry = PLANTED_BY_NAME[name]
    twin = entry.build_clean()
    entry = replace(entry, save_load=entry.clean_save_load)
    assert symptoms(twin, entry) == set()
    assert not mask_strength(twin, entry)
    assert entry.shows is None or entry.shows(twin) <= entry.floor


@pytest.mark.slow
@pytest.mark.parametrize("name", CLEAN_BY_NAME)
def test_a_clean_model_shows_nothing(name: str) -> None:
    entry = CLEAN_BY_NAME[name]
    model = entry.build()
    assert symptoms(model, entry) == set()
    assert not mask_strength(model, entry)
    if entry.reach is not None:  # blind beyond its reach: no less, and no more than it says
        blind = unread(double(model), entry.reach + 3, entry.vocabulary)
        assert {t - j for j, t in blind} == {entry.reach, entry.reach + 1, entry.reach + 2}


PLACED = [e.name for e in PLANTED if e.where and e.shows is None]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACED)
def test_a_fault_begins_where_it_says(name: str) -> None:
    entry = PLANTED_BY_NAME[name]
    model = double(entry.build(), entry.training)
    ids = tokens(entry.vocabulary, BATCH, entry.length, seed=entry.length)
    assert begins(model, entry, ids).startswith(entry.where)


def begins(model: nn.Module, entry: Planted, ids: Tensor) -> str:
    """The first module to show the fault, in the order modules finish."""
    if "eval-determinism" in entry.caught_by:
        return first_difference(traced(model, ids, draw=False), traced(model, ids, draw=False), 0)
    if "non-finite" in entry.caught_by:
        return next(name for name, out in traced(model, ids) if not out.isfinite().all())
    if "batch-independence" in entry.caught_by:
        alone = [(name, out) for name, out in traced(model, ids[:1])]
        among = [(name, out[:1]) for name, out in traced(model, ids)]
        return first_difference(alone, among, entry.floor)
    if name := beginning_with_mask(model, ids, entry):
        return name
    base = traced(model, ids)
    found: list[str] = []
    for t in cuts(entry.length):
        other = traced(model, changed_after(ids, t, entry.vocabulary))
        until = [[(n, out[:, : t + 1]) for n, out in trace] for trace in (base, other)]
        found.append(first_difference(until[0], until[1], entry.floor))
    order = [n for n, _ in base]
    return min((n for n in found if n), key=order.index)


def beginning_with_mask(model: nn.Module, ids: Tensor, entry: Planted) -> str:
    """The same for models that leak only when a mask of ones is given."""
    if not takes_mask(model):
        return ""
    seen, plain = torch.ones_like(ids), model.forward
    model.forward = lambda given: plain(given, attention_mask=seen)
    t = 0
    a, b = traced(model, ids), traced(model, changed_after(ids, t, entry.vocabulary))
    model.forward = plain
    until = [[(n, out[:, : t + 1]) for n, out in trace] for trace in (a, b)]
    return first_difference(until[0], until[1], entry.floor)


EVERY = {e.name: e.build for e in (*PLANTED, *CLEAN)} | {
    f"twin of {e.name}": e.build_clean for e in PLANTED
}
SIZE = {e.name: e.vocabulary for e in (*PLANTED, *CLEAN)}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_all_run_in_each_precision_and_fast(dtype: torch.dtype) -> None:
    for name, build in EVERY.items():
        model, vocabulary = build().to(dtype), SIZE[name.removeprefix("twin of ")]
        ids = tokens(vocabulary, 3, SHORT)
        logits(model, ids)
        start = time.thread_time()
        said = logits(model, ids)
        took = time.thread_time() - start
        assert (said.shape, said.dtype) == ((3, SHORT, vocabulary), dtype), name
        assert bool(said.isfinite().all()) and took < 0.05, (name, took)
        assert said.float().std() > 1e-3, name


def test_building_is_repeatable_and_leaves_the_global_generator_alone() -> None:
    before = torch.default_generator.get_state()
    for entry in (*PLANTED, *CLEAN):
        one, other = entry.build().state_dict(), entry.build().state_dict()
        assert all(torch.equal(one[key], other[key]) for key in one), entry.name
    assert torch.equal(before, torch.default_generator.get_state())


def test_the_catalogue_is_well_formed() -> None:
    names = [entry.name for entry in (*PLANTED, *CLEAN)]
    assert len(set(names)) == len(names)
    for entry in PLANTED:
        assert entry.caught_by and {*entry.caught_by, *entry.also} <= KNOWN, entry.name
        assert entry.cause and entry.length <= entry.context, entry.name
        modules = dict(entry.build().named_modules())
        assert not entry.where or entry.where in modules, entry.name
    assert {slug for entry in PLANTED for slug in entry.caught_by} == KNOWN


def test_the_sizes_of_some_faults() -> None:
    def size(name: str) -> float:
        entry = PLANTED_BY_NAME[name]
        ids = tokens(entry.vocabulary, BATCH, entry.length, seed=entry.length)
        return future(double(entry.build()), ids, entry.vocabulary)

    assert 1e-7 < size("tiny-leak") < 1e-4
    assert 1e-8 < size("finite-mask-of-ten") < 1e-2
    assert size("mask-off-by-one") > 0.1
    entry = PLANTED_BY_NAME["finite-mask-beaten-by-training"]
    gain, _ = random_loss(double(entry.build()), entry.vocabulary, SHORT)
    assert gain > 0.9 * math.log(entry.vocabulary)
