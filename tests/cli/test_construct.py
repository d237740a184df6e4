"""attnlab construct: its document, its print, its refusals; weights are computed here again."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.test_refusals import refused
from tests.cli.test_streams import on_terminal

K = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.25, 0.125]])  # 4 is inside
V = np.array(
    [[2.0, 3.0, 5.0], [7.0, 11.0, 13.0], [17.0, 19.0, 23.0], [29.0, 31.0, 37.0], [41.0, 43.0, 47.0]]
)
FIELDS = {
    "query",
    "key",
    "weights",
    "output",
    "feasible",
    "attained",
    "margin",
    "norm",
    "certificate",
    "kl",
    "residual",
    "why",
    "also",
}
# softmax of scores s rounds each weight by at most a few eps·(1 + |s|); scores here stay below 60
CLOSE = 200 * np.finfo(float).eps


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """K and V in three formats, orthonormal keys, a query, and bases of two spans."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("K.csv", K, delimiter=",", fmt="%.17g")
    np.save("K.npy", K)
    Path("K.json").write_text(json.dumps(K.tolist()), encoding="utf-8")
    np.savetxt("V.csv", V, delimiter=",", fmt="%.17g")
    np.savetxt("I.csv", np.eye(5), delimiter=",", fmt="%.17g")
    Path("q.csv").write_text("3,1\n", encoding="utf-8")
    Path("A.csv").write_text("1,0,0\n0,1,0\n", encoding="utf-8")
    Path("B.csv").write_text("1,0,1\n", encoding="utf-8")
    return tmp_path


COMMANDS: dict[str, tuple[str, ...]] = {
    "select": ("select", "--keys", "K.csv", "--target", "0"),
    "impossible": ("select", "--keys", "K.csv", "--target", "4"),
    "average": ("average", "--keys", "K.csv", "--targets", "0,1"),
    "average to a weight": ("average", "--keys", "K.csv", "--targets", "0,1", "--weight", "0.9"),
    "match": ("match", "--keys", "K.csv", "--weights", ".25,.25,.25,.125,.125"),
    "match an edge": ("match", "--keys", "K.csv", "--weights", ".5,.5,0,0,0"),
    "replace-key": (
        "replace-key",
        "--keys",
        "K.csv",
        "--query",
        "q.csv",
        "--index",
        "2",
        "--goal",
        "select:2",
    ),
    "replace-key, unit": (
        "replace-key",
        "--keys",
        "K.csv",
        "--query",
        "3,1",
        "--index",
        "2",
        "--goal",
        "average:0,1,2",
        "--unit-norm",
    ),
    "design": (
        "design",
        "--keys",
        "K.csv",
        "--free",
        "2",
        "--before",
        "average:0,1",
        "--after",
        "average:0,1,2",
    ),
    "average-scale": ("average-scale", "--keys", "I.csv", "--targets", "0,1"),
}


def document(attnlab: Any, *argv: str) -> dict[str, Any]:
    said = attnlab("construct", *argv, "--json")
    assert (said.code, said.err) == (0, ""), said
    found = json.loads(said.out, parse_constant=lambda name: pytest.fail(name))
    assert isinstance(found, dict)
    return found


def softmax(keys: Any, query: Any, scale: float) -> Any:
    exponents = np.exp(scale * keys @ np.array(query) - np.max(scale * keys @ np.array(query)))
    return exponents / exponents.sum()


@pytest.mark.parametrize("scale", ["1", "sqrt"])
@pytest.mark.parametrize("name", COMMANDS)
def test_weights_output_and_norm_are_those_of_the_query(
    attnlab: Any, folder: Path, name: str, scale: str
) -> None:
    argv = COMMANDS[name]
    found = document(attnlab, *argv, "--values", "V.csv", "--scale", scale)
    assert set(found) <= FIELDS and {"query", "weights", "output", "feasible", "why"} <= set(found)
    keys = np.eye(5) if "I.csv" in argv else K.copy()
    if "key" in found:
        keys[2] = found["key"]
    weights = softmax(keys, found["query"], 1.0 if scale == "1" else keys.shape[1] ** -0.5)
    assert np.abs(weights - found["weights"]).max() < CLOSE
    assert np.abs(weights @ V - found["output"]).max() < CLOSE * V.sum()
    assert found["norm"] == pytest.approx(np.linalg.norm(found["query"]), rel=CLOSE)
    assert "output" not in document(attnlab, *argv, "--scale", scale)


def test_what_was_asked_is_what_comes(attnlab: Any, folder: Path) -> None:
    found = document(attnlab, *COMMANDS["select"], "--weight", "0.75")
    assert found["feasible"] and found["weights"][0] == pytest.approx(0.75, abs=1e-6)
    found = document(attnlab, *COMMANDS["average to a weight"])
    assert found["weights"][0] == pytest.approx(found["weights"][1], rel=1e-6)
    assert sum(found["weights"][:2]) >= 0.9 - 1e-6
    found = document(attnlab, *COMMANDS["replace-key"], "--weight", "0.875")
    assert found["feasible"] and found["weights"][2] >= 0.875
    found = document(attnlab, *COMMANDS["average-scale"], "--tolerance", "0.02")
    assert found["also"]["beta"] == pytest.approx(np.log(3 * 0.98 / 0.04), rel=1e-9)


def test_impossible_is_an_answer_and_exit_0(attnlab: Any, folder: Path) -> None:
    """Key 4 is a mean of the others: Σλk = k, whatever the query."""
    found = document(attnlab, *COMMANDS["impossible"])
    assert found["feasible"] is False
    share = np.array(found["certificate"]["lambda"])
    others = K[:4] if len(share) == 4 else K
    assert np.abs(share @ others - K[4]).max() < 1e-9 and share.sum() == pytest.approx(1)
    assert attnlab("construct", *COMMANDS["impossible"]).code == 0


def test_identity_is_every_row(attnlab: Any, folder: Path) -> None:
    found = document(attnlab, "identity", "--keys", "K.csv", "--values", "V.csv")
    assert found["feasible"] is False and np.shape(found["query"]) == (5, 2)
    assert [row["feasible"] for row in found["rows"]] == [True, True, True, True, False]
    single = document(attnlab, *COMMANDS["select"])
    assert found["query"][0] == pytest.approx(single["query"], abs=1e-6)
    assert document(attnlab, "identity", "--keys", "I.csv", "--weight", "0.9")["feasible"]
    lines = attnlab("construct", "identity", "--keys", "K.csv").out.splitlines()
    assert lines[2].split() == ["key", "selected", "weight", "norm"]
    assert [line.split()[1] for line in lines[3:]] == ["✓"] * 4 + ["✗"]


def test_extract(attnlab: Any, folder: Path) -> None:
    found = document(attnlab, "extract", "--basis-a", "A.csv", "--basis-b", "B.csv")
    matrix = np.array(found["matrix"])
    assert matrix @ np.array([[0.5, 0, 0], [0, 0.5, 0], [0.5, 0, 0.5]]).T == pytest.approx(
        np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]]).T, abs=1e-12
    )
    assert found["norm"] == pytest.approx(np.linalg.norm(matrix, 2)) == 2 / np.sin(np.pi / 4)
    shared = document(attnlab, "extract", "--basis-a", "A.csv", "--basis-b", "A.csv")
    assert shared["feasible"] is False and "matrix" not in shared


def test_a_basis_written_by_columns_is_noticed(attnlab: Any, folder: Path) -> None:
    rows = document(attnlab, "extract", "--basis-a", "A.csv", "--basis-b", "B.csv")
    Path("At.csv").write_text("1,0\n0,1\n0,0\n", encoding="utf-8")
    Path("Bt.csv").write_text("1\n0\n1\n", encoding="utf-8")
    argv = ("construct", "extract", "--basis-a", "At.csv", "--basis-b", "Bt.csv", "--json")
    noticed = attnlab(*argv)
    assert "each column is taken as one vector" in noticed.err
    assert json.loads(noticed.out)["matrix"] == rows["matrix"]
    told = attnlab(*argv, "--columns")
    assert told.err == "" and told.out == noticed.out
    wide = document(attnlab, "extract", "--basis-a", "B.csv", "--basis-b", "B.csv")
    assert wide["feasible"] is False  # one row of three: a vector, not three numbers


def test_every_format_gives_the_same_answer(attnlab: Any, folder: Path) -> None:
    said = [
        attnlab("construct", "select", "--keys", name, "--target", "1", "--json").out
        for name in ("K.csv", "K.npy", "K.json")
    ]
    assert said[0] == said[1] == said[2]


def test_an_answer_can_be_asked_about(attnlab: Any, folder: Path) -> None:
    """The document of `select` is a file that --query reads."""
    said = attnlab("construct", *COMMANDS["select"], "--json").out
    Path("found.json").write_text(said, encoding="utf-8")
    argv = ("replace-key", "--keys", "K.csv", "--index", "2", "--goal", "select:2")
    again = document(attnlab, *argv, "--query", "found.json")
    assert again["query"] == json.loads(said)["query"]


SELECT = ("select", "--keys", "K.csv", "--target")
MATCH = ("match", "--keys", "K.csv", "--weights")
REPLACE = ("replace-key", "--keys", "K.csv", "--query")
DESIGN = ("design", "--keys", "K.csv", "--free")
BAD = [
    ((), "Usage"),
    (("choose",), "No such command"),
    (("select",), "Missing option"),
    (("select", "--keys", "none.csv", "--target", "0"), "none.csv: No such file"),
    (("select", "--keys", ".", "--target", "0"), "not a file"),
    (("select", "--keys", "bad.csv", "--target", "0"), "line 2 has 1 numbers, line 1 has 2"),
    ((*SELECT, "5"), "numbered from 0 to 4"),
    ((*SELECT, "-1"), "numbered from 0 to 4"),
    ((*SELECT, "1.5"), "--target"),
    ((*SELECT, "9" * 5003), "--target"),
    ((*SELECT, "0", "--weight", "1"), "strictly between 0 and 1"),
    ((*SELECT, "0", "--weight", "0"), "strictly between 0 and 1"),
    ((*SELECT, "0", "--weight", "nan"), "strictly between 0 and 1"),
    ((*SELECT, "0", "--scale", "2"), "'1', 'sqrt'"),
    ((*SELECT, "0", "--values", "q.csv"), "5 keys but 1 values"),
    (("average", "--keys", "K.csv", "--targets", "0,0"), "once"),
    (("average", "--keys", "K.csv", "--targets", "0,7"), "numbered from 0 to 4"),
    (("average", "--keys", "K.csv", "--targets", ""), "counted from 0"),
    (("average", "--keys", "K.csv", "--targets", "0,1", "--weight", "1"), "between 0 and 1"),
    ((*MATCH, ".5,.25,0,0,0"), "these sum to 0.75"),
    ((*MATCH, ".5,.50000001,0,0,0"), "these sum to 1.00000001"),
    ((*MATCH, "1.5,-.5,0,0,0"), "number 1 (from 0) is negative, -0.5"),
    ((*MATCH, ".5,.5"), "must be 5 numbers: got 2"),
    ((*MATCH, ".5,.5,x,0,0"), "neither numbers"),
    ((*MATCH, "K.csv"), "one row of numbers"),
    ((*REPLACE, "1,2,3", "--index", "2", "--goal", "select:2"), "must be 2 numbers"),
    ((*REPLACE, "q.csv", "--index", "5", "--goal", "select:2"), "numbered from 0 to 4"),
    ((*REPLACE, "q.csv", "--index", "2", "--goal", "select:9"), "numbered from 0 to 4"),
    ((*REPLACE, "q.csv", "--index", "2", "--goal", "choose:2"), "average:0,1,2 or select:2"),
    ((*REPLACE, "q.csv", "--index", "2", "--goal", "select:0,1"), "one key"),
    ((*REPLACE, "q.csv", "--index", "2", "--goal", "select:2", "--weight", "2"), "between 0 and 1"),
    ((*REPLACE, "q.csv", "--index", "2", "--goal", "select:2@.9", "--weight", ".9"), "--weight"),
    ((*DESIGN, "2"), "--after"),
    ((*DESIGN, "5", "--after", "select:2"), "numbered from 0 to 4"),
    ((*DESIGN, "2,2", "--after", "select:2"), "once"),
    ((*DESIGN, "2", "--after", "select:2", "--before", "choose"), "average:0,1,2 or select:2"),
    ((*DESIGN, "2", "--after", "select:2", "--weight", "0"), "between 0 and 1"),
    (("extract", "--basis-a", "A.csv", "--basis-b", "K.csv"), "vectors of A have 3 entries"),
    (("average-scale", "--keys", "K.csv", "--targets", "0,1,2"), "two keys"),
    (("average-scale", "--keys", "K.csv", "--targets", "1,1"), "two different keys"),
    (("average-scale", "--keys", "K.csv", "--targets", "0,1", "--tolerance", "0"), "tolerance"),
]


@pytest.mark.parametrize(("argv", "word"), BAD, ids=lambda value: str(value)[:60])
def test_bad_usage(attnlab: Any, folder: Path, argv: tuple[str, ...], word: str) -> None:
    Path("bad.csv").write_text("1,2\n3\n", encoding="utf-8")
    said = attnlab("construct", *argv)
    if argv:
        refused(said, 2)
    assert said.code == 2 and said.out == "" and word in said.err


FUZZED = settings(
    max_examples=29,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("ending", ["csv", "json", "npy"])
@FUZZED
@given(junk=st.binary(max_size=61) | st.text("[]1-.e,\n nx", max_size=23).map(str.encode))
def test_any_file_is_keys_or_one_line(attnlab: Any, folder: Path, ending: str, junk: bytes) -> None:
    Path(f"junk.{ending}").write_bytes(junk)
    said = attnlab("construct", "select", "--keys", f"junk.{ending}", "--target", "0", "--json")
    if said.code:
        refused(said, 2)
    else:
        json.loads(said.out)


WORDS = [
    "",
    "0",
    "0,1",
    "-1",
    "nan",
    "1e300",
    "K.csv",
    "q.csv",
    "A.csv",
    ".",
    "--",
    "--json",
    "average:0,1",
    "select:2",
    "sqrt",
    "α",
    "\x1b[31m",
    "\udcff",
    ".2,.2,.2,.2,.2",
]
OPTIONS = [
    "--keys",
    "--values",
    "--target",
    "--targets",
    "--weight",
    "--weights",
    "--query",
    "--index",
    "--goal",
    "--free",
    "--after",
    "--scale",
    "--tolerance",
    "--basis-a",
    "--basis-b",
]


@pytest.mark.parametrize("name", COMMANDS)
@FUZZED
@given(more=st.lists(st.tuples(st.sampled_from(OPTIONS), st.sampled_from(WORDS)), max_size=3))
def test_any_argv(attnlab: Any, folder: Path, name: str, more: list[tuple[str, str]]) -> None:
    said = attnlab("construct", *COMMANDS[name], *(word for pair in more for word in pair))
    refused(said, 2) if said.code else None


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_gets_plain_lines_that_begin_with_the_sentence(
    attnlab: Any, folder: Path, name: str
) -> None:
    said = attnlab("construct", *COMMANDS[name], "--values", "V.csv")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].endswith(".") and lines[1] == "" and lines[2].split() == ["key", "weight"]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f█]", said.out)
    assert "{" not in said.out and "array(" not in said.out and "nan" not in said.out


def test_a_terminal_gets_bars_and_nothing_wider_than_it(folder: Path) -> None:
    seen = on_terminal("construct", *COMMANDS["select"], folder=folder)
    text = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert "█" * 20 in text and max(map(len, text.splitlines())) <= 80
    assert "\x1b[32m✓ yes" in seen


def test_many_keys_are_summed_up(attnlab: Any, folder: Path) -> None:
    np.save("many.npy", np.random.default_rng(7).normal(size=(101, 11)))
    said = attnlab("construct", "select", "--keys", "many.npy", "--target", "17", "--weight", "0.9")
    assert len(said.out.split("\n\n")[1].splitlines()) == 13  # names, eleven keys, the others
    assert "\n17  " in said.out and "\n90 others  " in said.out
    assert ", …)" in said.out  # eleven numbers of the query
    centre = np.zeros((1, 11))  # of all keys the least seen, but the one asked about
    np.save("inside.npy", np.vstack([np.load("many.npy"), centre]))
    said = attnlab("construct", "select", "--keys", "inside.npy", "--target", "101")
    assert "\n101  " in said.out and "\n91 others  " in said.out
    said = attnlab("construct", "identity", "--keys", "many.npy", "--weight", "0.5")
    assert said.out.splitlines()[-1] == "89 more keys: --json has all"


def test_help_does_not_wait_for_a_solver() -> None:
    script = (
        "import sys\nfrom attnlab.cli import main\nsys.argv = ['attnlab', 'construct', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "slow = {'torch', 'scipy', 'cvxpy', 'clarabel'} & set(sys.modules)\nassert not slow, slow\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_argmax_exercise_can_be_entered(attnlab: Any, folder: Path) -> None:
    Path("k.csv").write_text("0,1,2\n1,1,2\n-1,1,-2\n0,-1,-2\n", encoding="utf-8")
    Path("v.csv").write_text("3,2,-4\n3,-2,4\n3,2,0\n3,2,0\n", encoding="utf-8")
    command = ("construct", "apply", "--keys", "k.csv", "--values", "v.csv", "--query=-2,1,1")
    said = attnlab(*command, "--hard")
    assert said.code == 0 and "(3, 2, −4)" in said.out and "argmax" in said.out
    found = json.loads(attnlab(*command, "--json").out)
    assert found["kind"] == "softmax" and found["scores"] == [3, 1, 1, -3]
    assert sum(found["weights"]) == pytest.approx(1, abs=1e-12)


def test_the_keys_of_the_exercise_have_a_name(attnlab: Any, folder: Path) -> None:
    said = attnlab("construct", "select", "--keys", "example", "--target", "0")
    assert said.code == 0 and "length 4.957;" in said.out
    missing = attnlab("construct", "select", "--keys", "./example", "--target", "0")
    assert missing.code == 2 and missing.err.count("\n") == 1
