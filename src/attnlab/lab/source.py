"""Where a study's class comes from: a built-in name, or one Python file of a user's.

A file is read once: its bytes are hashed, recorded, and sent to the workers, so that editing it
while a run is under way changes nothing in that run. The hash covers the modules in its folder that
it imports, and those that they import: an edited helper changes what a trial computes as much as an
edited study. Of a built-in study the Python files of its own folder are hashed.
"""

import ast
import hashlib
import importlib
import inspect
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core.config import CONFIG_FILE_LIMIT, suggest
from attnlab.core.errors import UsageError, from_os_error
from attnlab.lab.study import Study

# by name only: rooms below must not import those above
REGISTRIES = (("attnlab.studies", "STUDIES"), ("attnlab.products", "PRODUCTS"))
STUDY_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


@dataclass(frozen=True)
class Source:
    """A built-in `name`, or the `path` of a user's file with the `code` it held when read."""

    name: str
    path: str = ""
    code: str = ""

    @property
    def sha256(self) -> str:
        """Hash of the study's code: the file and its helpers, or a built-in study's folder."""
        if self.path:
            helpers = _helpers(self.code, Path(self.path).parent)
            return _hash_files({**helpers, "": self.code.encode()})
        module = sys.modules[load_study_class(self).__module__]
        folder = Path(str(module.__file__)).parent
        return _hash_files({file.name: file.read_bytes() for file in folder.glob("*.py")})

    def as_json(self) -> dict[str, str]:
        """What study.json says: the name, or the file's own name (never its folder), and hash."""
        what = {"file": Path(self.path).name} if self.path else {"study": self.name}
        return {**what, "sha256": self.sha256}


def read_source(text: str) -> Source:
    """`phase-transition` -> the built-in study; `./mine.py` -> the file, read now."""
    if not text.endswith(".py") and "/" not in text:
        registry = _registry()
        if text not in registry:
            raise UsageError(f"unknown study {text!r}: {suggest(text, registry)}")
        return Source(text)
    path = Path(text)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe, say
            raise UsageError(f"{text}: not a file")
        if path.stat().st_size > CONFIG_FILE_LIMIT:
            raise UsageError(f"{path}: larger than {CONFIG_FILE_LIMIT} bytes, not a study")
        code = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise from_os_error(Path(text[:300]), error, UsageError) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a Python file: {error}") from None
    return Source(path.stem, str(path.resolve()), code)


def _helpers(code: str, folder: Path) -> dict[str, bytes]:
    """The Python files of `folder` that this code imports, directly or through each other."""
    files: dict[str, bytes] = {}
    unread = [code]
    while unread:
        for name in _imported_names(unread.pop()):
            for file in (folder / f"{name}.py", *(folder / name).glob("**/*.py")):
                key = file.relative_to(folder).as_posix()
                if key not in files and file.is_file():
                    files[key] = file.read_bytes()
                    unread.append(files[key].decode("utf-8", "replace"))
    return files


def _imported_names(code: str) -> set[str]:
    """First parts of the modules that code imports anywhere in it; none where it is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError):
        return set()
    plain = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    given = {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}
    return {name.partition(".")[0] for name in plain | given}


def _hash_files(files: Mapping[str, bytes]) -> str:
    parts = (f"{name}:{hashlib.sha256(data).hexdigest()}" for name, data in sorted(files.items()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def load_study_class(source: str | Source) -> type[Study]:
    """The study class behind a name or a file; anything else is one UsageError line."""
    found = read_source(source) if isinstance(source, str) else source
    if found.path:
        kind = _from_file(found)
    else:
        module, _, target = _registry()[found.name].partition(":")
        kind = getattr(importlib.import_module(module), target)
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not STUDY_NAME.fullmatch(name):
        raise UsageError(f"study {kind.__name__}: `name` must match {STUDY_NAME.pattern}")
    return kind


def source_of(study: Study) -> Source:
    """Where a study object's class was defined, so that workers can load it again."""
    kind = type(study)
    for name, target in _registry().items():
        if target == f"{kind.__module__}:{kind.__qualname__}":
            return Source(name)
    found = getattr(sys.modules.get(kind.__module__), "__attnlab_source__", None)
    if isinstance(found, Source):
        return found
    try:
        return read_source(inspect.getfile(kind))
    except (OSError, TypeError):
        raise UsageError(
            f"study {kind.__name__} is not in a file: put it in one, so that workers can load it"
        ) from None


def _registry() -> dict[str, str]:
    """Name -> `module:class` of everything built in."""
    known: dict[str, str] = {}
    for module, table in REGISTRIES:
        known |= getattr(importlib.import_module(module), table)
    return known


def _from_file(source: Source) -> type[Study]:
    path = Path(source.path)
    module = types.ModuleType(f"attnlab_study_{source.sha256[:16]}")
    module.__file__ = source.path
    vars(module)["__attnlab_source__"] = source
    sys.modules[module.__name__] = module  # dataclasses and pydantic look their module up here
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # its own helpers, without shadowing anyone else's
    try:
        exec(compile(source.code, source.path, "exec"), vars(module))
    except (Exception, SystemExit) as error:  # whatever a user's file may do while it is imported
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"{path.name}{where}: {type(error).__name__}: {error}") from None
    return _the_one_study(vars(module), path.name, module.__name__)


def _the_one_study(names: dict[str, Any], file: str, module: str) -> type[Study]:
    found = {
        value.__name__: value
        for value in names.values()
        if inspect.isclass(value)
        and issubclass(value, Study)
        and value.__module__ == module
        and not inspect.isabstract(value)
    }
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise UsageError(
            f"{file}: defines {len(found)} studies ({', '.join(sorted(found))}), not one"
        )
    raise UsageError(f"{file}: defines no subclass of Study with `trials`, `run` and `claims`")
