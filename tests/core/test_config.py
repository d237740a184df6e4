"""Settings are data: any text is a value or one UsageError line, and one value has one hash."""

import datetime
import hashlib
import json
import random
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from attnlab.core.config import (
    CONFIG_FILE_LIMIT,
    Settings,
    build,
    canonical_json,
    content_hash,
    parse_assignment,
    read_toml,
    suggest,
)
from attnlab.core.errors import UsageError

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=11),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=7), inner),
    max_leaves=13,
)


class Garden(Settings):
    trees: int = Field(default=7, ge=1)
    height: float = 2.5
    kind: Literal["oak", "elm"] = "oak"
    beds: tuple[int, ...] = (3, 5)


def refused(**values: Any) -> str:
    with pytest.raises(UsageError) as caught:
        build(Garden, values)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_misspelt_key_is_answered_with_the_nearest() -> None:
    assert refused(tres=11) == "unknown setting 'tres': did you mean 'trees'?"
    assert "known: beds, height, kind, trees" in refused(zzz=11)


def test_a_value_that_does_not_fit_is_named() -> None:
    assert "'trees'" in refused(trees="eleven")
    assert "'trees'" in refused(trees=0)
    assert "'trees'" in refused(trees=2.5)
    assert "'trees'" in refused(trees=True)
    assert "'kind'" in refused(kind="ash")
    assert "'beds.1'" in refused(beds=[2, "x"])
    assert len(refused(trees="9" * 100_000)) < 200


@pytest.mark.parametrize("value", [float("nan"), float("inf"), datetime.date(1979, 5, 27), {1, 2}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    refused(height=value)


@pytest.mark.parametrize(
    "value", [{"_target_": "os.system"}, "!!python/object:os.system", "{{ 7 * 7 }}", "${HOME}"]
)
def test_a_config_is_data_and_nothing_in_it_runs(value: object) -> None:
    refused(trees=value)
    refused(_target_=value)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        build(Garden, {}).trees = 11


def test_python_and_files_meet_the_same_rule(tmp_path: Path) -> None:
    path = tmp_path / "garden.toml"
    path.write_text('trees = 11\nbeds = [2, 13]\nkind = "elm"\n', encoding="utf-8")
    assert build(Garden, read_toml(path)) == build(
        Garden, {"trees": 11, "beds": (2, 13), "kind": "elm"}
    )


@given(st.text(max_size=61))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_any_assignment_is_a_pair_or_a_usage_error(text: str) -> None:
    try:
        key, value = parse_assignment(text)
    except UsageError:
        return
    assert key
    try:
        build(Garden, {key: value})
    except UsageError as error:
        assert str(error)


@given(st.sampled_from(["trees", "height", "kind", "beds"]), json_values)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_any_plain_value_is_accepted_or_refused_in_one_line(key: str, value: Any) -> None:
    try:
        made = build(Garden, {key: value})
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert build(Garden, made.model_dump(mode="json")) == made


@given(st.binary(max_size=97) | st.text(max_size=61).map(str.encode))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_any_file_is_settings_or_a_usage_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    try:
        assert read_toml(path) == tomllib.loads(data.decode())
    except UsageError as error:
        assert str(path) in str(error)


def test_files_that_are_no_settings(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (CONFIG_FILE_LIMIT + 1))
    deep = tmp_path / "deep.toml"
    deep.write_text("a = " + "[" * 100_000, encoding="utf-8")
    for path in (large, deep, tmp_path / "none.toml", tmp_path):
        with pytest.raises(UsageError, match=path.name):
            read_toml(path)


def test_a_number_of_five_thousand_digits_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "digits.toml"
    path.write_text("trees = " + "9" * 5003, encoding="utf-8")
    with pytest.raises(UsageError):
        read_toml(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=7", 7),
        (" a = 2.5 ", 2.5),
        ("a=true", True),
        ("a=[3, 5]", [3, 5]),
        ('a="7"', "7"),
        ("a=oak", "oak"),
        ("a=b=c", "b=c"),
        ("a=", ""),
        ("a=" + "9" * 5003, "9" * 5003),
    ],
)
def test_an_assignment_is_read_as_toml_else_as_a_word(text: str, value: object) -> None:
    assert parse_assignment(text) == ("a", value)


@pytest.mark.parametrize("text", ["", "=", "=3", "a", "a=" + "x" * (CONFIG_FILE_LIMIT + 1)])
def test_an_assignment_needs_a_key_and_a_value(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_assignment(text)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    with pytest.raises(UsageError, match="nested more than 32 levels deep"):
        parse_assignment("a=" + "[" * 100_000)


@given(st.dictionaries(st.text(max_size=7), json_values, max_size=7), st.randoms())
@settings(max_examples=100, derandomize=True, deadline=None)
def test_the_hash_does_not_depend_on_the_order_of_keys(
    value: dict[str, Any], shuffler: random.Random
) -> None:
    keys = list(value)
    shuffler.shuffle(keys)
    assert content_hash({key: value[key] for key in keys}) == content_hash(value)
    assert json.loads(canonical_json(value)) == value


def test_the_hash_is_sha256_of_the_canonical_text() -> None:
    # origin: printf of the text below (\u03b1 written out) piped through GNU sha256sum
    text = '{"a":[1,2.5,"\\u03b1"],"b":null}'
    assert canonical_json({"b": None, "a": (1, 2.5, "α")}) == text
    golden = "17b77753"
    assert content_hash({"b": None, "a": [1, 2.5, "α"]}, 8) == golden
    assert hashlib.sha256(text.encode()).hexdigest().startswith(golden)


def test_nearest() -> None:
    assert suggest("smoek", ["smoke", "quick"]) == "did you mean 'smoke'?"
    assert suggest("x", ["smoke", "quick"]) == "known: quick, smoke"
