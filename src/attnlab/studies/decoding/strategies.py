"""Decoding strategies by name: the curves, the limits that are exact, labels for readers."""

ANCHORS = ("greedy", "sample")
GREEDY, SAMPLE, PEOPLE = "greedy", "sample", "people"
KEYS = {"temperature": "t", "top-k": "k", "top-p": "p"}  # the three curves
TEMPERED = "top-p:p=0.9,temperature=0.7"
MORE = (TEMPERED, "min-p:p=0.1", "typical:p=0.9", "greedy:repetition=1.3", "beam:width=4")
# exact for any model with one likeliest token; k = |V| is added once |V| is known
GREEDY_LIMITS = (
    "temperature:t=0",
    "temperature:t=1e-09",
    "top-k:k=1",
    "top-p:p=0",
    "top-p:p=1e-09",
    "min-p:p=1",
)
SAMPLE_LIMITS = ("temperature:t=1", "top-k:k=0", "top-p:p=1", "min-p:p=0", "typical:p=1")

SYMBOLS = {"temperature": "T", "top-k": "k", "top-p": "p"}
ADDED = {"temperature": "T", "repetition": "penalty"}
ALONE = {SAMPLE: "sampling", PEOPLE: "people"}


def label(strategy: str) -> str:
    """The short name in figures: T = 0.5, k = 20, beam 4, greedy, penalty 1.3."""
    name, _, rest = strategy.partition(":")
    options = [piece.partition("=")[::2] for piece in rest.split(",") if piece]
    if not options:
        return ALONE.get(name, name)
    if len(options) == 1 and name in SYMBOLS:
        return f"{SYMBOLS[name]} = {options[0][1]}"
    first = ALONE.get(name, name)
    if name not in ANCHORS:
        first, options = f"{name} {options[0][1]}", options[1:]
    return ", ".join([first, *(f"{ADDED.get(key, key)} {value}" for key, value in options)])


def is_deterministic(strategy: str) -> bool:
    """Whether a strategy always writes the same text: greedy, temperature 0, beam search."""
    from attnlab.decode.strategy import parse_strategy

    parsed = parse_strategy(strategy)
    return parsed.width is not None or parsed.filters.temperature == 0
