"""Teacher and student: the same architecture with fewer layers, or any pair a person names.

smollm2, or any .gguf file of a Llama, is unpacked once into <cache>/made/NAME as a plain model in
float32, since a model read from GGUF can neither be saved nor trained; later runs find it there.
"""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab import assets
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.gguf import dequantize_cached, keep_layers, spaced_layers
from attnlab.models.hub import HubModel, HubTokenizer, load, quiet
from attnlab.studies.distillation import tiny
from attnlab.studies.distillation.settings import DistilSettings


def teacher_of(s: DistilSettings, device: str = "cpu") -> HubModel:
    """The teacher, in evaluation mode."""
    if s.teacher == "tiny":
        with quiet():
            words = tiny.tokenizer(s.instruction)
            library = tiny.llama(len(words), Seed(3).child("tiny teacher"))
        return HubModel("tiny", library.to(device), HubTokenizer(words))
    return opened(s.teacher, device)


def student_of(s: DistilSettings, teacher: HubModel, seed: Seed) -> HubModel:
    """The student before any training, on the teacher's device; its weights are its own."""
    if s.student:
        return opened(s.student, str(teacher.device))
    if not hasattr(getattr(teacher.library, "model", None), "layers"):
        raise UsageError(
            f"{teacher.name}: its layers are not where a Llama's are, so no student can be made "
            "of them: name one with student="
        )
    kept = layers_kept(len(teacher.library.model.layers), s.student_layers, s.kept)
    with quiet():
        library = keep_layers(teacher.library, kept)
    if s.init == "random":
        redrawn(library, seed)
    return HubModel(
        f"{len(kept)} layers of {teacher.name}", library.to(teacher.device), teacher.tokenizer
    )


def layers_kept(layers: int, count: int, how: str) -> list[int]:
    """`count` of a teacher's layers: evenly spaced, or the first half and the last half of them.

    Measured on smollm2, untrained, loss on people's summaries of XSum (the teacher's is 2.9): 20 of
    30 layers evenly 10.4, ends 5.8; 12 layers 15.4 and 9.8. Neighbours fit each other best.
    """
    spaced = spaced_layers(layers, count)  # which refuses what cannot be
    ends = [*range((count + 1) // 2), *range(layers - count // 2, layers)]
    return spaced if how == "even" else ends


def check_pair(s: DistilSettings) -> None:
    """Before a run: both models are there, and speak the same tokens where logits are compared."""
    teacher = teacher_of(s)
    student = student_of(s, teacher, Seed(0))
    assert teacher.tokenizer is not None and student.tokenizer is not None
    if "logits" in s.arms:
        one, other = (m.tokenizer.library.get_vocab() for m in (teacher, student) if m.tokenizer)
        if one != other or teacher.vocabulary != student.vocabulary:
            raise UsageError(
                f"{student.name} has {student.vocabulary:,} tokens of its own and {teacher.name} "
                f"{teacher.vocabulary:,}: their probabilities cannot be compared; leave the arm "
                "'logits' out, or name a student with the teacher's vocabulary"
            )


@torch.no_grad()
def redrawn(library: Any, seed: Seed) -> Any:
    """Every weight drawn anew: matrices N(0, initializer_range²), norms 1, biases 0."""
    for name, tensor in library.named_parameters():
        if tensor.ndim >= 2:
            spread = getattr(library.config, "initializer_range", 0.02)
            generator = seed.child("weights", name).torch_generator()
            tensor.copy_(spread * torch.randn(tensor.shape, generator=generator))
        else:
            tensor.fill_(0.0 if name.endswith("bias") else 1.0)
    return library


def weights_sha256(library: nn.Module) -> str:
    """SHA-256 over names and bits of all weights: is this still the same model?"""
    digest = hashlib.sha256()
    for name, tensor in sorted(library.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def opened(name: str, device: str) -> HubModel:
    """An asset, a folder, a .gguf file or a hub name, with its tokenizer, fit to be trained."""
    path: str | Path = name
    if name == "smollm2":
        (path,) = assets.get(name).files
    if Path(path).is_file():
        path = dequantize_cached(Path(path))
    found = load(path, device=device)
    if found.tokenizer is None:
        raise UsageError(f"{found.name} has no tokenizer: it can read no article")
    return HubModel(name if name == "smollm2" else found.name, found.library, found.tokenizer)
