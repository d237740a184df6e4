"""Turn stored results into the strings and lists that the page shows. No HTML here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.audit.finding import AUDIT_MARKS
from attnlab.lab.claim import MARKS
from attnlab.lab.table import Table
from attnlab.report.text import MISSING, counted, duration, number, plain, typeset, with_interval

AUDIT_WORDS = {
    "fail": "fails",
    "could-not-be-judged": "could not be judged",
    "pass": "passes",
    "not-applicable": "not applicable",
}
_FEW_SEEDS = 12


@dataclass
class TrialSet:
    """A set of trials and the claims and figures (`users`) that are computed from it."""

    key: str
    ids: tuple[str, ...]
    users: list[str] = field(default_factory=list)


class TrialSets:
    """All distinct sets of trials: the page lists each of them once."""

    def __init__(self) -> None:
        self._by_ids: dict[tuple[str, ...], TrialSet] = {}

    def key_of(self, ids: Sequence[object], user: str) -> str:
        """Register `user` for this set and return the set's anchor; '' for an empty set."""
        wanted = tuple(sorted({str(i) for i in ids}))
        if not wanted:
            return ""
        made = self._by_ids.setdefault(wanted, TrialSet(f"set-{len(self._by_ids) + 1}", wanted))
        made.users.append(user)
        return made.key

    def __iter__(self) -> Iterator[TrialSet]:
        return iter(self._by_ids.values())


def claims(stored: Iterable[Mapping[str, Any]], sets: TrialSets) -> list[dict[str, Any]]:
    """All claims in the study's order; an unknown verdict is shown as undecided."""
    return [_claim(index, c, sets) for index, c in enumerate(stored, start=1)]


def _claim(index: int, c: Mapping[str, Any], sets: TrialSets) -> dict[str, Any]:
    """The texts of one claim: its row in the table and its paragraph below."""
    verdict = c.get("verdict") if c.get("verdict") in MARKS else "undecided"
    trials = c.get("trials") or []
    repeated = f"{number(c.get('effect'))}, computed, "  # beside `ours` it would be said twice
    return {
        "key": f"claim-{index}",
        "statement": str(c.get("statement") or c.get("name") or ""),
        "verdict": verdict,
        "mark": MARKS[str(verdict)],
        "ours": with_interval(c.get("effect"), c.get("interval")),
        "quantity": str(c.get("quantity") or ""),
        "n": "exact" if c.get("exact") else number(c.get("n") or None),
        "reported": number(c.get("reported")),
        "comparable": c.get("comparable") is not False,
        "reported_source": str(c.get("reported_source") or ""),
        "reported_note": str(c.get("reported_note") or ""),
        "why": typeset(str(c.get("why") or "")).removeprefix(repeated),
        "method": str(c.get("interval_method") or ""),
        "trials": len(trials),
        "set_key": sets.key_of(trials, f"claim {index}"),
        "is_check": c.get("kind") == "check",
    }


def audits(stored: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Failed audits first, then those not judged, passed, not applicable; unknown is a failure."""
    order = list(AUDIT_MARKS)
    return sorted(map(_audit, stored), key=lambda a: order.index(a["verdict"]))


def _audit(a: Mapping[str, Any]) -> dict[str, str]:
    """The texts of one audit: mark, verdict, number against threshold, sentence."""
    verdict = str(a.get("verdict")) if a.get("verdict") in AUDIT_MARKS else "fail"
    measured = ""
    if a.get("number") is not None:
        measured = number(a["number"])
        if a.get("threshold") is not None:
            measured += f" against a threshold of {number(a['threshold'])}"
    return {
        "name": str(a.get("name") or ""),
        "verdict": verdict,
        "word": AUDIT_WORDS[verdict],
        "mark": AUDIT_MARKS[verdict],
        "measured": measured,
        "why": typeset(str(a.get("why") or "")),
    }


def settings_rows(
    settings: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """(name, value, default) of the settings that differ, and (name, value) of all."""
    changed = [
        (key, plain(value), plain(defaults.get(key)))
        for key, value in settings.items()
        if defaults and defaults.get(key) != value
    ]
    return changed, [(key, plain(value, longest=2_000)) for key, value in settings.items()]


def commits(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The distinct commits whose code computed this run."""
    return list(dict.fromkeys(str(s["commit"]) for s in sessions if s.get("commit")))


def machines(sessions: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, str]]]:
    """The distinct environments of the run's sessions, without their starting times."""
    environments: list[list[tuple[str, str]]] = []
    for one in sessions:
        facts = [
            (key, v if isinstance(v, str) else plain(v))
            for key, v in one.items()
            if key != "started" and v is not None
        ]
        if facts not in environments:
            environments.append(facts)
    return environments


def counts_text(counts: Mapping[str, Any]) -> str:
    """For example `300 trials done, 2 failed, 1 timeout`; states with no trial are left out."""
    done = counted(int(counts.get("done") or 0), "trial") + " done"
    others = [f"{number(n)} {state}" for state, n in counts.items() if state != "done" and n]
    return ", ".join([done, *others])


def seeds_text(table: Table) -> str:
    """The seeds, or if there are many, their number and range."""
    seeds = sorted({row.seed for row in table})
    if not seeds:
        return MISSING
    if len(seeds) <= _FEW_SEEDS:
        return ", ".join(str(s) for s in seeds)
    return f"{len(seeds):,} seeds from {seeds[0]} to {seeds[-1]}"


def cost_text(results: Mapping[str, Any], table: Table) -> str:
    """The time of all trials added up: what they would take one after the other."""
    stored = (results.get("cost") or {}).get("seconds")
    if stored is None:
        stored = sum(row.cost.get("seconds", 0.0) for row in table)
    return f"{duration(float(stored))} of computing time, summed over trials"
