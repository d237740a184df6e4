"""The guide is true: the study in docs/add-a-study.md is run as a reader would run it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[1] / "docs" / "add-a-study.md"


def example() -> str:
    found = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def attnlab(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "attnlab", *argv]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_the_example_study_runs_and_its_report_is_the_last_line(tmp_path: Path) -> None:
    (tmp_path / "scale.py").write_text(example(), encoding="utf-8")
    done = attnlab(tmp_path, "run", "./scale.py", "--scale", "smoke", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    report = tmp_path / done.stdout.splitlines()[-1]
    assert report.name == "report.html"
    assert "Do scores q·k/√D keep their size" in report.read_text(encoding="utf-8")
    again = attnlab(tmp_path, "run", "./scale.py", "--scale", "smoke", "--device", "cpu", "--json")
    said = json.loads(again.stdout)
    assert again.returncode == 0
    assert "nothing was run again" in again.stderr
    assert said["trials"] == {"done": 6}
    assert [claim["verdict"] for claim in said["claims"]] == ["not judged"]


def test_the_example_is_short() -> None:
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= 24


def test_every_command_and_option_the_guide_names_exists(tmp_path: Path) -> None:
    (tmp_path / "scale.py").write_text(example(), encoding="utf-8")
    for line in re.findall(
        r"^\$ attnlab (.*?)(?:  +#.*)?$", GUIDE.read_text("utf-8"), re.MULTILINE
    ):
        extra = ["--dry-run"] if line.startswith("run") else []
        done = attnlab(tmp_path, *line.split(), *extra)
        assert done.returncode == 0, f"{line}: {done.stderr}"


ROOT = GUIDE.parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_page_names_only_commands_and_options_that_exist() -> None:
    from tests.cli.test_commands import COMMANDS

    for page in PAGES:
        for line in re.findall(
            r"^(?:\$ )?attnlab ((?:assets |construct )?[a-z-]+)(.*)$", page.read_text("utf-8"), re.M
        ):
            name, rest = line
            assert name in COMMANDS, f"{page.name}: attnlab {name}"
            for option in re.findall(r"(?<=\s)--[a-z-]+", rest.split("#")[0].split("&&")[0]):
                assert option in COMMANDS[name].split(), f"{page.name}: attnlab {name} {option}"


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in [*PAGES, CONTRIBUTING]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+| × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
DIGITS = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789", ",")


def told(text: str) -> tuple[list[str], list[float]]:
    """Words and numbers apart."""
    found = [n.replace(" × 10", "e").translate(DIGITS).rstrip(",") for n in NUMBER.findall(text)]
    return NUMBER.sub("#", text).split(), [float(number) for number in found]


def test_attention_by_hand_prints_what_its_page_shows(tmp_path: Path) -> None:
    """Sessions: `cat FILE` is a file to write, any other line a command to compare.

    Four digits are shown, so a number may be off by 5e-4 of itself; what is rounding (below 1e-6)
    differs between machines.
    """
    page = (ROOT / "docs" / "construct.md").read_text(encoding="utf-8")
    asked = 0
    for block in re.findall(r"```\n(\$ .*?)```", page, re.DOTALL):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = session.partition("\n")
            if line.startswith("cat "):
                (tmp_path / line.removeprefix("cat ")).write_text(shown, encoding="utf-8")
                continue
            done = attnlab(tmp_path, *shlex.split(line.removeprefix("attnlab ")))
            assert (done.returncode, done.stderr) == (0, ""), line
            wanted, given = told(shown), told(done.stdout)
            assert given[0] == wanted[0], line
            assert given[1] == pytest.approx(wanted[1], rel=1e-3, abs=1e-6), line
            asked += 1
    assert asked >= 8


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("solvable-model.md", 2),
        ("small-gpts.md", 1),
        ("construct.md", 1),
        ("answers/0-solvable-model.md", 2),
        ("answers/2-projections-and-decoding.md", 1),
    ],
)
def test_the_python_of_a_page_runs(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == number
    for block in blocks:
        exec(compile(block, f"docs/{name}", "exec"), {})


def copy_of_sources(folder: Path, *parts: str) -> Path:
    """A copy to follow CONTRIBUTING in; the folder of its package."""
    for part in ("src", *parts):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src" / "attnlab"


def python_in(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Python with the copy's package."""
    return subprocess.run(
        [sys.executable, *argv],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"},
    )


def example_of_contributing(word: str) -> str:
    """The one block of Python in CONTRIBUTING that has this word."""
    blocks = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text("utf-8"), re.DOTALL)
    (code,) = [block for block in blocks if word in block]
    return code


def test_a_new_position_is_one_file_and_one_line_and_is_tested(tmp_path: Path) -> None:
    """What CONTRIBUTING shows, done to a copy of the sources."""
    page = CONTRIBUTING.read_text(encoding="utf-8")
    (line,) = re.findall(r"`(from attnlab\.parts\.position\.recency import .*?)`", page)
    package = copy_of_sources(tmp_path, "tests/parts", "tests/reference")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    folder = package / "parts" / "position"
    (folder / "recency.py").write_text(example_of_contributing("Recency"), encoding="utf-8")
    with (folder / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    done = python_in(tmp_path, "-m", "pytest", "tests/parts", "-k", "recency", "-p", "no:xdist")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= 15


ASK_THE_NEW_AUDIT = """
import attnlab, torch
torch.manual_seed(0)
table, head = torch.nn.Embedding(11, 5), torch.nn.Linear(5, 11)
for model in (torch.nn.Sequential(table, head), lambda ids: head(table(ids * 0))):
    print(attnlab.check(model, only=["constant-logits"])["constant-logits"].verdict)
"""


def test_a_new_audit_is_one_file_and_one_line_and_finds_its_fault(tmp_path: Path) -> None:
    """What CONTRIBUTING shows: a model with the fault fails, its twin without it passes."""
    (line,) = re.findall(r'`("constant-logits",)`', CONTRIBUTING.read_text("utf-8"))
    audit = copy_of_sources(tmp_path) / "audit"
    code = example_of_contributing("constant_logits")
    (audit / "checks" / "constant_logits.py").write_text(code, encoding="utf-8")
    catalogue = (audit / "catalogue.py").read_text(encoding="utf-8")
    added, places = re.subn(r"(?m)^NAMES.*= \($", rf"\g<0>\n    {line}", catalogue)
    assert places == 1
    (audit / "catalogue.py").write_text(added, encoding="utf-8")
    done = python_in(tmp_path, "-c", ASK_THE_NEW_AUDIT)
    assert done.stdout.split() == ["pass", "fail"], done.stderr[-3000:]
