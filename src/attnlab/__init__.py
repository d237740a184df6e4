"""attnlab: a laboratory for attention that does not let you fool yourself.

attnlab.run("phase-transition")      a question, with seeds, claims, audits, figures, report
attnlab.check(model)                 is this model, yours or anyone's, fooling you?
attnlab.solvable                     the model of attention that can be solved exactly
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from attnlab.api import Run as Run
    from attnlab.api import run as run
    from attnlab.audit import check as check

_DOORS = {"run": "attnlab.api", "Run": "attnlab.api", "check": "attnlab.audit"}
__all__ = ["Run", "__version__", "check", "run"]


def __getattr__(name: str) -> Any:
    """Doors open when asked for, so that `attnlab --help` need not wait for torch."""
    import importlib

    if name in _DOORS:
        return getattr(importlib.import_module(_DOORS[name]), name)
    raise AttributeError(f"module 'attnlab' has no attribute {name!r}")
