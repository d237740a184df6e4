"""Between a trial's outcome and its row of text: canonical JSON out, checked JSON in."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

from attnlab.core.config import canonical_json
from attnlab.core.errors import IntegrityError
from attnlab.core.signed import FileEntry
from attnlab.lab.artefacts import ARRAYS, CURVES, DOCUMENTS, KINDS, SAMPLES, read_artefact
from attnlab.lab.findings import finding_of, stored_finding
from attnlab.lab.store import StoredRow, parse_object
from attnlab.lab.table import Row
from attnlab.lab.trial import Outcome, State, Trial

STATES: frozenset[str] = frozenset(get_args(State))
ERROR_LIMIT = 8_000  # characters of traceback or log kept with a trial


def stored_row(
    trial: Trial,
    state: State,
    outcome: Outcome | None,
    files: Mapping[str, FileEntry],
    cost: Mapping[str, float],
    error: str,
) -> StoredRow:
    """The row of a trial that ended, however it ended."""
    return StoredRow(
        id=trial.id,
        seed=trial.seed,
        config=canonical_json(dict(trial.config)),
        state=state,
        metrics=canonical_json(dict(outcome.metrics) if outcome else {}),
        reasons=canonical_json(dict(outcome.reasons) if outcome else {}),
        artefacts=canonical_json({name: entry.model_dump() for name, entry in files.items()}),
        cost=canonical_json(dict(cost)),
        error=error[-ERROR_LIMIT:].encode("utf-8", "replace").decode(),
        findings=tuple(stored_finding(f) for f in outcome.findings) if outcome else (),
    )


def artefacts_of(row: StoredRow) -> dict[str, FileEntry]:
    """The files a row names, by file name."""
    if row.artefacts == "{}":
        return {}
    what = f"trial {row.id!s:.40}"
    found = parse_object(row.artefacts, lambda item: isinstance(item, dict), what)
    try:
        if set(found) <= KINDS:
            return {name: FileEntry.model_validate(found[name]) for name in sorted(found)}
    except ValueError:
        pass
    raise IntegrityError(f"{what}: names files that no trial writes")


def checked_row(run: Path, stored: StoredRow, study: str, version: int) -> Row:
    """The row as the table shows it; arrays and curves are read, and checked, when asked for."""
    what = f"trial {stored.id!s:.40}"
    config = parse_object(stored.config, lambda _: True, what)
    try:
        same = Trial(study, version, config, stored.seed).id == stored.id
    except (ValueError, TypeError, RecursionError):
        raise IntegrityError(f"{what}: not what a trial writes") from None
    if not same:
        raise IntegrityError(f"{what}: its id is not the hash of its configuration and seed")
    if stored.state not in STATES:
        raise IntegrityError(f"{what}: unknown state {stored.state!s:.40}")
    files = artefacts_of(stored)
    loaders = {
        name: partial(read_artefact, run, stored.id, name, entry) for name, entry in files.items()
    }
    return Row(
        id=stored.id,
        seed=stored.seed,
        state=stored.state,
        config=config,
        metrics=parse_object(stored.metrics, _is_scalar, what),
        cost=parse_object(stored.cost, lambda item: isinstance(item, int | float), what),
        error=stored.error,
        reasons=parse_object(stored.reasons, lambda item: isinstance(item, str), what),
        findings=tuple(finding_of(values, what) for values in stored.findings),
        load_arrays=loaders.get(ARRAYS, dict),
        load_curves=loaders.get(CURVES, dict),
        load_samples=loaders.get(SAMPLES, list),
        load_documents=loaders.get(DOCUMENTS, dict),
    )


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, float | int | str)
