"""A run from the command line and everything that can be asked about it afterwards."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnlab.cli.run import print_results
from attnlab.lab.claim import judge, judge_check
from attnlab.measure.intervals import mean_interval

RUN = ("run", "./pebbles.py", "--device", "cpu")
CLAIM_KEYS = {"name", "verdict", "effect", "interval", "n", "reported", "comparable"}


@pytest.fixture
def copied(stored: Path, here: Path) -> Path:
    """The finished run, free to be damaged or removed, in ./runs."""
    return Path(shutil.copytree(stored, here / "runs" / stored.name))


def test_the_last_line_of_a_run_is_its_report(attnlab: Any, here: Path) -> None:
    said = attnlab(*RUN)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert re.fullmatch(r"runs/pebbles-[0-9a-f]{12}/report\.html", lines[-1])
    assert Path(lines[-1]).is_file()
    assert lines[1].split() == ["verdict", "claim", "ours", "n", "reported"]
    assert "✓ holds" in lines[2] and "0.97" in lines[2]
    assert "✗ fails" in lines[3] and "not comparable" in lines[3]
    assert "✓ audit light: pass" in said.out
    assert "\x1b" not in said.out + said.err
    assert "Are pebbles round?" in said.err and "3/3 trials" in said.err
    quiet = attnlab(*RUN, "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, said.out, "")


def test_an_edited_template_is_shown_and_its_faults_are_told(attnlab: Any, here: Path) -> None:
    text = (here / "pebbles.py").read_text(encoding="utf-8")
    named = text.replace('    question = "Are', '    template = "words.md"\n    question = "Are')
    assert named != text
    (here / "mine.py").write_text(named, encoding="utf-8")
    mine = ("run", "./mine.py", "--device", "cpu", "--quiet")
    for words in ("First.", "Second."):
        (here / "words.md").write_text(words, encoding="utf-8")
        assert attnlab(*mine).out.startswith(words), "no report with earlier words"
    (here / "words.md").write_text("Fine.\n\n{% if nothing %}x{% endif %}\n", encoding="utf-8")
    said = attnlab(*mine)
    assert said.code == 2 and "'nothing' is undefined (<template>, line 3)" in said.err
    assert "its trials are stored" in said.err


def test_json_of_a_run(attnlab: Any, copied: Path) -> None:
    said = attnlab(*RUN, "--json")
    document = json.loads(said.out)
    assert set(document) >= {"run", "report", "trials", "claims", "audits"}
    assert document["run"] == copied.name and document["trials"] == {"done": 3}
    assert Path(document["report"]).is_file()
    assert all(set(claim) >= CLAIM_KEYS for claim in document["claims"])
    first, second = document["claims"]
    assert (first["verdict"], first["reported"], first["comparable"]) == ("holds", 0.97, True)
    assert second["comparable"] is False
    assert "nothing was run again" in said.err


def test_a_dry_run_says_what_would_run_and_writes_nothing(attnlab: Any, here: Path) -> None:
    before = sorted(here.rglob("*"))
    assert "3 trials" in attnlab(*RUN, "--dry-run").out
    document = json.loads(attnlab(*RUN, "--dry-run", "--json", "--seeds", "7").out)
    assert document["trials"] == 7 and document["parts"] == {"trials": 7}
    assert sorted(here.rglob("*")) == before


def test_config_file_then_set_then_seeds(attnlab: Any, here: Path) -> None:
    (here / "few.toml").write_text("seeds = 5\nsize = 11\n", encoding="utf-8")
    from_file = ("--config", "few.toml")
    for argv, count in (
        ((), 5),
        (("--set", "seeds=2"), 2),
        (("--set", "seeds=2", "--seeds", "13"), 13),
    ):
        said = attnlab(*RUN, *from_file, *argv, "--dry-run", "--json")
        assert json.loads(said.out)["trials"] == count


def test_a_failed_trial_is_exit_1_and_the_others_are_kept(attnlab: Any, here: Path) -> None:
    said = attnlab(*RUN, "--set", "bad=true", "--workers", "1")
    assert said.code == 1
    assert "ValueError: a square pebble" in said.err and "Traceback" not in said.err
    assert "runs only these trials again" in said.err
    assert said.out.splitlines()[-1].endswith("report.html")
    verified = json.loads(attnlab("verify", "pebbles", "--json").out)
    assert (verified["complete"], verified["ok"]) == (False, True)


def test_a_failed_audit_is_exit_1_and_a_failed_claim_is_not(attnlab: Any, here: Path) -> None:
    said = attnlab(*RUN, "--set", "audit=fail")
    assert said.code == 1
    assert "audits failed: light" in said.err
    assert json.loads(attnlab(*RUN, "--json").out)["claims"][1]["verdict"] == "fails"
    assert attnlab(*RUN).code == 0


def test_verify(attnlab: Any, copied: Path) -> None:
    said = attnlab("verify", copied.name, "--json")
    document = json.loads(said.out)
    assert said.code == 0
    assert set(document) == {"run", "complete", "ok", "digest", "problems"}
    assert document["complete"] and document["ok"] and document["problems"] == []
    assert re.fullmatch(r"[0-9a-f]{64}", document["digest"])
    assert "complete, undamaged" in attnlab("verify", str(copied)).out
    report = copied / "report.html"
    report.write_bytes(report.read_bytes()[:-1] + b"?")
    damaged = attnlab("verify", copied.name, "--json")
    assert damaged.code == 3
    assert any("report.html" in problem for problem in json.loads(damaged.out)["problems"])
    assert "DAMAGED" in attnlab("verify", copied.name).out


def test_table(attnlab: Any, copied: Path) -> None:
    document = json.loads(attnlab("table", "pebbles", "--json").out)
    assert document["run"] == copied.name
    assert document["columns"] == ["id", "seed", "state", "size", "none", "roundness"]
    ids = [row[0] for row in document["rows"]]
    assert ids == sorted(ids) and len(ids) == 3
    assert [row[4] for row in document["rows"]] == [None] * 3
    with_cost = json.loads(attnlab("table", "pebbles", "--json", "--cost").out)
    assert "cost_evaluations" in with_cost["columns"] and "cost_seconds" in with_cost["columns"]
    rows = list(csv.reader(io.StringIO(attnlab("table", "pebbles", "--csv").out)))
    assert rows[0] == document["columns"] and [row[0] for row in rows[1:]] == ids
    plain = attnlab("table", "pebbles").out.splitlines()
    assert plain[0].split() == document["columns"] and len(plain) == 4


def test_report_and_pdf(attnlab: Any, copied: Path) -> None:
    said = attnlab("report", copied.name)
    assert said.code == 0 and Path(said.out.strip()).is_file()
    assert attnlab("report", copied.name, "--pdf").code == 0  # the study's file lies here
    Path("pebbles.py").write_text("something else\n", encoding="utf-8")
    moved = attnlab("report", copied.name, "--pdf")
    assert moved.code == 2 and "was made with pebbles.py" in moved.err
    assert json.loads(attnlab("verify", copied.name, "--json").out)["ok"]


def test_a_run_that_lost_a_file_is_not_built_upon(attnlab: Any, copied: Path) -> None:
    (copied / "report.html").unlink()
    for argv in ((*RUN, "--quiet"), ("report", copied.name), ("verify", copied.name)):
        said = attnlab(*argv)
        assert said.code == 3
        assert "report.html: missing" in said.out + said.err


def test_runs_are_listed_and_removed(attnlab: Any, copied: Path) -> None:
    assert copied.name in attnlab("runs").out and "complete" in attnlab("runs").out
    (info,) = json.loads(attnlab("runs", "--json").out)["runs"]
    assert (info["name"], info["done"], info["total"]) == (copied.name, 3, 3)
    removed = attnlab("runs", "--remove", copied.name, "--json")
    assert json.loads(removed.out) == {"removed": copied.name}
    assert not copied.exists()
    assert attnlab("runs").out == "no runs in runs\n"
    assert json.loads(attnlab("runs", "--json").out) == {"runs": []}


def test_a_run_in_use_is_exit_5(attnlab: Any, copied: Path) -> None:
    from attnlab.lab.folder import run_lock

    with run_lock(copied):
        for argv in (RUN, ("runs", "--remove", copied.name)):
            said = attnlab(*argv)
            assert said.code == 5
            assert "in use by process" in said.err
    assert copied.is_dir()


def test_checks_are_printed_apart_from_findings(capsys: pytest.CaptureFixture[str]) -> None:
    found = judge("gap", "One arm is better", mean_interval([1.0, 1.1, 1.2]), above=0.0)
    identity = judge_check("sums", "Weights add up to one", [0.0], below=1e-12)
    claims = [identity.as_json(), found.as_json()]
    print_results({"answer": "Yes.", "claims": claims, "audits": []})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "✓ check sums: holds: Weights add up to one"
    assert any("One arm is better" in line and "1.1" in line for line in lines[:-1])
