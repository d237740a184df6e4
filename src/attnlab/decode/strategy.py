"""Decoding strategies: how the next token is chosen, and how a user writes it.

    parse_strategy("top-k:k=20,temperature=0.8").order     # temperature 0.8 → top-k 20 → draw

    greedy            the likeliest                  sample            softmax(l), plainly
    temperature:t=    softmax(l / t)                 top-k:k=          among the k likeliest
    top-p:p=          among the fewest that reach p  min-p:p=          at least p times the largest
    typical:p=        surprise nearest to entropy    beam:width=       the likeliest text, nearly

All but greedy may add `temperature=`, all may add `repetition=`, and those that draw may add each
other's filters as `top-k=`, `top-p=`, `min-p=`, `typical=`. Limits are exact: t = 0, k = 1 and
p = 0 (top-p) are greedy; t = 1, k = 0 or the vocabulary, p = 1 are plain sampling, draw by draw.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.decode.filters import Filters

FILTERS = ("temperature", "top-k", "top-p", "min-p", "typical")
# own setting (must be given) and the filter it sets, then the settings that may be added
_OWN: dict[str, tuple[str, str] | None] = {
    "greedy": None,
    "sample": None,
    "temperature": ("t", "temperature"),
    "top-k": ("k", "top-k"),
    "top-p": ("p", "top-p"),
    "min-p": ("p", "min-p"),
    "typical": ("p", "typical"),
    "beam": ("width", "width"),
}
_ADDED = {"greedy": ("repetition",), "beam": ("temperature", "repetition")}
NAMES = tuple(_OWN)
WIDEST = 1024
LONGEST = 19  # digits; beyond, a number of tokens is nonsense
_WHOLE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Strategy:
    """A name and its settings, checked: `Strategy("top-k", {"k": 20, "temperature": 0.8})`."""

    name: str
    settings: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", dict(self.settings))
        if self.name not in _OWN:
            raise UsageError(f"unknown strategy {self.name!r}: {suggest(self.name, NAMES)}")
        known = _known(self.name)
        for key in self.settings:
            if key not in known:
                raise UsageError(f"{self.name} has no setting {key!r}: {suggest(key, known)}")
        own = _OWN[self.name]
        if own is not None and own[0] not in self.settings:
            raise UsageError(f"{self.name} needs {own[0]}=, as in {self.name}:{own[0]}=…")
        width = self.settings.get("width", 1)
        if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= WIDEST:
            raise UsageError(f"beam: width must be a whole number in 1 … {WIDEST}, got {width}")
        _ = self.filters  # which checks its numbers

    @property
    def filters(self) -> Filters:
        """The filters of this strategy; greedy is temperature 0."""
        named = {_known(self.name)[k]: v for k, v in self.settings.items() if k != "width"}
        if self.name == "greedy":
            named["temperature"] = 0.0
        values = {name.replace("-", "_"): value for name, value in named.items()}
        return Filters(**values)  # pyright: ignore[reportArgumentType]

    @property
    def width(self) -> int | None:
        """The number of beams; None for any other strategy."""
        return self.settings.get("width")  # pyright: ignore[reportReturnType]

    @property
    def order(self) -> str:
        """The active filters in order and how the token is then chosen, as `top-k 20 → draw`."""
        steps = [f"{name} {value:g}" for name, value in self.filters.active]
        last = f"beam of {self.width}" if self.width else "draw"
        if self.name == "greedy":
            steps = steps[:-1]  # temperature 0 is how greedy is done, not what was asked for
            last = "the likeliest"
        return " → ".join([*steps, last])

    def __str__(self) -> str:
        """The form that `parse_strategy` reads."""
        given = ",".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"{self.name}:{given}" if given else self.name

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.settings.items())))


def parse_strategy(text: str) -> Strategy:
    """Parse 'name' or 'name:key=value,…'; UsageError for anything else."""
    name, colon, rest = text.strip().partition(":")
    settings: dict[str, float] = {}
    for piece in rest.split(",") if colon else ():
        key, equals, value = (part.strip() for part in piece.partition("="))
        if not (key and equals and value):
            raise UsageError(f"strategy {text!r}: settings are key=value, separated by commas")
        if key in settings:
            raise UsageError(f"strategy {text!r}: {key} is given twice")
        settings[key] = _number(text, key, value)
    return Strategy(name.strip(), settings)


def _number(text: str, key: str, value: str) -> float:
    try:
        return int(value) if _WHOLE.fullmatch(value) and len(value) < LONGEST else float(value)
    except ValueError:
        raise UsageError(f"strategy {text!r}: {key} must be a number, got {value!r}") from None


def _known(name: str) -> dict[str, str]:
    """The settings a strategy knows, each with the filter it sets."""
    own = _OWN[name]
    added: Iterable[str] = _ADDED.get(name, (*FILTERS, "repetition"))
    known = {key: key for key in added if own is None or key != own[1]}
    return known if own is None else {own[0]: own[1], **known}
