"""loss-mask: fires on a lost, inverted or shifted mask, on counted pads, on an unlearnt end."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnlab.audit.checks.loss_mask import NAME, loss_mask
from attnlab.core.tokens import IGNORE
from attnlab.models.loss import linear_nll

VOCAB, END = 19, 1
IDS = torch.tensor([[5, 7, 3, 11, 13, END], [2, 17, 4, END, 0, 0], [8, 6, 12, 9, END, 0]])
ANSWER = torch.tensor(
    [[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 0]], dtype=torch.bool
)
LABELS = IDS.where(ANSWER, torch.tensor(IGNORE))
Loss = Callable[[Tensor, Tensor], Tensor]


def plain(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction=reduction)


def shifted(logits: Tensor, labels: Tensor) -> Tensor:
    return plain(logits[:, :-1], labels[:, 1:])


def masked(mask: Tensor) -> Loss:
    """A loss with a mask of its own: labels are tokens everywhere."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        each = cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        return (each * mask).sum() / mask.sum()

    return loss


def test_the_clean_twins_pass() -> None:
    found = loss_mask(shifted, LABELS, VOCAB, end=END)
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 0)
    assert found.evidence["scored"] == 9 and found.evidence["end_of_text_scored"] == 3
    assert found.evidence["divided_by"] == pytest.approx(9)
    assert found.evidence["scored_labels"] == [3, 11, 13, END]
    own = loss_mask(masked(ANSWER), IDS, VOCAB, scored=ANSWER, given="next", end=END)
    assert own.verdict == "pass" and own.evidence["divided_by"] == pytest.approx(9)


def test_our_own_loss_passes() -> None:
    def ours(logits: Tensor, labels: Tensor) -> Tensor:
        total, count = linear_nll(logits, torch.eye(VOCAB, dtype=logits.dtype), labels)
        return total / count

    assert loss_mask(ours, LABELS, VOCAB, end=END, given="next").verdict == "pass"


def test_a_sum_passes() -> None:
    found = loss_mask(lambda x, y: plain(x, y, "sum"), LABELS, VOCAB, given="next")
    assert found.verdict == "pass" and found.evidence["divided_by"] == pytest.approx(1)


def test_a_lost_mask_is_caught() -> None:
    found = loss_mask(masked(torch.ones_like(ANSWER)), IDS, VOCAB, scored=ANSWER, given="next")
    assert found.verdict == "fail" and found.number == 9
    assert "9 labels are scored that should not be; the first is position 0 of row 0" in found.why


def test_an_inverted_mask_is_caught() -> None:
    found = loss_mask(masked(~ANSWER), IDS, VOCAB, scored=ANSWER, given="next")
    assert found.verdict == "fail" and "the mask is inverted" in found.why


def test_a_mask_shifted_by_one_is_caught() -> None:
    found = loss_mask(masked(ANSWER.roll(1, dims=1)), IDS, VOCAB, scored=ANSWER, given="next")
    assert found.verdict == "fail" and found.number is not None and found.number >= 4
    assert "should not be and" in found.why


def test_nothing_scored_is_caught() -> None:
    found = loss_mask(lambda x, y: x.sum() * 0 + 1, LABELS, VOCAB)
    assert found.verdict == "fail" and "no label is scored" in found.why
    constant = loss_mask(lambda x, y: torch.tensor(1.0), LABELS, VOCAB)
    assert constant.verdict == "fail"


def test_pads_counted_as_tokens_are_caught() -> None:
    """Σ over the scored labels, divided by all positions."""
    found = loss_mask(lambda x, y: plain(x, y, "sum") / y.numel(), LABELS, VOCAB, given="next")
    assert found.verdict == "fail" and "divided by all 18 positions" in found.why


def test_an_unscored_label_that_moves_the_loss_is_caught() -> None:
    """The outputs are masked rightly, the normaliser reads the labels of the rest."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return masked(ANSWER)(logits, labels) * 9 / (labels != 0).sum()

    found = loss_mask(loss, IDS, VOCAB, scored=ANSWER, given="next")
    assert found.verdict == "fail" and "changing unscored labels moves the loss" in found.why


def test_pad_equal_to_end_is_caught() -> None:
    """Labels equal to the pad are ignored, and the pad is the end: it is never learned."""
    same = IDS.where(IDS != 0, torch.tensor(END))
    labels = LABELS.where(same != END, torch.tensor(IGNORE))
    found = loss_mask(shifted, labels, VOCAB, end=END)
    assert found.verdict == "fail" and "never learned" in found.why
    assert loss_mask(shifted, labels, VOCAB).verdict == "pass"


def test_scored_tokens_can_be_read() -> None:
    found = loss_mask(shifted, LABELS, VOCAB, decode=lambda ids: " ".join(map(str, ids)))
    assert found.evidence["scored_text"] == "3 11 13 1"


def test_not_applicable() -> None:
    nothing = torch.full_like(LABELS, IGNORE)
    assert loss_mask(shifted, nothing, VOCAB).verdict == "not-applicable"
