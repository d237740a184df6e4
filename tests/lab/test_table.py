"""Columns by name: a name that no row has is refused with the nearest one."""

import math

import pytest

from attnlab.core.errors import UsageError
from attnlab.lab.table import Row, Table

TABLE = Table(
    [
        Row("a", 0, "done", {"kind": "model", "arm": "plain"}, {"accuracy": 0.5}),
        Row("b", 1, "done", {"kind": "model", "arm": "deep"}, {}),
        Row("c", 0, "done", {"kind": "theory"}, {"slope": 2.0}),
    ]
)


def test_rows_are_chosen_by_settings_metrics_and_seed() -> None:
    assert TABLE.where(kind="model", arm="deep").ids == ("b",)
    assert TABLE.where(slope=2.0).ids == ("c",)
    assert TABLE.where(seed=0, state="done").ids == ("a", "c")
    assert TABLE.where(kind="nothing", arm="deep").ids == ()


def test_a_row_without_the_column_is_nan() -> None:
    values = TABLE.column("accuracy")
    assert values[0] == 0.5 and all(map(math.isnan, values[1:]))
    assert TABLE.column("seed").tolist() == [0, 1, 0]


def test_a_column_that_no_row_has_is_refused() -> None:
    with pytest.raises(UsageError, match="no column 'acuracy': did you mean 'accuracy'"):
        TABLE.column("acuracy")
    with pytest.raises(UsageError, match="no column 'knd': did you mean 'kind'"):
        TABLE.where(knd="model")
    with pytest.raises(UsageError, match="no column 'arm'"):
        TABLE.where(kind="theory", arm="deep")
    with pytest.raises(UsageError, match="trial a has no column 'amr': did you mean 'arm'"):
        TABLE.rows[0]["amr"]


def test_an_empty_table_has_no_columns_to_ask_for() -> None:
    assert len(Table([]).column("accuracy")) == len(Table([]).where(kind="model")) == 0
