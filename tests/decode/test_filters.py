"""Filters: the plain loops' sets, the library's, exact limits, ties, −inf, NaN."""

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.decode import filters as f
from attnlab.decode.filters import Filters
from tests.decode import plain

SIZE = 17
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.7},
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.2},
    {"typical": 0.6},
    {"temperature": 1.3, "top_k": 7, "top_p": 0.8},
    {"top_k": 11, "typical": 0.4},
    {"temperature": 0.5, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 0.0},
    {"top_k": 1},
    {"top_p": 0.0},
    {"min_p": 1.0},
    {"typical": 0.0},
]
# few values: ties everywhere; −inf among them
ROW = st.lists(
    st.sampled_from([-plain.INF, -2.0, -0.5, 0.0, 0.25, 1.0, 3.0]), min_size=2, max_size=SIZE
).filter(lambda row: max(row) > -plain.INF)


def some_logits(rows: int = 7, size: int = SIZE, seed: int = 1) -> Tensor:
    return torch.randn(rows, size, generator=Seed(seed).torch_generator(), dtype=torch.float64) * 2


def kept(logits: Tensor) -> list[set[int]]:
    return [set(row.isfinite().nonzero()[:, 0].tolist()) for row in logits]


def near_border(row: list[float], options: dict[str, float]) -> bool:
    """Where sums of another order decide: a share within rounding of what some tokens have."""
    now = plain.filtered(row, **{k: v for k, v in options.items() if k in ("temperature", "top_k")})
    p = plain.chances(now)
    sums = [math.fsum(p[i] for i in plain.ranked(p)[:n]) for n in range(1, len(p) + 1)]
    return any(abs(s - options.get(name, 2)) < 1e-12 for s in sums for name in ("top_p", "typical"))


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_definition(options: dict[str, Any]) -> None:
    logits = some_logits()
    found = Filters(**options)(logits)
    loops = [plain.filtered(row, **options) for row in logits.tolist()]
    wanted = torch.tensor(loops, dtype=torch.float64)
    assert kept(found) == kept(wanted)
    torch.testing.assert_close(found.softmax(-1), wanted.softmax(-1), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("options", SETTINGS, ids=str)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(row=ROW)
def test_the_definition_with_ties_and_impossible_tokens(
    row: list[float], options: dict[str, Any]
) -> None:
    assume(not near_border(row, options))
    if options == {"min_p": 1.0}:  # the likeliest alone: the rule for ties, not the inequality
        wanted = [{plain.ranked(row)[0]}]
    else:
        wanted = kept(torch.tensor([plain.filtered(row, **options)]))
    possible = {i for i, x in enumerate(row) if x > -plain.INF}
    assert kept(Filters(**options)(torch.tensor([row]).double())) == [wanted[0] & possible]


def test_a_nucleus_larger_than_what_is_sorted_first() -> None:
    """Nearly uniform over 997 tokens: the share needs most of them."""
    logits = some_logits(3, 997) / 50
    shares: list[dict[str, Any]] = [{"top_p": 0.9}, {"typical": 0.9}]
    for options in shares:
        wanted = [plain.filtered(row, **options) for row in logits.tolist()]
        assert kept(Filters(**options)(logits)) == kept(torch.tensor(wanted))


def test_the_librarys_filters_where_nothing_ties() -> None:
    from transformers import (
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TopKLogitsWarper,
        TopPLogitsWarper,
        TypicalLogitsWarper,
    )

    logits, ids = some_logits(5, 53), torch.tensor([[3, 7, 7]] * 5)
    pairs: list[tuple[Any, Any]] = [
        (TopKLogitsWarper(5), f.top_k(logits, 5)),
        (TopPLogitsWarper(0.7), f.top_p(logits, 0.7)),
        (MinPLogitsWarper(0.2), f.min_p(logits, 0.2)),
        (TypicalLogitsWarper(0.6), f.typical(logits, 0.6)),
    ]
    for theirs, ours in pairs:
        assert torch.equal(theirs(ids, logits.clone()), ours)
    seen = torch.zeros(5, 53, dtype=torch.bool)
    seen[:, [3, 7]] = True
    theirs: Any = RepetitionPenaltyLogitsProcessor(1.3)
    torch.testing.assert_close(theirs(ids, logits.clone()), f.repetition_penalty(logits, 1.3, seen))


def test_neutral_settings_change_no_bit() -> None:
    logits = some_logits()
    neutral = [
        f.temperature(logits, 1),
        f.top_k(logits, 0),
        f.top_k(logits, SIZE),
        f.top_k(logits, SIZE + 1),
        f.top_p(logits, 1),
        f.min_p(logits, 0),
        f.typical(logits, 1),
        Filters()(logits),
        f.repetition_penalty(logits, 1, logits > 0),
    ]
    assert all(torch.equal(logits, found) for found in neutral)


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}, {"top_p": 1e-9}],
    ids=str,
)
def test_the_other_limit_is_the_likeliest_and_of_equals_the_lowest(options: Any) -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0], [-plain.INF, 0.0, 0.0, -1]])
    assert kept(Filters(**options)(logits)) == [{1}, {0}, {1}]


def test_temperatures_of_any_size() -> None:
    logits = torch.tensor([[1.0, 2.0, 2.0, -plain.INF]], dtype=torch.float64)
    assert f.temperature(logits, 5e-324).softmax(-1).tolist() == [[0.0, 0.5, 0.5, 0.0]]
    warm = f.temperature(logits, 1.7e308).softmax(-1)
    torch.testing.assert_close(warm, torch.tensor([[1.0, 1.0, 1.0, 0.0]]).double() / 3)


def test_an_exact_sum_needs_no_token_more() -> None:
    quarter = torch.zeros(1, 4, dtype=torch.float64)
    assert kept(f.top_p(quarter, 0.5)) == [{0, 1}]
    assert kept(f.typical(quarter, 0.75)) == [{0, 1, 2}]
    assert kept(f.top_p(quarter, math.nextafter(0.5, 1))) == [{0, 1, 2}]


def test_the_penalty_is_for_tokens_of_the_text() -> None:
    logits = torch.tensor([[2.0, 2.0, -1.0, -1.0, -plain.INF, 0.0]])
    seen = torch.tensor([[True, False, True, False, True, True]])
    found = f.repetition_penalty(logits, 2.0, seen)
    assert found.tolist() == [[1.0, 2.0, -2.0, -1.0, -plain.INF, 0.0]]


@pytest.mark.parametrize("bad", [[0.0, math.nan], [0.0, plain.INF], [-plain.INF] * 2], ids=str)
def test_logits_that_are_nan_or_infinite_are_refused(bad: list[float]) -> None:
    logits = torch.tensor([[0.0, 1.0], bad])
    seen = torch.ones(2, 2, dtype=torch.bool)
    calls: list[Any] = [
        lambda: Filters()(logits),
        lambda: f.temperature(logits, 0.5),
        lambda: f.top_k(logits, 1),
        lambda: f.temperature(logits, 0),
        lambda: f.top_p(logits, 0.5),
        lambda: f.min_p(logits, 0.5),
        lambda: f.min_p(logits, 1),
        lambda: f.typical(logits, 0.5),
        lambda: f.repetition_penalty(logits, 2, seen),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="NaN or infinite"):
            call()


BAD: list[dict[str, Any]] = [
    {"temperature": -0.1},
    {"temperature": math.nan},
    {"temperature": math.inf},
    {"temperature": 10**400},
    {"top_k": -1},
    {"top_k": 2.5},
    {"top_k": True},
    {"top_p": -0.1},
    {"top_p": 1.1},
    {"top_p": math.nan},
    {"min_p": 2},
    {"typical": -1},
    {"repetition": 0},
    {"repetition": -1},
    {"repetition": math.inf},
]


@pytest.mark.parametrize("options", BAD, ids=lambda o: str(o)[:30])
def test_settings_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must"):
        Filters(**options)
    ((name, value),) = options.items()
    if name in f.ORDER:
        with pytest.raises(UsageError, match="must"):
            f.ORDER[name](some_logits(), value)


def test_the_order_is_said() -> None:
    filters = Filters(typical=0.9, top_p=0.8, top_k=3, temperature=0.5, repetition=1.2, min_p=0.1)
    names = [name for name, _ in filters.active]
    assert names == ["repetition", "temperature", "top-k", "top-p", "min-p", "typical"]
    assert Filters().active == ()


def test_logits_are_left_as_they_were() -> None:
    logits = some_logits()
    before = logits.clone()
    Filters(repetition=1.3, temperature=0.5, top_k=5, top_p=0.7, min_p=0.1, typical=0.9)(
        logits, logits > 0
    )
    assert torch.equal(logits, before)
