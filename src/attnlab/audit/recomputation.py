"""recomputation: can the figures of a table come from one another?

Runs: arithmetic on reported figures, each taken as the range its last digit allows. Perplexity
must be exp(loss); an accuracy must be k/n for the n given; a total must be the sum of its parts;
ROUGE-2, L and Lsum cannot exceed ROUGE-1, and L and Lsum must both be there, for a table with one
of them does not say which it is. Number: figures that cannot be. Fails on any.

    recomputation([{"name": "GPT", "loss": "5.73", "perplexity": "401"}])    exp(5.73) is 308
"""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

from attnlab.audit.finding import Finding

NAME = "recomputation"
Figure = str | int | float
Row = Mapping[str, Figure]
LOSSES = ("loss", "nll", "cross_entropy")
PERPLEXITIES = ("perplexity", "ppl")
ROUGE = {"rouge1": "1", "rouge2": "2", "rougel": "L", "rougelsum": "Lsum"}
SLACK = 1e-9  # rounding of the arithmetic itself, relative


def recomputation(
    table: Sequence[Row],
    *,
    items: Mapping[str, int] | None = None,
    totals: Mapping[str, Sequence[str]] | None = None,
    name: str = "name",
) -> Finding:
    """Judge the rows of a table; figures as text keep their digits ("0.90" is not "0.9").

    items: for a column of shares (or per cents, above 1), how many items they are shares of.
    totals: for a column, the columns it is the sum of.
    """
    problems: list[str] = []
    checks = 0
    for number, row in enumerate(table):
        who = str(row.get(name, f"row {number + 1}"))
        found = [
            *_unreadable(row, name),
            *_perplexities(row),
            *_shares(row, items or {}),
            *_totals(row, totals or {}),
            *_rouge(row),
        ]
        checks += len(found)
        problems += [f"{who}: {said}" for said in found if said]
    evidence = {
        "problems": problems,
        "checks": checks,
        "smallest_items": smallest_items(table, items or {}),
    }
    if checks == 0:
        why = "no figure of the table can be computed from another"
        return Finding(NAME, "not-applicable", None, 0, why, evidence)
    if problems:
        return Finding(NAME, "fail", len(problems), 0, problems[0], evidence)
    return Finding(NAME, "pass", 0, 0, f"all {checks} figures agree with one another", evidence)


def between(figure: Figure) -> tuple[float, float]:
    """The numbers that would be written like this: half a unit of the last digit either way.

    A float or a whole number given as a number is exact up to its shortest form's last digit.
    """
    value = Decimal(str(figure).strip().rstrip("%").replace("−", "-"))
    if not value.is_finite():
        raise InvalidOperation(f"{figure!r} is not a figure")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    half = Decimal(5).scaleb(exponent - 1)
    return float(value - half), float(value + half)


def smallest_items(table: Sequence[Row], columns: Mapping[str, int]) -> dict[str, int]:
    """For each column of shares: the fewest items that could give all its figures."""
    found = {}
    for column, most in columns.items():
        ranges = [_share(row[column]) for row in table if column in row and _readable(row[column])]
        sizes = (
            n for n in range(1, most + 1) if all(_some_k(low, high, n) for low, high in ranges)
        )
        smallest = next(sizes, None)
        if ranges and smallest is not None:
            found[column] = smallest
    return found


def _readable(figure: Figure) -> bool:
    try:
        between(figure)
    except InvalidOperation:
        return False
    return True


def _unreadable(row: Row, name: str) -> list[str]:
    """Text that starts like a figure and is none, "16.67.4" say."""
    texts = ((k, v) for k, v in row.items() if k != name and isinstance(v, str))
    return [
        f"{column} is {text!r}, which is no figure"
        for column, text in texts
        if re.match(r"\s*[-−+]?\d", text) and not _readable(text)
    ]


def _perplexities(row: Row) -> list[str]:
    """exp(loss) against perplexity, for every pair of columns with the same other words."""
    found = []
    for loss in LOSSES:
        for perplexity in PERPLEXITIES:
            for column in [c for c in row if re.search(rf"(?<![a-z]){loss}(?![a-z])", c.lower())]:
                other = re.sub(loss, perplexity, column, flags=re.IGNORECASE)
                pair = {c.lower(): c for c in row}.get(other.lower())
                if pair and _readable(row[column]) and _readable(row[pair]):
                    found.append(_perplexity(row, column, pair))
    return found


def _perplexity(row: Row, loss: str, perplexity: str) -> str:
    (low, high), (least, most) = between(row[loss]), between(row[perplexity])
    if _exp(low) * (1 - SLACK) <= most and least <= _exp(high) * (1 + SLACK):
        return ""
    middle = _exp((low + high) / 2)
    return f"{perplexity} is {row[perplexity]}, but exp({loss}) = exp({row[loss]}) is {middle:.4g}"


def _shares(row: Row, items: Mapping[str, int]) -> list[str]:
    found = []
    for column, n in items.items():
        if column not in row or not _readable(row[column]):
            continue
        low, high = _share(row[column])
        if _some_k(low, high, n):
            found.append("")
        else:
            k = round((low + high) / 2 * n)
            found.append(
                f"{column} is {row[column]}, but no number out of {n} is: {k}/{n} is {k / n:.6g}"
            )
    return found


def _share(figure: Figure) -> tuple[float, float]:
    """Per cents are those written with % or above 1."""
    low, high = between(figure)
    percent = "%" in str(figure) or (low + high) / 2 > 1
    return (low / 100, high / 100) if percent else (low, high)


def _some_k(low: float, high: float, n: int) -> bool:
    k = max(math.ceil(low * n - SLACK * n), 0)
    return k <= min(high * n + SLACK * n, n)


def _totals(row: Row, totals: Mapping[str, Sequence[str]]) -> list[str]:
    found = []
    for column, parts in totals.items():
        if any(c not in row or not _readable(row[c]) for c in (column, *parts)):
            continue
        ranges = [between(row[part]) for part in parts]
        low, high = sum(r[0] for r in ranges), sum(r[1] for r in ranges)
        least, most = between(row[column])
        slack = SLACK * max(abs(low), abs(high))
        fits = low - slack <= most and least <= high + slack
        said = f"{column} is {row[column]}, but its parts add up to {(low + high) / 2:.6g}"
        found.append("" if fits else said)
    return found


def _rouge(row: Row) -> list[str]:
    columns = {ROUGE[key]: c for c in row if (key := re.sub(r"[^a-z0-9]", "", c.lower())) in ROUGE}
    found = []
    if len(columns.keys() & {"L", "Lsum"}) == 1:
        (given,) = columns.keys() & {"L", "Lsum"}
        missing = "Lsum" if given == "L" else "L"
        found.append(f"ROUGE-{given} without ROUGE-{missing}: their names are often swapped")
    figures = {k: between(row[c]) for k, c in columns.items() if _readable(row[c])}
    for other in ("2", "L", "Lsum"):
        if other in figures and "1" in figures:
            too_much = figures[other][0] > figures["1"][1]
            found.append(f"ROUGE-{other} exceeds ROUGE-1, which it cannot" if too_much else "")
    return found


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf
