"""sampler-table: does the sampler keep the tokens it says, and draw them as often as it should?

Runs: fixed logits with temperature 0, top-k 0, 1, V and more, top-p 0, exact sums and 1, ties, one
possible token, a NaN; thousands of draws each. Number: rows of the table that are off. Fails when a
token is drawn that the filter drops, one is never drawn that it keeps, frequencies differ from
softmax (χ², p < 1e-6), the sampler crashes (an error that refuses the setting is an answer where
the setting is an odd one), or the same generator gives other draws. Options it does not take are
skipped and counted.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch

from attnlab.audit.checks.sampler_cases import Case, cases
from attnlab.audit.finding import Finding
from attnlab.audit.registry import NotApplicable, audit
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
    takes = _accepted_options(sampler, options)
    given = [o for o in takes if o in OPTIONS]
    rows, skipped = [], []
    for case in cases(ties):
        if set(case.options) <= set(given):
            rows.append(_run(sampler, case, batched, draws, "generator" in takes))
        else:
            skipped.append(case.name)
    wrong = [row for row in rows if row["problem"]]
    evidence = {"table": rows, "skipped": skipped, "options": given, "draws": draws}
    if not rows:
        raise NotApplicable("the sampler takes none of the options", evidence=evidence)
    note = (
        f" (left out, for options it does not take: {counted(len(skipped), 'row')})"
        if skipped
        else ""
    )
    if wrong:
        why = f"{wrong[0]['case']}: {wrong[0]['problem']}"
        return Finding(NAME, "fail", len(wrong), 0, why, evidence)
    why = f"all {len(rows)} cases of the table are right{note}"
    return Finding(NAME, "pass", 0, 0, why, evidence)


def _accepted_options(
    sampler: Callable[..., Any], options: Sequence[str] | None
) -> tuple[str, ...]:
    parameters = inspect.signature(sampler).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = (*OPTIONS, "generator")
    takes = known if open_ended else tuple(name for name in known if name in parameters)
    if options is None:
        return takes
    return tuple(name for name in takes if name in options or name == "generator")


def _run(
    sampler: Callable[..., Any], case: Case, batched: bool, draws: int, seeded: bool
) -> dict[str, Any]:
    """One row of the table: what was drawn, and what is wrong with it."""
    row: dict[str, Any] = {"case": case.name, "problem": "", "refused": False}
    try:
        ids = _draw(sampler, case, batched, draws, seeded)
        again = ids if not seeded else _draw(sampler, case, batched, draws, seeded)
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
    row["problem"] = (
        _frequency_problem(case, counts) if case.chances else _tie_problem(case, counts)
    )
    if not row["problem"] and not np.array_equal(ids, again):
        row["problem"] = "the same generator gives other draws the second time"
    return row


def _draw(
    sampler: Callable[..., Any], case: Case, batched: bool, draws: int, seeded: bool
) -> np.ndarray:
    logits = torch.tensor(case.logits)
    options: dict[str, Any] = dict(case.options)
    if seeded:
        options["generator"] = Seed(0).child(NAME, case.name).torch_generator()
    if batched:
        batches = [sampler(logits.repeat(draws, 1), **options)]
    else:
        batches = [sampler(logits.clone(), **options) for _ in range(draws)]
    return np.concatenate([np.asarray(ids).reshape(-1) for ids in batches]).astype(np.int64)


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
