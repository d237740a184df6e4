"""Optional dependencies: which modules each extra of the package brings, and the one error line.

    require("construct", "attnlab construct replace-key")

pyproject.toml lists the same extras; tests/test_package.py compares the two.
"""

from importlib.util import find_spec

from attnlab.core.errors import UsageError

EXTRAS = {
    "construct": ("clarabel", "cvxpy"),  # cvxpy calls clarabel, the solver, by its name
    "models": ("accelerate", "gguf", "peft"),  # transformers reads .gguf files with the first two
    "text": ("nltk", "rouge_score"),
    "cluster": ("ray",),
}


def require(extra: str, purpose: str, *modules: str) -> None:
    """Raise a UsageError that says what to install if a module of the extra is missing.

    `modules` are those that `purpose` needs; without them, all of the extra.
    """
    needed = modules or EXTRAS[extra]
    missing = [name.replace("_", "-") for name in needed if find_spec(name) is None]
    if missing:
        raise UsageError(f"{purpose} needs {' and '.join(missing)}: pip install 'attnlab[{extra}]'")
