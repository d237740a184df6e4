"""A study: one question, the trials that answer it, and what may be concluded from them.

Declare; never execute by hand. The lab calls, in this order: `trials` (what to run), `run` (once a
trial, in a worker process), then, once, `evidence` (the finished table as the study reads it) and
on that `claims`, `audits`, `figures`, `answer`, `discussion`. Answer and discussion may be a
Markdown template beside the study instead (`template = "report.md"`, see report/prose.py).

A study must import quickly: torch and matplotlib belong into other files, whose functions become
methods with `deferred(".trial:run")`.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attnlab.audit.finding import Finding
from attnlab.core.config import Settings, build, content_hash, suggest
from attnlab.core.config import setting as setting  # studies declare theirs with it
from attnlab.core.errors import UsageError
from attnlab.lab.claim import Claim
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

Scale = Literal["smoke", "quick", "full"]
SCALES: tuple[Scale, ...] = ("smoke", "quick", "full")


class StudySettings(Settings):
    """Settings every study has; a study adds its own fields. Defaults are the quick scale."""

    device: Literal["cpu", "cuda", "mps"] = setting("where trials run; part of the run's id", "cpu")
    seeds: int = setting("independent repetitions of every arm", 3, ge=1)
    trial_seconds: float = setting("time limit of a trial, in seconds", 3600.0, gt=0)
    trial_memory_gb: float = setting("memory limit of a trial, in gigabytes", 16.0, gt=0)


# settings that decide which trials there are, or end one, but never what a trial computes
NOT_OF_A_TRIAL = frozenset({"seeds", "trial_seconds", "trial_memory_gb"})


def deferred(target: str) -> Any:
    """A method in another file, imported at its first call: `run = deferred(".trial:run")`.

    The function gets the study as its first argument, as any method does.
    """
    return _Deferred(target)


class _Deferred:
    """The descriptor behind `deferred`; a leading dot is relative to the study's own module."""

    def __init__(self, target: str) -> None:
        self.module, self.function = target.split(":")
        self.package = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.package = owner.__module__.rpartition(".")[0]

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        module = importlib.import_module(self.module, self.package or None)
        return partial(getattr(module, self.function), instance)


@dataclass(frozen=True)
class Figure:
    """A picture as a function of the table: `draw()` returns a matplotlib figure."""

    name: str
    title: str
    caption: str  # says what to see in it
    alt: str  # says it to someone who cannot see it
    draw: Callable[[], "MatplotlibFigure"]
    trials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A headed part of the discussion, generated from verdicts and numbers."""

    heading: str
    paragraphs: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()  # shown above the paragraphs; its first row heads it

    @property
    def empty(self) -> bool:
        """Nothing to say: no paragraph, and no row below the head of a table."""
        return not self.paragraphs and len(self.table) < 2


class Study(ABC):
    """Subclass it, fill in the class variables, declare trials; see docs/add-a-study.md."""

    name: ClassVar[str]
    version: ClassVar[int] = 1  # raise it when `run` changes what it computes
    question: ClassVar[str]
    source: ClassVar[str] = ""
    Settings: ClassVar[type[StudySettings]] = StudySettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # overrides what settings say of scales
    expected: ClassVar[Mapping[str, str]] = {}  # scale -> "about 3 minutes on two cores"
    extras: ClassVar[tuple[str, ...]] = ()  # optional dependencies that its trials import
    shares_accelerator: ClassVar[bool] = False  # trials too small to fill a GPU: several at once
    may_fail: ClassVar[Mapping[str, Collection[str]]] = {}  # audit -> arms whose failure is no news
    must_fail: ClassVar[Mapping[str, Collection[str]]] = {}  # audit -> arms it must catch
    template: ClassVar[str] = ""  # Markdown beside the study: its answer and discussion

    def __init__(self, settings: StudySettings) -> None:
        self.settings = settings

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The study with a preset's settings, then the overrides, validated together."""
        if scale not in SCALES:
            raise UsageError(f"unknown scale {scale!r}: {suggest(scale, SCALES)}")
        return cls(build(cls.Settings, {**cls.preset(scale), **overrides}))

    @classmethod
    def preset(cls, scale: str) -> dict[str, Any]:
        """The settings that a scale changes: those of the fields, then those in `presets`."""
        extras = {name: f.json_schema_extra for name, f in cls.Settings.model_fields.items()}
        changed = {
            name: e[scale] for name, e in extras.items() if isinstance(e, dict) and scale in e
        }
        return {**changed, **cls.presets.get(scale, {})}

    @property
    def run_id(self) -> str:
        """12 hex of SHA-256 over study, version and settings."""
        return content_hash(
            {"study": self.name, "version": self.version, "settings": self.settings_json()}, 12
        )

    def settings_json(self) -> dict[str, Any]:
        """The settings as plain values; device and dtype included."""
        return self.settings.model_dump(mode="json")

    def trial(self, seed: int, **config: object) -> Trial:
        """A trial of this study."""
        return Trial(self.name, self.version, config, seed)

    def settings_of(self, trial: Trial) -> Any:
        """The settings of one trial: the study's, with those its configuration names replaced."""
        known = type(self.settings).model_fields
        return self.settings.model_copy(
            update={key: value for key, value in trial.config.items() if key in known}
        )

    @abstractmethod
    def trials(self) -> Sequence[Trial]:
        """The independent units of work."""

    @abstractmethod
    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Execute one trial: metrics must be a pure function of it."""

    def evidence(self, table: Table) -> Any:
        """The trials that ended well, as claims and figures read them; by default the table."""
        return table

    @abstractmethod
    def claims(self, evidence: Any, /) -> Sequence[Claim]:
        """Sentences with computed verdicts."""

    def fetch(self) -> None:
        """Have at hand what the trials need, an asset say; called once, before they start."""
        return

    def audits(self, evidence: Any, claims: Sequence[Claim], /) -> Sequence[Finding]:
        """Checks of the run as a whole. The lab itself adds two kinds: whether every difference
        rests on enough seeds after correction, and a summary of what audits said of the trials."""
        return []

    def figures(self, evidence: Any, /) -> Sequence[Figure]:
        """Pictures of the table."""
        return []

    def facts(self, evidence: Any, claims: Sequence[Claim], /) -> Mapping[str, Any]:
        """Names for the template beside `claim`, `arms` and `settings`."""
        return {}

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence computed from the verdicts; a template's first paragraph replaces it."""
        count = {v: sum(c.verdict == v for c in claims) for v in ("holds", "fails", "undecided")}
        holds, fails, undecided = count.values()
        return f"Claims that hold: {holds}; that fail: {fails}; undecided: {undecided}."

    def discussion(self, evidence: Any, claims: Sequence[Claim], /) -> Sequence[Section]:
        """What it means, and why it differs from what was reported; replaced by a template."""
        return []
