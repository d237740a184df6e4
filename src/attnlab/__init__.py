"""attnlab: a laboratory for attention that does not let you fool yourself.

attnlab.run("phase-transition")       answer a question: seeds, claims, audits, figures, a report
attnlab.check(model)                  look for silent failures of a model, yours or anyone's
attnlab.train("my.txt")               train a small GPT;  attnlab.finetune("my.csv") a classifier
attnlab.load("smollm2")               a model by its name;  attnlab.generate, attnlab.attend ask it
attnlab.solvable, attnlab.construct   attention solved exactly, and queries and keys by design
attnlab.Study, Outcome, judge         write a study of your own
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab import assets as assets
    from attnlab import audit as audit
    from attnlab import construct as construct
    from attnlab import solvable as solvable
    from attnlab.api.generating import generate as generate
    from attnlab.api.questions import attend as attend
    from attnlab.api.running import run as run
    from attnlab.api.targets import load as load
    from attnlab.api.training import finetune as finetune
    from attnlab.api.training import train as train
    from attnlab.audit import check as check
    from attnlab.lab.claim import judge as judge
    from attnlab.lab.study import Study as Study
    from attnlab.lab.trial import Outcome as Outcome

__version__ = "0.1.0"
__all__ = [
    "Outcome",
    "Study",
    "assets",
    "attend",
    "audit",
    "check",
    "construct",
    "finetune",
    "generate",
    "judge",
    "load",
    "run",
    "solvable",
    "train",
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that `attnlab --help` need not wait for torch."""
    import importlib

    homes = {
        "run": "attnlab.api.running",
        "train": "attnlab.api.training",
        "finetune": "attnlab.api.training",
        "generate": "attnlab.api.generating",
        "attend": "attnlab.api.questions",
        "load": "attnlab.api.targets",
        "check": "attnlab.audit",
        "Study": "attnlab.lab.study",
        "Outcome": "attnlab.lab.trial",
        "judge": "attnlab.lab.claim",
    }
    if name in homes:
        return getattr(importlib.import_module(homes[name]), name)
    if name in __all__:
        return importlib.import_module(f"attnlab.{name}")
    raise AttributeError(f"module 'attnlab' has no attribute {name!r}")
