"""label-shift: fires on 0 and 2 shifts, on a wrapped end, on a constant; ours and others pass."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnlab.audit.checks.label_shift import LENGTH, NAME, label_shift
from attnlab.measure.perplexity import token_nll
from attnlab.models.loss import linear_nll

VOCAB = 23


def plain(logits: Tensor, labels: Tensor, smooth: float = 0.0) -> Tensor:
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=smooth)


def shifted(logits: Tensor, labels: Tensor, by: int = 1) -> Tensor:
    return plain(logits[:, :-by], labels[:, by:])


def rolled(logits: Tensor, labels: Tensor) -> Tensor:
    """Shifted, but the last output is compared with the first token."""
    return plain(logits, labels.roll(-1, dims=1))


def test_the_clean_twins_pass() -> None:
    for found in (label_shift(shifted, VOCAB), label_shift(plain, VOCAB, given="next")):
        assert (found.name, found.verdict) == (NAME, "pass")
        assert found.number == pytest.approx(0, abs=1e-9)


def test_our_own_losses_pass() -> None:
    def ours(logits: Tensor, labels: Tensor) -> Tensor:
        total, count = linear_nll(logits, torch.eye(VOCAB), labels)
        return total / count

    def perplexity(logits: Tensor, labels: Tensor) -> float:
        nll = token_nll(lambda ids, hidden: logits)
        return float(nll(torch.zeros_like(labels), labels, None).mean())

    assert label_shift(ours, VOCAB, given="next").verdict == "pass"
    assert label_shift(perplexity, VOCAB, given="next").verdict == "pass"


def test_hugging_face_loss_passes_and_shifted_labels_given_to_it_do_not() -> None:
    from transformers.loss.loss_utils import ForCausalLMLoss

    def theirs(logits: Tensor, labels: Tensor) -> Tensor:
        return ForCausalLMLoss(logits, labels, vocab_size=VOCAB)

    assert label_shift(theirs, VOCAB).verdict == "pass"
    twice = label_shift(theirs, VOCAB, given="next")
    assert twice.verdict == "fail" and twice.why.startswith("2 shifts")


@pytest.mark.parametrize(
    ("by", "said"), [(0, "0 shifts: it learns to copy"), (2, "2 shifts"), (3, "3 shifts")]
)
def test_a_wrong_number_of_shifts_is_named(by: int, said: str) -> None:
    loss = plain if by == 0 else lambda logits, labels: shifted(logits, labels, by)
    found = label_shift(loss, VOCAB)
    assert found.verdict == "fail" and found.why.startswith(said)
    assert found.evidence["loss_by_shift"][str(by)] < 1e-9


def test_shifted_the_wrong_way() -> None:
    found = label_shift(lambda logits, labels: plain(logits[:, 1:], labels[:, :-1]), VOCAB)
    assert found.verdict == "fail" and found.why.startswith("−1 shifts")


def test_an_end_that_wraps_around_is_caught_and_named() -> None:
    found = label_shift(rolled, VOCAB)
    assert found.verdict == "fail"
    assert found.evidence["misaligned"] == [LENGTH - 1]
    assert f"positions {LENGTH - 1} are compared with another token" in found.why


def test_a_term_that_is_never_zero_is_caught() -> None:
    found = label_shift(lambda x, y: shifted(x, y) + 0.5, VOCAB)
    assert found.verdict == "fail" and "is 0.5, not 0" in found.why
    assert label_shift(lambda x, y: torch.tensor(float("nan")), VOCAB).verdict == "fail"
    assert label_shift(lambda x, y: torch.tensor(7.0), VOCAB).verdict == "fail"
    assert "0 for every input" in label_shift(lambda x, y: torch.tensor(0.0), VOCAB).why


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_scale_of_the_loss_does_not_matter(factor: float) -> None:
    assert label_shift(lambda x, y: factor * shifted(x, y), VOCAB).verdict == "pass"
    assert label_shift(lambda x, y: factor * rolled(x, y), VOCAB).verdict == "fail"


def test_a_penalty_on_the_normaliser_is_no_fault() -> None:
    """log²Z is 0 for the logits given."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return shifted(logits, labels) + 1e-2 * logits.logsumexp(-1).pow(2).mean()

    assert label_shift(loss, VOCAB).verdict == "pass"


def test_label_smoothing_is_not_a_wrong_shift() -> None:
    def smooth(logits: Tensor, labels: Tensor) -> Tensor:
        return plain(logits[:, :-1], labels[:, 1:], smooth=0.1)

    assert label_shift(smooth, VOCAB, smoothing=0.1).verdict == "pass"
    assert label_shift(smooth, VOCAB).verdict == "fail"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("vocab", [2, 3, 1009])
def test_any_vocabulary_and_seed(vocab: int, seed: int) -> None:
    assert label_shift(shifted, vocab, seed=seed).verdict == "pass"
    assert label_shift(plain, vocab, seed=seed).why.startswith("0 shifts")


def test_a_sum_is_as_good_as_a_mean() -> None:
    def total(logits: Tensor, labels: Tensor) -> Tensor:
        return shifted(logits, labels) * labels.numel()

    assert label_shift(total, VOCAB).verdict == "pass"


def test_not_applicable() -> None:
    assert label_shift(shifted, 1).verdict == "not-applicable"
