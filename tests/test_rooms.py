"""The rooms of the house: imports point down the list only, files stay short, starting is cheap."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attnlab"
ROOMS = (
    "__main__",
    "cli",
    "api",
    "studies",
    "products",
    "report",
    "lab",
    "audit",
    "tasks",
    "training",
    "decode",
    "models",
    "construct",
    "solvable",
    "parts",
    "assets",
    "measure",
    "core",
)
# A name held as text is loaded when asked for; nothing else may do so.
BY_NAME = {
    "lab/source.py": "the table of built-in studies, looked up when a run names one",
    "lab/study.py": "methods of a study that live in other files, imported at their first call",
    "__init__.py": "the doors of the package, opened when asked for",
    "solvable/__init__.py": "public names, imported when asked for",
    "audit/catalogue.py": "the checks of a model, which need torch",
    "lab/engine/ray_cluster.py": "Ray, which need not be installed",
    "api/functions.py": "a model of one's own, named by module and attribute",
}
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST = 300


def label(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, also those inside functions."""
    package = ["attnlab", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def test_imports_point_down() -> None:
    offenders = []
    for path in FILES:
        own = room_of(path)
        if own == "__init__":  # the doors: for type checkers only
            continue
        for line, name in imported(path):
            parts = name.split(".")
            if parts[0] != "attnlab" or len(parts) == 1 or parts[1].startswith("__version"):
                continue
            if parts[1] not in ROOMS:
                offenders.append(f"{label(path)}:{line}: {name} is in no room of the list")
            elif ROOMS.index(own) > ROOMS.index(parts[1]):
                offenders.append(f"{label(path)}:{line} imports {name}")
    assert not offenders, "\n".join(offenders)


def test_no_study_imports_another() -> None:
    """What two studies share belongs into a room below; a folder of studies is one family."""
    wrong = []
    for path in FILES:
        parts = path.relative_to(SOURCE).parts
        if parts[0] != "studies" or len(parts) < 2:
            continue
        family = parts[1].removesuffix(".py")
        for line, name in imported(path):
            found = name.split(".")
            if found[:2] == ["attnlab", "studies"] and found[2:3] not in ([family], []):
                wrong.append(f"{label(path)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_a_room() -> None:
    assert {room_of(path) for path in FILES} <= {*ROOMS, "__init__"}


def test_a_room_above_is_named_in_the_declared_places_only() -> None:
    found = {
        label(path)
        for path in FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id)
        in ("import_module", "__import__")
    }
    assert found == set(BY_NAME)


def test_files_are_short_and_say_what_they_are() -> None:
    lines = {label(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    silent = [label(path) for path in FILES if not ast.get_docstring(parse(path))]
    assert {name: n for name, n in lines.items() if n >= LONGEST} == {}
    assert silent == []


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["list"], ["runs"], ["verify", "none"]]
)
def test_no_command_that_does_not_compute_imports_torch(argv: list[str], tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from attnlab.cli import main\n"
        f"sys.argv = ['attnlab', *{argv!r}]\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "slow = {'torch', 'scipy.stats', 'matplotlib', 'jinja2'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
