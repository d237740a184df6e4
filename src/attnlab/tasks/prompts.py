"""Prompts with answers, one pair per row; only the answer and its end token are scored.

    ids      p p p a b c        targets  _ _ a b c /        key_padding_mask   . . . . . .
             p p d e / #                 _ d e / _ _                           . . . . # #

Scored targets are chosen by position, never by id: in many models (such as smollm2) the padding id
is also the end-of-text id, and masking it by id would mask every end, so that the model never
learned to stop. A truncated answer has no end token, because the model must not stop there.
A chat model gets the prompt in its chat template, any other model as plain text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models.hub import HubTokenizer
from attnlab.tasks.batches import Batch, EpochSampler, pad_rows, shuffled


@dataclass(frozen=True)
class PromptExample:
    """Token ids of a prompt and its answer; `cut`: the answer is truncated and has no end token."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    cut: bool = False


@dataclass(frozen=True)
class PromptBuilder:
    """Builds token ids: instruction and article as the prompt, summary and end as the answer."""

    tokenizer: HubTokenizer
    instruction: str
    context: int  # positions the model has

    @property
    def end(self) -> int:
        """The end-of-text id, which ends an answer."""
        if self.tokenizer.stop is None:
            raise UsageError("the tokenizer has no token that ends a text: answers cannot end")
        return self.tokenizer.stop

    @property
    def chats(self) -> bool:
        """Whether the tokenizer has a chat template."""
        return bool(getattr(self.tokenizer.library, "chat_template", None))

    def prompt(self, article: str) -> tuple[int, ...]:
        """Return the ids before the answer; they depend on the tokenizer only, not on the model."""
        if not self.chats:
            return tuple(self.tokenizer.encode(f"{self.instruction}\n\n{article}\n\nSummary:"))
        messages = [{"role": "user", "content": f"{self.instruction}\n\n{article}"}]
        ids = self.tokenizer.library.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        return tuple(int(i) for i in ids)

    def example(
        self, article: str, summary: str, most: int, *, finished: bool = True
    ) -> PromptExample:
        """Build an example with a summary of at most `most` tokens.

        A summary that is longer, or was not `finished` when it was generated, gets no end token.
        """
        prompt, text = self.prompt(article), summary.strip()
        ids = self.tokenizer.encode(text if self.chats else f" {text}")
        cut = len(ids) > most or not finished
        answer = tuple(ids[:most]) if cut else (*ids, self.end)
        self.check(len(prompt), most)
        if not answer:
            raise UsageError("the answer has no token and no end: nothing to learn")
        return PromptExample(prompt, answer, cut)

    def check(self, prompt: int, most: int) -> None:
        """Raise UsageError if prompt + most tokens do not fit into the model's context."""
        if prompt + most > self.context:
            raise UsageError(
                f"a prompt of {prompt} tokens and an answer of {most} do not fit into the "
                f"{self.context} positions of the model: shorten the articles"
            )


class PromptBatches:
    """Training batches as a pure function of (seed, step); every example once per epoch."""

    def __init__(self, examples: Sequence[PromptExample], batch: int, seed: Seed) -> None:
        if not examples:
            raise UsageError("no example: nothing to learn")
        self.examples, self.rows = tuple(examples), len(examples)
        self._sampler = EpochSampler(self.rows, batch, shuffled(self.rows, seed))

    def batch(self, step: int) -> Batch:
        """Return batch number `step` of the endless sequence of epochs."""
        return collate([self.examples[i] for i in self._sampler.batch(step)])


def sequential_batches(examples: Sequence[PromptExample], batch: int) -> Iterator[Batch]:
    """Yield every example once in the given order, for evaluation."""
    for start in range(0, len(examples), batch):
        yield collate(examples[start : start + batch])


def collate(examples: Iterable[PromptExample], pad: int = 0) -> Batch:
    """Pad examples on the right with the id `pad`; padding is masked and not scored."""
    examples = list(examples)
    rows = [(*e.prompt, *e.answer) for e in examples]
    starts = [len(e.prompt) - 1 for e in examples]  # the position that predicts the first token
    if not rows or min(starts) < 0:
        raise UsageError("an example needs a prompt: its last token predicts the answer")
    lengths = np.array([len(row) - 1 for row in rows])
    width = int(lengths.max())
    targets = [
        (IGNORE,) * start + row[start + 1 :] for row, start in zip(rows, starts, strict=True)
    ]
    mask = np.arange(width) >= lengths[:, None]
    return Batch(
        pad_rows([row[:-1] for row in rows], width, pad),
        pad_rows(targets, width, IGNORE),
        torch.from_numpy(mask) if mask.any() else None,
    )
