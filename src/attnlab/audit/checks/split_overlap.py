"""split-overlap: is the score measured on rows that were neither trained on nor chosen on?

Runs: content digests of the rows of every split (text without case and extra spaces); the split
that was chosen on against the split reported; the labels of every split. Number: rows of one
split that another has too. Fails on any shared row; when the reported split is the one that
settings or checkpoints were chosen on; when a label is out of range (−1: hidden test labels), is
unknown to the first split, or is missing where its absence cannot be chance.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from numbers import Integral
from typing import Any

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.core.plural import counted
from attnlab.measure.content import digest, to_list

NAME = "split-overlap"
CHANCE = 1e-6  # (1 − share)^n: how likely a label of this share is absent from n rows
SHOWN = 3


@audit(NAME, threshold=0)
def split_overlap(
    splits: Mapping[str, Sequence[Any]],
    *,
    labels: Mapping[str, Sequence[Hashable]] | None = None,
    classes: int | None = None,
    chosen_on: str | None = None,
    reported_on: str | None = None,
) -> Finding:
    """Judge splits of any rows: text, ids, arrays, (question, passage). The first one trains."""
    shared, total = _shared_rows(splits), 0
    evidence: dict[str, Any] = {"rows": {name: len(rows) for name, rows in splits.items()}}
    problems = []
    if chosen_on is not None and chosen_on == reported_on:
        problems.append(f"settings were chosen on {chosen_on!r}, the split that is reported")
    for (one, other), places in shared.items():
        total += len(places)
        share = len(places) / len(splits[other])
        row = places[0]
        problems.append(
            f"{one!r} contains {counted(len(places), 'row')} of {other!r} ({share:.1%}); "
            f"the first is row {row[1]} of {other!r} and row {row[0]} of {one!r}"
        )
        first = [list(pair) for pair in places[:SHOWN]]
        evidence[f"{one} and {other}"] = {"rows": len(places), "share": share, "first": first}
    own_labels = {name: to_list(values) for name, values in (labels or {}).items()}
    problems += _label_problems(own_labels, classes)
    evidence["problems"] = problems
    if problems:
        return Finding(NAME, "fail", total, 0, problems[0], evidence)
    if len(splits) < 2 and not labels and chosen_on is None:
        raise NotApplicable("it needs two splits, or labels", evidence=evidence)
    why = f"no row is in two of the {len(splits)} splits"
    why += f", chosen on {chosen_on!r}, reported on {reported_on!r}" if chosen_on else ""
    return Finding(NAME, "pass", total, 0, why, evidence)


def _shared_rows(
    splits: Mapping[str, Sequence[Any]],
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """For each pair of splits that share rows: (row in the second, row in the first)."""
    keys = {name: [digest(row, loose=True) for row in rows] for name, rows in splits.items()}
    shared = {}
    for one, other in combinations(splits, 2):
        first = {key: i for i, key in reversed(list(enumerate(keys[one])))}
        pairs = [(i, first[key]) for i, key in enumerate(keys[other]) if key in first]
        if pairs:
            shared[one, other] = pairs
    return shared


def _label_problems(labels: Mapping[str, Sequence[Hashable]], classes: int | None) -> list[str]:
    """Out of range, unknown to the first split, or absent beyond chance."""
    problems = []
    for name, values in labels.items():
        if classes is not None:
            bad = [v for v in values if not (isinstance(v, Integral) and 0 <= int(v) < classes)]
            if bad:
                problems.append(
                    f"{len(bad)} labels of {name!r} are not classes from 0 to {classes - 1}, "
                    f"the first is {bad[0]!r}"
                )
    counts = {name: Counter(values) for name, values in labels.items()}
    first = next(iter(counts), None)
    for name, labels_here in counts.items():
        if first is None or name == first or not labels_here:
            continue
        base = counts[first]
        new = sorted(str(v) for v in labels_here.keys() - base.keys())
        if new:
            problems.append(
                f"{name!r} has labels that {first!r} does not have: {', '.join(new[:SHOWN])}"
            )
        n, total = labels_here.total(), base.total()
        gone = sorted(
            str(v)
            for v, c in base.items()
            if v not in labels_here and (1 - c / total) ** n < CHANCE
        )
        if gone:
            problems.append(
                f"{name!r} has no row labelled {', '.join(gone[:SHOWN])}, {first!r} has"
            )
    return problems
