"""sampler-table: does the sampler keep the tokens it says, and draw them as often as it should?

Runs: fixed logits with temperature 0, top-k 0, 1, V and more, top-p 0, exact sums and 1, ties, one
possible token, a NaN; thousands of draws each. Number: rows of the table that are off. Fails when a
token is drawn that the filter drops, one is never drawn that it keeps, frequencies differ from
softmax (χ², p < 1e-6), the sampler crashes (an error that refuses the setting is an answer where
the setting is an odd one), or the same generator gives other draws. Options it does not take are
skipped and counted. Filters are taken in the usual order: temperature, top-k, top-p; cases with two
filters are such that every sensible order keeps the same tokens.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from attnlab.audit.finding import Finding, audit
from attnlab.core.errors import AttnlabError
from attnlab.core.plural import counted
from attnlab.core.seeds import Seed

NAME = "sampler-table"
DRAWS = 4000
RARE = 1e-6  # false alarm of one row; e⁻²⁰ for a kept token that is never drawn
EXPECTED = 20.0  # draws of a kept token below which its absence may be chance
CELL = 5.0  # χ² needs so many expected draws a cell; smaller cells are put together
OPTIONS = ("temperature", "top_k", "top_p")
REFUSALS = (ValueError, NotImplementedError, AttnlabError)

# -------------------------------------------------------------------------------------- the table

P = (0.05, 0.35, 0.02, 0.15, 0.25, 0.08, 0.10)  # by id; sorted: 1 4 3 6 5 0 2
EVERY = tuple(range(len(P)))
WIDE = 211
INF, NAN = math.inf, math.nan
Logits = tuple[float, ...]
Options = Mapping[str, float | int]
Rows = Sequence[tuple[str, Options, tuple[int, ...]]]  # name, options, ids that are kept
ONE_FILTER: Rows = (
    ("temperature 1", {"temperature": 1.0}, EVERY),
    ("temperature 0.5", {"temperature": 0.5}, EVERY),
    ("temperature 2", {"temperature": 2.0}, EVERY),
    ("temperature 0", {"temperature": 0.0}, (1,)),
    ("temperature 0 with top_p 0.9", {"temperature": 0.0, "top_p": 0.9}, (1,)),
    ("temperature 0 with top_k 3", {"temperature": 0.0, "top_k": 3}, (1,)),
    ("top_k 1", {"top_k": 1}, (1,)),
    ("top_k 3", {"top_k": 3}, (1, 4, 3)),
    ("top_k 0", {"top_k": 0}, EVERY),
    ("top_k of the whole vocabulary", {"top_k": len(P)}, EVERY),
    ("top_k above the vocabulary", {"top_k": len(P) + 1}, EVERY),
    ("top_p 0", {"top_p": 0.0}, (1,)),
    ("top_p 1e-9", {"top_p": 1e-9}, (1,)),
    ("top_p 0.7", {"top_p": 0.7}, (1, 4, 3)),
    ("top_p 1", {"top_p": 1.0}, EVERY),
)
TWO_FILTERS: Rows = (
    ("top_k 2 with top_p 0.95", {"top_k": 2, "top_p": 0.95}, (1, 4)),
    ("top_k 5 with top_p 0.5", {"top_k": 5, "top_p": 0.5}, (1, 4)),
    ("temperature 0.5 with top_k 3", {"temperature": 0.5, "top_k": 3}, (1, 4, 3)),
    ("temperature 2 with top_p 0.99", {"temperature": 2.0, "top_p": 0.99}, EVERY),
)
Ties = Sequence[tuple[str, Logits, Options, Sequence[int], int, int]]
TIES: Ties = (  # name, logits, options, ids that may be kept, at most: exactly k, all that tie
    # four equal chances of exactly ¼ sum to ½ after two, without a rounding
    ("top_p at an exact sum", (0.0,) * 4, {"top_p": 0.5}, range(4), 2, 2),
    ("top_k 2 where three tie for second", (2.0, 1.0, 1.0, 1.0, 0.0), {"top_k": 2}, range(4), 2, 4),
    ("top_k 1 where all tie", (0.0,) * 5, {"top_k": 1}, range(5), 1, 5),
    ("temperature 0 where two tie", (0.0, 3.0, 1.0, 3.0), {"temperature": 0.0}, (1, 3), 2, 2),
)
ODD = ("top_k 0", "top_k above the vocabulary", "top_p 0")


@dataclass(frozen=True)
class Case:
    """`chances` by id, 0: never; or, for ties, which ids may be drawn and how many of them."""

    name: str
    logits: Logits
    options: Options
    chances: tuple[float, ...] = ()
    among: frozenset[int] = frozenset()
    always: frozenset[int] = frozenset()
    at_most: int = 0
    may_refuse: bool = False  # an error that says so is as good as an answer


def cases(ties: str) -> Iterator[Case]:
    """Every row of the table; the first, wide one asks for nothing: hidden filters show there."""
    generator = Seed(0).child(NAME).torch_generator()
    wide = torch.randn(WIDE, generator=generator, dtype=torch.float64)
    yield Case("its own defaults", tuple(wide.tolist()), {}, tuple(wide.softmax(0).tolist()))
    yield from _filtered(ONE_FILTER)
    for name, logits, options, among, exact, every in TIES:
        above = [i for i, x in enumerate(logits) if logits.count(x) == 1 and x == max(logits)]
        yield Case(
            name,
            logits,
            options,
            among=frozenset(among),
            always=frozenset(above),
            at_most=exact if ties == "exact" else every,
            may_refuse=options.get("temperature") == 0,
        )
    yield from _filtered(TWO_FILTERS)
    single = (-INF, -INF, 0.5, -INF, -INF)
    for options in ({"temperature": 1.0}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.9}):
        words = " ".join(f"{k} {v:g}" for k, v in options.items())
        yield Case(f"all −inf but one, {words}", single, options, (0, 0, 1, 0, 0))
    holed, real = (0.0, 1.0, NAN, 2.0), frozenset({0, 1, 3})
    for t in (1.0, 0.0):  # an error is right, the NaN's id is not
        name, options = f"a NaN, temperature {t:g}", {"temperature": t}
        yield Case(name, holed, options, among=real, at_most=3, may_refuse=True)


def _filtered(rows: Rows) -> Iterator[Case]:
    """p^(1/T) over the kept ids."""
    for name, options, kept in rows:
        power = 1 / (options.get("temperature") or 1.0)
        raised = [p**power if i in kept else 0.0 for i, p in enumerate(P)]
        chances, logits = tuple(p / sum(raised) for p in raised), tuple(math.log(p) for p in P)
        odd = name in ODD or options.get("temperature") == 0
        yield Case(name, logits, options, chances, may_refuse=odd)


# -------------------------------------------------------------------------------------- the audit


@audit(NAME, threshold=0)
def sampler_table(
    sampler: Callable[..., Any],
    *,
    options: Sequence[str] | None = None,
    batched: bool = True,
    ties: Literal["exact", "all"] = "exact",
    draws: int = DRAWS,
) -> Finding:
    """Judge `sampler(logits, temperature=, top_k=, top_p=, generator=) -> ids`.

    options: those it takes, read from its signature otherwise. batched: logits are (row, vocab),
    else (vocab,) and one id is returned. ties: whether top-k keeps exactly k tokens, or all that
    tie with the k-th.
    """
    parameters = inspect.signature(sampler).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    takes = [name for name in (*OPTIONS, "generator") if open_ended or name in parameters]
    given = [name for name in takes if name in OPTIONS and (options is None or name in options)]

    def draw(case: Case) -> np.ndarray:
        logits, settings = torch.tensor(case.logits), dict[str, Any](case.options)
        if "generator" in takes:
            settings["generator"] = Seed(0).child(NAME, case.name).torch_generator()
        if batched:
            batches = [sampler(logits.repeat(draws, 1), **settings)]
        else:
            batches = [sampler(logits.clone(), **settings) for _ in range(draws)]
        return np.concatenate([np.asarray(ids).reshape(-1) for ids in batches]).astype(np.int64)

    rows, skipped = [], []
    for case in cases(ties):
        if set(case.options) <= set(given):
            rows.append(_run(draw, case, draws, seeded="generator" in takes))
        else:
            skipped.append(case.name)
    wrong = [row for row in rows if row["problem"]]
    evidence = {"table": rows, "skipped": skipped, "options": given, "draws": draws}
    why = f"all {len(rows)} cases of the table are right"
    if skipped:
        why += f" (left out, for options it does not take: {counted(len(skipped), 'row')})"
    problem = f"{wrong[0]['case']}: {wrong[0]['problem']}" if wrong else ""
    return Finding.judged(NAME, problem, why, len(wrong), 0, evidence)


def _run(
    draw: Callable[[Case], np.ndarray], case: Case, draws: int, *, seeded: bool
) -> dict[str, Any]:
    """One row of the table: what was drawn, and what is wrong with it."""
    row: dict[str, Any] = {"case": case.name, "problem": "", "refused": False}
    try:
        ids = draw(case)
        again = draw(case) if seeded else ids
    except REFUSALS as error:
        row["refused"] = case.may_refuse
        row["problem"] = "" if case.may_refuse else f"refused: {error}"
        return row
    except Exception as error:  # a user's own code may fail in any way, and that is the finding
        row["refused"] = expected = any(x != x for x in case.logits)
        row["problem"] = "" if expected else f"{type(error).__name__}: {error}"[:200]
        return row
    size = len(case.logits)
    if ids.size != draws or ids.min() < 0 or ids.max() >= size:
        row["problem"] = f"{ids.size} ids for {draws} rows, from {ids.min()} to {ids.max()}"
        return row
    counts = np.bincount(ids, minlength=size)
    row["drawn"] = {str(i): int(c) for i, c in enumerate(counts) if c} if size < 20 else None
    row["problem"] = (_frequency_problem if case.chances else _tie_problem)(case, counts)
    if not row["problem"] and not np.array_equal(ids, again):
        row["problem"] = "the same generator gives other draws the second time"
    return row


def _frequency_problem(case: Case, counts: np.ndarray) -> str:
    """Nothing that is dropped, everything that is kept, as often as softmax says."""
    from scipy.special import chdtrc

    expected = np.asarray(case.chances) * counts.sum()
    extra = np.flatnonzero((expected == 0) & (counts > 0))
    if extra.size:
        return f"token {extra[0]} is drawn {counts[extra[0]]} times and should be dropped"
    lost = np.flatnonzero((expected >= EXPECTED) & (counts == 0))
    if lost.size:
        return (
            f"token {lost[0]} is never drawn and should be {expected[lost[0]]:.0f} times "
            f"({lost.size} tokens are lost)"
        )
    small = expected < CELL
    drawn = np.append(counts[~small], counts[small].sum())
    wanted = np.append(expected[~small], expected[small].sum())
    drawn, wanted = drawn[wanted > 0], wanted[wanted > 0]
    if drawn.size < 2:
        return ""
    chi2 = float(((drawn - wanted) ** 2 / wanted).sum())
    p = float(chdtrc(drawn.size - 1, chi2))
    if p >= RARE:
        return ""
    worst = int(np.argmax(np.abs(counts - expected) / np.sqrt(np.maximum(expected, 1))))
    return (
        f"frequencies are off (χ² = {chi2:.0f}, p = {p:.1g}): token {worst} is drawn "
        f"{counts[worst]} times, not {expected[worst]:.0f}"
    )


def _tie_problem(case: Case, counts: np.ndarray) -> str:
    kept = {int(i) for i in np.flatnonzero(counts)}
    beyond = sorted(kept - case.among)
    if beyond:
        return f"token {beyond[0]} is drawn {counts[beyond[0]]} times and never should be"
    if len(kept) > case.at_most:
        return f"it keeps {counted(len(kept), 'token')}, {case.at_most} at most should be kept"
    if not case.always <= kept:
        return f"token {min(case.always - kept)} is never drawn and should be kept"
    return ""
