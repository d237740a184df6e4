"""Families are declared before the data: which comparisons there are depends on settings only."""

import json
from collections.abc import Iterator, Mapping
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


class Invented(Mapping[str, Any]):
    """Any metric that is asked for and is no setting: a number in 0 … 1 that varies by trial."""

    def __init__(self, trial: str, config: Mapping[str, Any]) -> None:
        self.trial, self.config = trial, config

    def __getitem__(self, key: str) -> Any:
        if key in self.config:
            raise KeyError(key)
        if key.endswith(("_n", "tested", "rows", "own_prompts")):
            return 2 if key == "own_prompts" else ITEMS
        if key.endswith(("_right", "right")):
            return int(ITEMS * self.number(key))
        return self.number(key)

    def number(self, key: str) -> float:
        return float(Seed(0).child(self.trial, key).numpy_generator().uniform(0.1, 0.9))

    def __contains__(self, key: object) -> bool:
        return key not in self.config

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Numbers(Invented):
    """Any array or curve that is asked for."""

    def __getitem__(self, key: str) -> Any:
        rng = Seed(0).child(self.trial, key).numpy_generator()
        return rng.uniform(0.1, 0.9, ITEMS).tolist() if self.config else rng.uniform(size=ITEMS)

    def __iter__(self) -> Iterator[str]:
        return iter(("alpha", "converged", "m", "theta"))  # a theory curve is read as a whole


def row_of(study: Study, trial: Any) -> Row:
    cells = [
        {"rate": rate, "batch": 16, "epochs": 1.0, "dev_loss": 0.5}
        | {name: 0.5 + 0.01 * i for name in ("dev_accuracy", "last_dev_accuracy")}
        for i, rate in enumerate(trial.config.get("rates", []))
    ]
    documents = {CELLS: json.dumps(cells), "texts.json": json.dumps(["a b c d e f"] * ITEMS)}
    return Row(
        trial.id,
        trial.seed,
        "done",
        trial.config,
        Invented(trial.id, trial.config),
        load_arrays=lambda: Numbers(trial.id, {}),
        load_curves=lambda: Numbers(trial.id, {"a list": True}),
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
