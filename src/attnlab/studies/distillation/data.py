"""What every arm starts from: articles with summaries, split by content; teacher and student.

The student has the teacher's architecture with fewer layers, or is any model that the user names.
"""

from functools import lru_cache
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_of_setting
from attnlab.core.seeds import Seed
from attnlab.models.hub import HubModel, HubTokenizer, quiet
from attnlab.models.tiny_llama import tiny_model
from attnlab.models.trainable import keep_layers, open_trainable, redraw_weights, spaced_layers
from attnlab.studies.distillation.study import NAMED, Distillation, DistilSettings
from attnlab.tasks import summaries
from attnlab.tasks.made_up_articles import PHRASES, made_up_articles
from attnlab.tasks.summaries import SummaryRow, SummarySplits

ARTICLES = {
    "xsum": summaries.xsum,
    "multi-lexsum": summaries.multi_lexsum,
    "made-up": made_up_articles,
}


def load_articles(s: DistilSettings, tokenizer: HubTokenizer) -> SummarySplits:
    """The first rows of each split, articles cut to whole words within `article_tokens`."""
    splits = load_splits(s)

    def shorten(rows: tuple[SummaryRow, ...], count: int) -> tuple[SummaryRow, ...]:
        most, encode = s.article_tokens, tokenizer.encode
        return tuple(
            SummaryRow(summaries.truncate_words(row.article, most, encode), row.summary)
            for row in rows[: count or None]
        )

    return SummarySplits(
        shorten(splits.train, s.train), shorten(splits.dev, s.dev), shorten(splits.test, s.test)
    )


def load_splits(s: DistilSettings) -> SummarySplits:
    """Train, dev and test by the hash of the article; none may be empty."""
    splits = _splits(s.data, s.data_sha256)
    empty = [name for name, rows in splits.as_dict().items() if not rows]
    if empty:
        raise UsageError(f"{s.data}: too few rows, the {empty[0]} split is empty")
    return splits


def court_cases(s: DistilSettings) -> tuple[SummaryRow, ...]:
    """Rows whose summaries have several sentences, to show what line breaks do; no model needed."""
    rows = made_up_articles() if s.data == "made-up" else summaries.multi_lexsum()
    return rows[: s.lines or None]


@lru_cache(maxsize=2)
def _splits(data: str, sha256: str) -> SummarySplits:
    if data in ARTICLES:
        return summaries.split_rows(ARTICLES[data]())
    if sha256 and sha256_of_setting("data", data, NAMED) != sha256:
        raise UsageError(f"{data}: the file changed since this run was started")
    return summaries.split_rows(summaries.read_summaries(Path(data)))


def load_teacher(s: DistilSettings, device: str = "cpu") -> HubModel:
    """The teacher, in evaluation mode."""
    if s.teacher == "tiny":
        return tiny_model([*PHRASES, s.instruction], Seed(3).child("tiny teacher"), device)
    return open_trainable(s.teacher, device)


def build_student(s: DistilSettings, teacher: HubModel, seed: Seed) -> HubModel:
    """The untrained student on the teacher's device; it shares no weights with the teacher."""
    if s.student:
        return open_trainable(s.student, str(teacher.device))
    if not hasattr(getattr(teacher.library, "model", None), "layers"):
        raise UsageError(
            f"{teacher.name} is not built like a Llama, so no student can be made of its layers: "
            "name a student with student="
        )
    kept = layers_kept(len(teacher.library.model.layers), s.student_layers, s.kept)
    with quiet():
        library = keep_layers(teacher.library, kept)
    if s.init == "random":
        redraw_weights(library, seed)
    name = f"{len(kept)} layers of {teacher.name}"
    return HubModel(name, library.to(teacher.device), teacher.tokenizer)


def layers_kept(layers: int, count: int, how: str) -> list[int]:
    """`count` of a teacher's layers: evenly spaced, or the first half and the last half of them.

    Loss of the untrained student on people's summaries of XSum, for smollm2 (the teacher's is 2.9):
    20 of 30 layers evenly 10.4, ends 5.8; 12 layers 15.4 and 9.8. Neighbours fit each other best.
    """
    spaced = spaced_layers(layers, count)  # refuses an impossible count
    ends = [*range((count + 1) // 2), *range(layers - count // 2, layers)]
    return spaced if how == "even" else ends


def check_inputs(study: Distillation) -> None:
    """Before a run: data and models exist and fit each other."""
    load_splits(study.settings)
    court_cases(study.settings)
    check_pair(study.settings)


def check_pair(s: DistilSettings) -> None:
    """Both models exist, and share their vocabulary where logits are compared."""
    teacher = load_teacher(s)
    student = build_student(s, teacher, Seed(0))
    one, other = (m.tokenizer.library.get_vocab() for m in (teacher, student) if m.tokenizer)
    same = one == other and teacher.vocabulary == student.vocabulary
    if "logits" in s.arms and not same:
        raise UsageError(
            f"{student.name} has a vocabulary of {student.vocabulary:,} tokens and {teacher.name} "
            f"one of {teacher.vocabulary:,}: their probabilities cannot be compared; leave the arm "
            "'logits' out, or name a student with the teacher's vocabulary"
        )
