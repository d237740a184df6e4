"""Articles with summaries made of a few dozen phrases, for runs of seconds without any download."""

from attnlab.core.seeds import Seed
from attnlab.tasks.summaries import SummaryRow

WHO = ("The mayor", "A farmer", "Two sisters", "The court", "A young pilot", "The old school")
DID = ("opened", "sold", "found", "closed", "painted", "lost")
WHAT = ("a bridge", "the red boat", "seven letters", "a garden", "the town hall", "an island")
WHERE = ("in Leeds", "near the river", "after the storm", "on Monday", "last winter", "at noon")
PHRASES = (*WHO, *DID, *WHAT, *WHERE)  # every word of every article
ROWS = 120


def made_up_articles(count: int = ROWS) -> tuple[SummaryRow, ...]:
    """Articles of five sentences; the summary is two of them, the later one first."""
    rng = Seed(7).child("made-up articles").numpy_generator()
    rows = []
    for number in range(count):
        sentences = [
            " ".join(str(rng.choice(words)) for words in (WHO, DID, WHAT, WHERE)) + "."
            for _ in range(5)
        ]
        one, other = sorted(int(i) for i in rng.choice(5, size=2, replace=False))
        between = "\n" if number % 3 == 0 else " "  # some people put every sentence on its own line
        rows.append(SummaryRow(" ".join(sentences), f"{sentences[other]}{between}{sentences[one]}"))
    return tuple(dict.fromkeys(rows))
