"""The table of sampler-table: fixed logits, settings, and what may be drawn how often.

Filters are taken in the usual order: temperature, top-k, top-p. Cases with two filters are such
that every sensible order keeps the same tokens.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.core.seeds import Seed

P = (0.05, 0.35, 0.02, 0.15, 0.25, 0.08, 0.10)  # by id; sorted: 1 4 3 6 5 0 2
TOP = 1
WIDE = 211
INF, NAN = math.inf, math.nan
Options = Mapping[str, float | int]


@dataclass(frozen=True)
class Case:
    """`chances` by id, 0: never; or, for ties, which ids may be drawn and how many of them."""

    name: str
    logits: tuple[float, ...]
    options: Options
    chances: tuple[float, ...] = ()
    among: frozenset[int] = frozenset()
    always: frozenset[int] = frozenset()
    at_most: int = 0
    may_refuse: bool = False  # an error that says so is as good as an answer


def cases(ties: str) -> Iterator[Case]:
    """Every row of the table."""
    plain = tuple(math.log(p) for p in P)
    yield _wide()
    for t in (1.0, 0.5, 2.0):
        yield Case(f"temperature {t:g}", plain, {"temperature": t}, _softmax(plain, t))
    yield from _greedy(plain)
    yield from _top_k(plain)
    yield from _top_p(plain)
    yield from _ties(ties)
    yield Case("top_k 2 with top_p 0.95", plain, {"top_k": 2, "top_p": 0.95}, _only(1, 4))
    yield Case("top_k 5 with top_p 0.5", plain, {"top_k": 5, "top_p": 0.5}, _only(1, 4))
    for options, kept in (
        ({"temperature": 0.5, "top_k": 3}, (1, 4, 3)),
        ({"temperature": 2.0, "top_p": 0.99}, tuple(range(len(P)))),
    ):
        words = " with ".join(f"{name} {value:g}" for name, value in options.items())
        yield Case(words, plain, options, _only(*kept, temperature=options["temperature"]))
    yield from _broken()


def _wide() -> Case:
    """Nothing asked for: every token, so that a hidden top-k or top-p shows."""
    generator = Seed(0).child("sampler-table").torch_generator()
    logits = tuple(torch.randn(WIDE, generator=generator, dtype=torch.float64).tolist())
    return Case("its own defaults", logits, {}, _softmax(logits, 1.0))


def _greedy(plain: tuple[float, ...]) -> Iterator[Case]:
    for other in ({}, {"top_p": 0.9}, {"top_k": 3}):
        with_ = "".join(f" with {k} {v:g}" for k, v in other.items())
        options: Options = {"temperature": 0.0, **other}
        yield Case(f"temperature 0{with_}", plain, options, _only(TOP), may_refuse=True)


def _top_k(plain: tuple[float, ...]) -> Iterator[Case]:
    size = len(plain)
    yield Case("top_k 1", plain, {"top_k": 1}, _only(TOP))
    yield Case("top_k 3", plain, {"top_k": 3}, _only(1, 4, 3))
    yield Case("top_k 0", plain, {"top_k": 0}, P, may_refuse=True)
    yield Case("top_k of the whole vocabulary", plain, {"top_k": size}, P)
    yield Case("top_k above the vocabulary", plain, {"top_k": size + 1}, P, may_refuse=True)


def _top_p(plain: tuple[float, ...]) -> Iterator[Case]:
    yield Case("top_p 0", plain, {"top_p": 0.0}, _only(TOP), may_refuse=True)
    yield Case("top_p 1e-9", plain, {"top_p": 1e-9}, _only(TOP))
    yield Case("top_p 0.7", plain, {"top_p": 0.7}, _only(1, 4, 3))
    yield Case("top_p 1", plain, {"top_p": 1.0}, P)


def _ties(ties: str) -> Iterator[Case]:
    """Four equal chances of exactly ¼ sum to ½ after two, without a rounding."""
    four, exact = frozenset(range(4)), ties == "exact"
    yield Case("top_p at an exact sum", (0.0,) * 4, {"top_p": 0.5}, among=four, at_most=2)
    yield Case(
        "top_k 2 where three tie for second",
        (2.0, 1.0, 1.0, 1.0, 0.0),
        {"top_k": 2},
        among=four,
        always=frozenset({0}),
        at_most=2 if exact else 4,
    )
    yield Case(
        "top_k 1 where all tie",
        (0.0,) * 5,
        {"top_k": 1},
        among=frozenset(range(5)),
        at_most=1 if exact else 5,
    )
    yield Case(
        "temperature 0 where two tie",
        (0.0, 3.0, 1.0, 3.0),
        {"temperature": 0.0},
        among=frozenset({1, 3}),
        at_most=2,
        may_refuse=True,
    )


def _broken() -> Iterator[Case]:
    """One possible token; then a NaN, where an error is right and the NaN's id is not."""
    single = (-INF, -INF, 0.5, -INF, -INF)
    for options in ({"temperature": 1.0}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.9}):
        words = " ".join(f"{k} {v:g}" for k, v in options.items())
        yield Case(f"all −inf but one, {words}", single, options, (0, 0, 1, 0, 0))
    for t in (1.0, 0.0):
        yield Case(
            f"a NaN, temperature {t:g}",
            (0.0, 1.0, NAN, 2.0),
            {"temperature": t},
            among=frozenset({0, 1, 3}),
            at_most=3,
            may_refuse=True,
        )


def _softmax(logits: tuple[float, ...], temperature: float) -> tuple[float, ...]:
    scaled: Tensor = torch.tensor(logits, dtype=torch.float64) / temperature
    return tuple(torch.softmax(scaled, 0).tolist())


def _only(*kept: int, temperature: float = 1.0) -> tuple[float, ...]:
    """p^(1/T) over the kept ids."""
    raised = [p ** (1 / temperature) if i in kept else 0.0 for i, p in enumerate(P)]
    return tuple(p / sum(raised) for p in raised)
