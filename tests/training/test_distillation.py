"""A student that equals its teacher is at the bottom of every loss on logits."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.audit.checks.distillation_identity import distillation_identity
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models.trainable import keep_layers, spaced_layers
from attnlab.tasks.batches import Batch
from attnlab.training.distillation import DIVERGENCES, DistillationLoss, sequence_nll
from tests.models.test_llama import tiny as tiny_llama
from tests.models.variants import gpt, small, some_ids


def normal(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=Seed(seed).torch_generator())


def batch(rows: int = 3, length: int = 11, prompt: int = 4) -> Batch:
    ids = some_ids(rows, length)
    targets = ids.roll(-1, dims=1).clone()
    targets[:, :prompt], targets[:, -1] = IGNORE, IGNORE
    return Batch(ids, targets, None)


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_audit_of_identity_passes(name: str, temperature: float) -> None:
    def loss(student: Tensor, teacher: Tensor) -> Tensor:
        return DIVERGENCES[name](student, teacher, temperature).mean()

    found = distillation_identity(loss)
    assert found.verdict == "pass", found.why


def test_swapped_halves_and_other_temperatures_are_what_the_audit_finds() -> None:
    def lopsided(student: Tensor, teacher: Tensor) -> Tensor:
        return DIVERGENCES["forward"](student / 2, teacher, 1.0).mean()

    assert distillation_identity(lopsided).verdict == "fail"


@pytest.mark.parametrize("name", DIVERGENCES)
def test_against_sums_written_out_in_float64(name: str) -> None:
    student, teacher, heat = normal(7, 13, seed=1), normal(7, 13, seed=2), 1.7
    s, t = ((x.double() / heat).softmax(-1) for x in (student, teacher))
    mean = (s + t) / 2
    kl = {
        "forward": t * (t / s).log(),
        "reverse": s * (s / t).log(),
        "jsd": (t * (t / mean).log() + s * (s / mean).log()) / 2,
    }[name]
    found = DIVERGENCES[name](student, teacher, heat)
    assert torch.allclose(found.double(), heat**2 * kl.sum(-1), rtol=1e-5, atol=1e-6)


def test_certain_models_give_finite_numbers() -> None:
    student, teacher = torch.zeros(1, 5), torch.zeros(1, 5)
    student[0, 0], teacher[0, 1] = 200.0, 200.0
    assert float(DIVERGENCES["jsd"](student, teacher, 1.0)) == pytest.approx(math.log(2), rel=1e-6)
    assert float(DIVERGENCES["forward"](student, teacher, 1.0)) == pytest.approx(200, rel=1e-3)


@pytest.mark.parametrize("ours", [True, False])
def test_a_copy_of_the_teacher_has_nothing_to_learn(ours: bool) -> None:
    teacher: Any = gpt(small(), torch.float32) if ours else tiny_llama().float()
    for name in DIVERGENCES:
        total, scored = DistillationLoss(teacher, name, 2.0)(teacher, batch())
        assert abs(total.item()) / int(scored) < 1e-6 and int(scored) == 3 * 6
    own, scored = sequence_nll(teacher, batch())
    assert own.item() / int(scored) > 0.1  # the teacher's own loss, not 0


def test_prompts_and_padding_are_not_scored() -> None:
    model = gpt(small())
    plain, other = batch(), batch()
    ids = other.ids.clone()
    ids[:, -1] = (ids[:, -1] + 1) % 53  # after every scored position
    assert torch.equal(
        sequence_nll(model, plain)[0], sequence_nll(model, other._replace(ids=ids))[0]
    )
    fewer = plain.targets.clone()
    fewer[0] = IGNORE
    assert int(sequence_nll(model, plain._replace(targets=fewer))[1]) == 2 * 6


def test_the_teacher_learns_nothing_and_is_in_evaluation_mode() -> None:
    teacher, student = gpt(small(), torch.float32), gpt(small(), torch.float32, seed=5)
    teacher.train()
    before = {k: v.clone() for k, v in teacher.state_dict().items()}
    total, _ = DistillationLoss(teacher)(student, batch())
    total.backward()
    assert not teacher.training
    assert all(p.grad is None for p in teacher.parameters())
    assert all(torch.equal(v, before[k]) for k, v in teacher.state_dict().items())
    assert any(p.grad is not None and bool(p.grad.any()) for p in student.parameters())


def test_other_vocabularies_and_settings_are_refused_in_words() -> None:
    student = gpt(small(vocab=59), torch.float32)
    with pytest.raises(UsageError, match="59 tokens and the teacher 53"):
        DistillationLoss(gpt(small(), torch.float32))(student, batch())
    with pytest.raises(UsageError, match="forward"):
        DistillationLoss(student, "foward")
    with pytest.raises(UsageError, match="temperature"):
        DistillationLoss(student, temperature=0.0)


def test_a_student_of_all_layers_is_its_teacher_and_one_of_few_is_its_own() -> None:
    teacher: Any = tiny_llama(num_hidden_layers=2)
    ids = some_ids(3, 11)
    whole = keep_layers(teacher, [0, 1])
    assert torch.equal(whole(ids).logits, teacher(ids).logits)
    one = keep_layers(teacher, [1])
    assert len(one.model.layers) == 1
    mine, theirs = (
        one.model.layers[0].mlp.up_proj.weight,
        teacher.model.layers[1].mlp.up_proj.weight,
    )
    assert torch.equal(mine, theirs) and mine.data_ptr() != theirs.data_ptr()
    with pytest.raises(UsageError, match="layers 0 to 1"):
        keep_layers(teacher, [2])


def test_layers_are_kept_evenly() -> None:
    assert (
        spaced_layers(30, 5) == [0, 7, 14, 22, 29]
        and spaced_layers(3, 3) == [0, 1, 2]
        and spaced_layers(7, 1) == [0]
    )
    with pytest.raises(UsageError, match="1 to 30"):
        spaced_layers(30, 31)
