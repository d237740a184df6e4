"""Teacher and student: the same architecture with fewer layers, or any pair the user names."""

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.gguf import keep_layers, spaced_layers
from attnlab.models.hub import HubModel, quiet
from attnlab.models.tiny_llama import tiny_model
from attnlab.models.trainable import open_trainable, redraw_weights
from attnlab.studies.distillation.data import court_cases, load_splits
from attnlab.studies.distillation.study import Distillation, DistilSettings
from attnlab.tasks.made_up_articles import PHRASES


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
    assert teacher.tokenizer is not None and student.tokenizer is not None
    one, other = (m.tokenizer.library.get_vocab() for m in (teacher, student) if m.tokenizer)
    same = one == other and teacher.vocabulary == student.vocabulary
    if "logits" in s.arms and not same:
        raise UsageError(
            f"{student.name} has a vocabulary of {student.vocabulary:,} tokens and {teacher.name} "
            f"one of {teacher.vocabulary:,}: their probabilities cannot be compared; leave the arm "
            "'logits' out, or name a student with the teacher's vocabulary"
        )
