"""Families are declared before the data: which comparisons there are depends on settings only."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from attnlab.core.seeds import Seed
from attnlab.lab.source import load_study_class
from attnlab.lab.study import Study
from attnlab.lab.table import Row, Table
from attnlab.studies import STUDIES
from attnlab.studies.adapting.evidence import CELLS

ITEMS = 23


class Invented(dict[str, Any]):
    """The columns of a trial, and any metric that is asked for: a number that varies by trial."""

    def __init__(self, trial: str, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.trial = trial

    def __missing__(self, key: str) -> float:
        if key.endswith(("_n", "tested", "rows", "own_prompts")):
            return 2 if key == "own_prompts" else ITEMS
        number = float(Seed(0).child(self.trial, key).numpy_generator().uniform(0.1, 0.9))
        return int(ITEMS * number) if key.endswith("right") else number

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]


class InventedRow(Row):
    """A trial that measured everything a study may ask for."""

    @cached_property
    def columns(self) -> dict[str, Any]:
        return Invented(self.id, super().columns)


class Numbers(dict[str, Any]):
    """Any array or curve that is asked for; a theory curve is read as a whole, by these names."""

    def __init__(self, trial: str, *, lists: bool) -> None:
        super().__init__(dict.fromkeys(("alpha", "converged", "m", "theta")))
        self.trial, self.lists = trial, lists

    def __getitem__(self, key: str) -> Any:
        rng = Seed(0).child(self.trial, key).numpy_generator()
        return rng.uniform(0.1, 0.9, ITEMS).tolist() if self.lists else rng.uniform(size=ITEMS)

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def items(self) -> Any:
        return {key: self[key] for key in self}.items()


def row_of(study: Study, trial: Any) -> Row:
    cells = [
        {"rate": rate, "batch": 16, "epochs": 1.0, "dev_loss": 0.5}
        | {name: 0.5 + 0.01 * i for name in ("dev_accuracy", "last_dev_accuracy")}
        for i, rate in enumerate(trial.config.get("rates", []))
    ]
    documents = {CELLS: json.dumps(cells), "texts.json": json.dumps(["a b c d e f"] * ITEMS)}
    return InventedRow(
        trial.id,
        trial.seed,
        "done",
        trial.config,
        {},
        load_arrays=lambda: Numbers(trial.id, lists=False),
        load_curves=lambda: Numbers(trial.id, lists=True),
        load_documents=lambda: documents,
    )


def family(study: Study, table: Table) -> list[str]:
    return [claim.name for claim in study.claims(study.evidence(table)) if claim.comparison]


@pytest.mark.parametrize("name", STUDIES)
def test_comparisons_are_the_same_without_and_with_trials(name: str) -> None:
    study = load_study_class(name).at("smoke")
    declared = family(study, Table([]))
    trials = list(study.trials())
    rows = [row_of(study, trial) for trial in trials]
    assert len(set(declared)) == len(declared)
    with np.errstate(all="ignore"):
        assert family(study, Table(rows)) == declared
        assert family(study, Table(rows[::2])) == declared, "half of the trials crashed"
