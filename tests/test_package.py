"""What is installed is whole: the report's template and style travel with the code."""

import ast
import importlib.metadata
import importlib.resources
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

import attnlab
from attnlab.core.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WHERE_FOUND = {"pandas"}  # for Table.to_pandas; a clear message where it is missing
FROM_TORCH = {"triton"}  # torch for CUDA brings it, torch for the CPU has none: looked for first
DATA = (
    "report/template.html.jinja",
    "report/style.css",
    "report/attention.html.jinja",
    "report/attention.css",
    "report/attention.js",
    "assets/catalogue.toml",
)


@pytest.mark.parametrize("name", DATA)
def test_data_files_are_found_where_the_code_looks(name: str) -> None:
    folder, file = name.split("/")
    text = importlib.resources.files(f"attnlab.{folder}").joinpath(file).read_text("utf-8")
    assert len(text) > 100


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling is not here")
def test_the_wheel_holds_every_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*command, "-w", str(tmp_path), str(ROOT)], check=True, timeout=120)
    (wheel,) = tmp_path.glob("attnlab-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = {p.relative_to(source).as_posix() for p in (source / "attnlab").rglob("*.py")}
    pages = {f"attnlab/answers/{page.name}" for page in (ROOT / "docs" / "answers").glob("*.md")}
    assert len(pages) >= 6
    assert files | pages | {f"attnlab/{name}" for name in DATA} <= packed
    assert not any("test" in Path(name).parts for name in packed)
    answers_from(wheel, tmp_path / "installed")


def answers_from(wheel: Path, folder: Path) -> None:
    """What is installed from a wheel, far from any clone, prints an answer."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    code = (
        "import attnlab, sys; from attnlab.cli import main\n"
        "print(attnlab.__file__); sys.argv = ['attnlab', 'answers', '3', '2d']; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    where, heading = done.stdout.splitlines()[:2]
    assert done.returncode == 0 and Path(where).is_relative_to(folder), done.stderr
    assert heading == "3, 2d. Predictions without pretraining"


def test_version_and_entry_point() -> None:
    assert importlib.metadata.version("attnlab") == attnlab.__version__
    assert PROJECT["scripts"] == {"attnlab": "attnlab.cli:main"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_doors_open_when_asked_for() -> None:
    assert callable(attnlab.run) and attnlab.Study.__name__ == "Study"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = attnlab.nothing


def modules_of(requirements: Iterable[str]) -> set[str]:
    """Every distribution we require brings one module of its own name, but for - and case."""
    names = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {name[0].lower().replace("-", "_") for name in names if name}


def imported_modules() -> set[str]:
    """Top-level modules that src imports, inside functions too, without the standard library's."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"attnlab"} - FROM_TORCH - WHERE_FOUND


def test_everything_imported_is_declared_and_everything_declared_is_imported() -> None:
    core = modules_of(PROJECT["dependencies"])
    optional = {name for modules in EXTRAS.values() for name in modules}
    assert imported_modules() - optional == core
    assert not core & optional


def test_the_extras_are_those_that_the_code_asks_for() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {name: set(modules) for name, modules in EXTRAS.items()} == {
        name: modules_of(extras[name]) for name in extras if name not in ("all", "dev")
    }
    assert extras["all"] == [f"attnlab[{','.join(EXTRAS)}]"]


def test_every_requirement_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    extras = [line for group in PROJECT["optional-dependencies"].values() for line in group]
    wanted = modules_of([*PROJECT["dependencies"], *extras]) - {"attnlab"}
    assert wanted <= modules_of(line for line in lines if not line.startswith("#"))
