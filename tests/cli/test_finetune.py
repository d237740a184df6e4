"""`attnlab finetune` and `attnlab predict`: from a table to a classifier that answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.core.seeds import Seed
from attnlab.lab.record import Record
from tests.cli.conftest import Said, call
from tests.models.tiny_encoder import BAD, GOOD, PLAIN, bert_folder

D, L = 12, 2
METHODS = {
    "head": 2 * D + 2,
    "lora": 4 * 8 * L * D + 2 * D + 2,
    "prefix": (5 + 2) * D + 2,
    "prefix-layers": (2 * 5 * L + 2) * D + 2,
}


def reviews(path: Path, rows: int = 240) -> Path:
    """One word decides; the words around it do not."""
    rng = Seed(3).numpy_generator()
    lines = ["review,stars"]
    for i in range(rows):
        said = [str(w) for w in rng.choice(PLAIN + tuple(f"w{k}" for k in range(30)), 5)]
        said.insert(int(rng.integers(6)), str(rng.choice(GOOD if i % 2 else BAD)))
        lines.append(f"{' '.join(said)},{'up' if i % 2 else 'down'}")
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finetune")
    reviews(folder / "my.csv")
    bert_folder(folder / "bert")
    return folder


def finetune(place: Path, *more: str) -> Said:
    return call(
        "finetune",
        "--data",
        str(place / "my.csv"),
        "--text",
        "review",
        "--label",
        "stars",
        "--model",
        str(place / "bert"),
        "--out",
        str(place / "runs"),
        "--device",
        "cpu",
        "--threads",
        "1",
        "--set",
        "prefix_length=5",
        "--set",
        "batch=16",
        *more,
    )


@pytest.fixture(scope="module")
def full(place: Path) -> dict[str, Any]:
    said = finetune(
        place, "--method", "full", "--epochs", "6", "--set", "learning_rate=0.01", "--json"
    )
    assert said.code == 0, said.err
    return json.loads(said.out)


def test_finetune_learns_and_reports_its_accuracy(place: Path, full: dict[str, Any]) -> None:
    assert list(full)[:5] == ["run", "accuracy", "interval", "majority", "parameters"]
    low, high = full["interval"]
    assert full["majority"] < low <= full["accuracy"] <= high and full["collapse"] is None
    assert full["parameters"]["trained"] == full["parameters"]["stored"] > 26
    results = json.loads((Path(full["path"]) / "results.json").read_text())
    found = {audit["name"]: audit["verdict"] for audit in results["audits"]}
    assert found == {
        "split-overlap": "pass",
        "freeze": "pass",
        "collapse": "pass",
        "baselines": "pass",
        "adapter-effect": "pass",
        "metric-invariance": "pass",
    }, results["audits"]
    assert call("verify", full["run"], "--out", str(place / "runs")).code == 0


def test_a_second_time_nothing_is_run(place: Path, full: dict[str, Any]) -> None:
    said = finetune(place, "--method", "full", "--epochs", "6", "--set", "learning_rate=0.01")
    assert said.code == 0 and "nothing was run again" in said.err
    assert said.out.splitlines()[0].endswith("above the majority class.")


def test_predict(place: Path, full: dict[str, Any]) -> None:
    texts = ["a lovely film w3", "a dull film w3", *["it w1 good w2 " * 9] * 4]
    argv = [word for text in texts for word in ("--text", text)]
    said = call("predict", full["run"], *argv, "--out", str(place / "runs"), "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["run"] == full["run"]
    assert [p["label"] for p in found["predictions"]] == ["up", "down", *["up"] * 4]
    for p in found["predictions"]:
        assert sum(p["probabilities"].values()) == pytest.approx(1, abs=1e-12)
    assert [p["cut_tokens"] for p in found["predictions"]] == [0, 0, *[36 + 2 - 31] * 4]
    plain = call("predict", full["run"], *argv, "--out", str(place / "runs"))
    assert plain.out.splitlines()[1].split()[0] == "up"
    pair = call(
        "predict", full["run"], "--text", "a", "--second", "b", "--out", str(place / "runs")
    )
    assert pair.code == 2 and "single texts, not pairs" in pair.err


@pytest.mark.parametrize(
    "method",
    [
        "lora",
        "prefix",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("head", "prefix-layers")),
    ],
)
def test_every_method_counts_and_keeps_its_audits(place: Path, method: str) -> None:
    said = finetune(place, "--method", method, "--epochs", "1", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["parameters"] == {
        "trained": METHODS[method],
        "stored": METHODS[method],
        "head": 2 * D + 2,
    }
    results = json.loads((Path(found["path"]) / "results.json").read_text())
    verdicts = {audit["name"]: audit["verdict"] for audit in results["audits"]}
    assert (verdicts["freeze"], verdicts["adapter-effect"]) == ("pass", "pass"), results["audits"]
    asked = call("predict", found["run"], "--text", "a good film", "--out", str(place / "runs"))
    assert asked.code == 0, asked.err


def test_random_weights_are_a_control_that_can_be_asked(place: Path) -> None:
    said = finetune(place, "--method", "full", "--set", "init=random", "--epochs", "1", "--json")
    assert said.code == 0, said.err
    name = json.loads(said.out)["run"]
    asked = call("predict", name, "--text", "a good film", "--out", str(place / "runs"))
    assert asked.code == 0, asked.err
    adapter = finetune(place, "--method", "lora", "--set", "init=random")
    assert adapter.code == 2 and "method 'full'" in adapter.err


def test_pairs(place: Path) -> None:
    """A question and a passage; the answer asks for both again."""
    rows = [
        {
            "q": f"good w{i % 7}" if i % 2 else f"bad w{i % 7}",
            "p": f"it w{i % 30} w{i // 30}",
            "a": bool(i % 2),
        }
        for i in range(60)
    ]
    data = place / "pairs.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    said = finetune(
        place,
        "--data",
        str(data),
        "--text",
        "q",
        "--second",
        "p",
        "--label",
        "a",
        "--method",
        "head",
        "--epochs",
        "1",
        "--json",
    )
    assert said.code == 0, said.err
    name, out = json.loads(said.out)["run"], str(place / "runs")
    alone = call("predict", name, "--text", "good", "--out", out)
    assert alone.code == 2 and "--second for every --text" in alone.err
    both = call("predict", name, "--text", "good", "--second", "it w1", "--out", out, "--json")
    (answer,) = json.loads(both.out)["predictions"]
    assert answer["second"] == "it w1" and set(answer["probabilities"]) == {"false", "true"}


def test_a_planted_collapse_is_named(place: Path) -> None:
    """A rate a thousand times too high: every answer is one class, and the first line says so."""
    hot = ("--method", "full", "--epochs", "3", "--set", "learning_rate=20.0", "--seed", "1")
    said = finetune(place, *hot)
    assert said.code == 0, said.err
    assert said.out.startswith("Collapsed: "), said.out
    found = json.loads(finetune(place, *hot, "--json").out)
    assert found["collapse"]
    results = json.loads((Path(found["path"]) / "results.json").read_text())
    audit = next(a for a in results["audits"] if a["name"] == "collapse")
    assert audit["verdict"] == "fail"
    (row,) = Record.open(Path(found["path"])).table()
    finding = row.failure("collapse")
    assert finding and "within the first epoch" in finding.evidence["first_epoch"]


WRONG: dict[str, tuple[list[str], str]] = {
    "column": (["--text", "reviews"], "line 2: no column 'reviews'; did you mean 'review'"),
    "file": (["--data", "nowhere.csv"], "nowhere.csv: no such file"),
    "name": (["--data", "sentment"], "did you mean 'sentiment'"),
    "method": (["--method", "lorra"], "method"),
    "model": (["--model", "nowhere"], "no such folder, asset"),
    "own": (["--set", "method=head"], "--method"),
    "prefix": (["--method", "prefix", "--set", "prefix_length=40"], "no room"),
    "pooling": (["--set", "pooling=virtual"], "virtual"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_meant(place: Path, case: str) -> None:
    argv, words = WRONG[case]
    said = finetune(place, *argv)
    assert said.code == 2 and words in said.err, said.err
    assert said.out == "" and len(said.err.strip().splitlines()) <= 2


def test_a_run_without_a_classifier(stored: Path) -> None:
    said = call("predict", str(stored), "--text", "x")
    assert said.code == 2 and "no fine-tuned classifier" in said.err
