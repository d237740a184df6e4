"""A study: one question, the trials that answer it, and what may be concluded from them.

Declare; never execute by hand. The lab calls, in this order: `trials` (what to run), `run` (once a
trial, in a worker process), then on the finished table `claims`, `audits`, `figures`, `answer`,
`discussion`. A study must import quickly: torch and friends belong inside `run`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attnlab.audit.finding import Finding
from attnlab.core.config import Settings, build, content_hash, suggest
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

    device: Literal["cpu", "cuda", "mps"] = "cpu"  # part of the run's id: it changes bits
    seeds: int = Field(default=3, ge=1)
    trial_seconds: float = Field(default=3600.0, gt=0)  # longer is recorded as `timeout`
    trial_memory_gb: float = Field(default=16.0, gt=0)  # more is recorded as `oom`


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
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # overrides for smoke and full
    expected: ClassVar[Mapping[str, str]] = {}  # scale -> "about 3 minutes on two cores"
    extras: ClassVar[tuple[str, ...]] = ()  # optional dependencies that its trials import
    shares_accelerator: ClassVar[bool] = False  # trials too small to fill a GPU: several at once

    def __init__(self, settings: StudySettings) -> None:
        self.settings = settings

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The study with a preset's settings, then the overrides, validated together."""
        if scale not in SCALES:
            raise UsageError(f"unknown scale {scale!r}: {suggest(scale, SCALES)}")
        return cls(build(cls.Settings, {**cls.presets.get(scale, {}), **overrides}))

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

    @abstractmethod
    def trials(self) -> Sequence[Trial]:
        """The independent units of work."""

    @abstractmethod
    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Execute one trial: metrics must be a pure function of it."""

    @abstractmethod
    def claims(self, table: Table) -> list[Claim]:
        """Sentences with computed verdicts."""

    def fetch(self) -> None:
        """Have at hand what the trials need, an asset say; called once, before they start."""
        return

    def audits(self, table: Table) -> list[Finding]:
        """What was checked so that nobody is fooled."""
        return []

    def figures(self, table: Table) -> list[Figure]:
        """Pictures of the table."""
        return []

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence computed from the verdicts."""
        count = {v: sum(c.verdict == v for c in claims) for v in ("holds", "fails", "undecided")}
        return f"{count['holds']} claims hold, {count['fails']} fail, {count['undecided']} open."

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """What it means, and why it differs from what was reported."""
        return []
