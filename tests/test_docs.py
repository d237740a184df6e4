"""The guide is true: the study in docs/add-a-study.md is run as a reader would run it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

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
    assert [claim["verdict"] for claim in said["claims"]] == ["holds"]


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
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_page_names_only_commands_and_options_that_exist() -> None:
    from tests.cli.test_commands import COMMANDS

    for page in PAGES:
        for line in re.findall(r"^(?:\$ )?attnlab ((?:assets )?[a-z]+)(.*)$", page.read_text("utf-8"), re.M):
            name, rest = line
            assert name in COMMANDS, f"{page.name}: attnlab {name}"
            for option in re.findall(r"(?<=\s)--[a-z-]+", rest.split("#")[0].split("&&")[0]):
                assert option in COMMANDS[name].split(), f"{page.name}: attnlab {name} {option}"


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_python_of_the_solvable_model_page_runs() -> None:
    page = (ROOT / "docs" / "solvable-model.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/solvable-model.md", "exec"), {})
