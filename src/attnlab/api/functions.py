"""`module:name`: a model in a Python file of the current folder, or in an installed package."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.core.errors import UsageError


def find_function(text: str) -> Any | None:
    """The module, class or function that `text` names; None if it is not written as module:name."""
    module, colon, name = text.partition(":")
    parts = module.split(".")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in parts)):
        return None
    file = Path(*parts).with_suffix(".py")
    imported = _import_file(module, file) if file.is_file() else _import_installed(text, module)
    function = getattr(imported, name, None)
    if not callable(function):
        where = file if file.is_file() else module
        raise UsageError(f"{text}: {where} has no function {name!r}")
    return function


def build_model(function: Any, text: str) -> Any:
    """Call a function without required arguments, which builds the model; else it is the model."""
    import torch

    if isinstance(function, torch.nn.Module):
        return function
    built = isinstance(function, type)  # by calling it
    parameters = inspect.signature(function).parameters.values()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) if built else ()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in optional]
    if needed and built:
        raise UsageError(
            f"{text} is a class that needs {', '.join(needed)}: write a function without arguments "
            "that builds the model, and give that"
        )
    if needed:
        return function
    try:
        return function()
    except (Exception, SystemExit) as error:  # the user's own code
        raise UsageError(f"{function.__name__}(): {type(error).__name__}: {error}") from error


def _import_file(module: str, file: Path) -> Any:
    """Import the module at `file`; it may import from its folder, and errors become UsageError."""
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None and spec.loader is not None
    made, loader = importlib.util.module_from_spec(spec), spec.loader
    _run_import(lambda: loader.exec_module(made), str(file))
    return made


def _import_installed(text: str, module: str) -> Any:
    """Import a module of an installed package; UsageError where there is none."""
    try:
        known = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        known = False
    if not known:
        file = Path(*module.split(".")).with_suffix(".py")
        raise UsageError(
            f"{text}: the current folder has no file {file}; {module} is not installed"
        )
    return _run_import(lambda: importlib.import_module(module), module)


def _run_import(load: Callable[[], Any], name: str) -> Any:
    """Load a module that may import from the current folder; its errors become UsageError."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{name}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(Path.cwd()))
