"""What is installed is whole: the report's template and style travel with the code."""

import importlib.metadata
import importlib.resources
import importlib.util
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import attnlab

ROOT = Path(__file__).parents[1]
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
    assert files | {f"attnlab/{name}" for name in DATA} <= packed
    assert not any("test" in Path(name).parts for name in packed)


def test_version_and_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert importlib.metadata.version("attnlab") == attnlab.__version__
    assert project["scripts"] == {"attnlab": "attnlab.cli:main"}
    assert project["requires-python"] == ">=3.11,<3.13"


def test_doors_open_when_asked_for() -> None:
    assert callable(attnlab.run)
    assert attnlab.Run.__name__ == "Run"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = attnlab.nothing
