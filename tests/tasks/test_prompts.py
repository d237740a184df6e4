"""Only the answer and its end are scored, whatever the padding id is."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.audit.checks.loss_mask import loss_mask
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models.hub import HubTokenizer
from attnlab.models.tiny_llama import tiny_llama, word_tokenizer
from attnlab.tasks.made_up_articles import PHRASES
from attnlab.tasks.prompts import (
    PromptBatches,
    PromptBuilder,
    PromptExample,
    collate,
    sequential_batches,
)
from attnlab.training.distillation import sequence_nll

END = 1
LONG = PromptExample((5, 6, 7), (8, 9, 10, END))
SHORT = PromptExample((5, 6), (11, 12, END))
_ = IGNORE


def prompter(instruction: str = "Say less.", context: int = 97, **changed: Any) -> PromptBuilder:
    library = word_tokenizer([*PHRASES, instruction])
    for name, value in changed.items():
        setattr(library, name, value)
    return PromptBuilder(HubTokenizer(library), instruction, context)


def test_the_picture_of_the_first_lines() -> None:
    ids, targets, hidden = collate([LONG, SHORT], pad=END)
    assert ids.tolist() == [[5, 6, 7, 8, 9, 10], [5, 6, 11, 12, END, END]]
    assert targets.tolist() == [[_, _, 8, 9, 10, END], [_, 11, 12, END, _, _]]
    assert hidden is not None and hidden.int().tolist() == [[0] * 6, [0, 0, 0, 0, 1, 1]]
    assert collate([SHORT, SHORT]).key_padding_mask is None


def mean(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def test_pads_that_are_called_like_the_end_leave_the_end_scored() -> None:
    batch = collate([LONG, SHORT], pad=END)
    assert loss_mask(mean, batch.targets, 13, given="next", end=END).verdict == "pass"
    # the planted fault: masking by id, as a collator does whose pad token is the end
    labels = torch.where(batch.targets == END, IGNORE, batch.targets)
    found = loss_mask(mean, labels, 13, given="next", end=END)
    assert found.verdict == "fail" and "end-of-text" in found.why


def test_the_loss_of_a_model_does_not_depend_on_the_pads() -> None:
    model = tiny_llama(31, Seed(2)).double()
    with torch.no_grad():
        together, count = sequence_nll(model, collate([LONG, SHORT]))
        alone = [sequence_nll(model, collate([example])) for example in (LONG, SHORT)]
    assert count == sum(int(n) for _, n in alone) == 7
    # transformers keeps the sines of rotary positions in float32, whatever the model is in
    gap = abs(float(together) - sum(float(total) for total, _ in alone))
    assert gap < 7 * 5 * torch.finfo(torch.float32).eps * float(together)


ids = st.lists(st.integers(0, 30), min_size=1, max_size=11).map(tuple)


@given(st.lists(st.builds(PromptExample, ids, ids), min_size=1, max_size=5), st.integers(0, 30))
def test_every_example_can_be_read_back(examples: list[PromptExample], pad: int) -> None:
    batch = collate(examples, pad)
    assert int((batch.targets != IGNORE).sum()) == sum(len(e.answer) for e in examples)
    for row, e in enumerate(examples):
        shown = torch.ones_like(batch.ids[row], dtype=torch.bool)
        if batch.key_padding_mask is not None:
            shown = ~batch.key_padding_mask[row]
        answer = tuple(t for t in batch.targets[row].tolist() if t != IGNORE)
        assert answer == e.answer
        assert (*batch.ids[row][shown].tolist(), answer[-1]) == (*e.prompt, *e.answer)


def test_an_epoch_meets_every_example_once_and_steps_are_pure() -> None:
    examples = [PromptExample((5, i), (i, END)) for i in range(7)]
    batches = PromptBatches(examples, 3, Seed(4))
    rows = [int(i) for step in range(7) for i in batches.batch(step).ids[:, 1]]
    for start in (0, 7, 14):
        assert sorted(rows[start : start + 7]) == list(range(7))
    again = PromptBatches(examples, 3, Seed(4)).batch(5)
    assert torch.equal(again.ids, batches.batch(5).ids)

    def epoch(number: int) -> list[list[int]]:
        return PromptBatches(examples, 7, Seed(4)).batch(number).ids.tolist()

    assert epoch(0) == epoch(0) != epoch(1)
    in_turn = [b.ids[:, 1].tolist() for b in sequential_batches(examples, 5)]
    assert in_turn == [[0, 1, 2, 3, 4], [5, 6]]


def test_a_chat_model_is_asked_by_its_template_and_another_in_plain_text() -> None:
    chat = prompter()
    words = chat.tokenizer.library.convert_ids_to_tokens(list(chat.prompt("The mayor sold.")))
    assert words[:4] == ["<start>", "Say", "less", "."] and words[-2:] == ["<end>", "<start>"]
    plain = prompter(chat_template=None)
    assert not plain.chats and plain.end not in plain.prompt("The mayor sold.")
    assert len(plain.prompt("The mayor sold.")) == 9  # say less . the mayor sold . summary :


def test_what_was_cut_or_not_finished_has_no_end() -> None:
    made = prompter()
    whole = made.example("A farmer sold", " The mayor opened \n", 3)
    assert whole.answer[-1] == made.end and len(whole.answer) == 4 and not whole.cut
    for other in (
        made.example("A farmer", "The mayor opened a bridge", 3),
        made.example("A farmer", "The mayor opened", 5, finished=False),
    ):
        assert other.cut and made.end not in other.answer and len(other.answer) == 3
    assert made.example("A farmer", "", 3).answer == (made.end,)


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(UsageError, match="do not fit into the 11 positions"):
        prompter(context=11).example("A farmer sold", "The mayor", 7)
    with pytest.raises(UsageError, match="no token that ends"):
        prompter(eos_token=None).example("A farmer", "The mayor", 7)
    with pytest.raises(UsageError, match="nothing to learn"):
        prompter().example("A farmer", "", 7, finished=False)
    with pytest.raises(UsageError, match="nothing to learn"):
        PromptBatches([], 3, Seed(0))
    with pytest.raises(UsageError, match="needs a prompt"):
        collate([PromptExample((), (3, 4))])
