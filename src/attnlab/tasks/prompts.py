"""A prompt and its answer in one row; only the answer, with the end of the text, is learnt.

    ids      p p p a b c        targets  _ _ a b c /        hidden   . . . . . .
             p p d e / #                 _ d e / _ _                 . . . . # #

Which targets count follows from places, never from ids: in many models the id that pads is the id
that ends a text (smollm2's is), and masking pads by id would mask every end, so that the model
never learnt to stop. An answer that was cut has no end: nothing teaches the model to stop there.
A chat model reads the prompt by its own template, any other as plain text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models.hub import HubTokenizer
from attnlab.tasks.batches import Batch
from attnlab.tasks.batches import EpochSampler as Line  # pyright: ignore[reportPrivateUsage]

Side = Literal["left", "right"]


@dataclass(frozen=True)
class PromptExample:
    """What is read and what is to be written, in ids; `cut`: the answer's end was left off."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    cut: bool = False


@dataclass(frozen=True)
class PromptBuilder:
    """Texts as a model reads and writes them: instruction and article in, summary and end out."""

    tokenizer: HubTokenizer
    instruction: str
    context: int  # positions the model has

    @property
    def end(self) -> int:
        """The id that ends an answer."""
        if self.tokenizer.stop is None:
            raise UsageError("the tokenizer has no token that ends a text: answers cannot end")
        return self.tokenizer.stop

    @property
    def chats(self) -> bool:
        """Whether the model has a template for conversations."""
        return bool(getattr(self.tokenizer.library, "chat_template", None))

    def prompt(self, article: str) -> tuple[int, ...]:
        """Everything before the answer; the same for every model with the same tokenizer."""
        if not self.chats:
            return tuple(self.tokenizer.encode(f"{self.instruction}\n\n{article}\n\nSummary:"))
        said = [{"role": "user", "content": f"{self.instruction}\n\n{article}"}]
        ids = self.tokenizer.library.apply_chat_template(
            said, add_generation_prompt=True, return_dict=False
        )
        return tuple(int(i) for i in ids)

    def example(
        self, article: str, summary: str, most: int, *, finished: bool = True
    ) -> PromptExample:
        """The row of a summary of at most `most` tokens; an unfinished one gets no end."""
        prompt, text = self.prompt(article), summary.strip()
        ids = self.tokenizer.encode(text if self.chats else f" {text}")
        cut = len(ids) > most or not finished
        answer = tuple(ids[:most]) if cut else (*ids, self.end)
        self.check(len(prompt), most)
        if not answer:
            raise UsageError("an answer without a token, and unfinished: nothing to learn")
        return PromptExample(prompt, answer, cut)

    def check(self, prompt: int, most: int) -> None:
        """UsageError when prompt and answer do not fit into the model's context."""
        if prompt + most > self.context:
            raise UsageError(
                f"a prompt of {prompt} tokens and an answer of {most} do not fit into the "
                f"{self.context} positions of the model: shorten the articles"
            )


class PromptBatches:
    """Batches of examples as a pure function of (seed, step); every row once an epoch."""

    def __init__(
        self, examples: Sequence[PromptExample], batch: int, seed: Seed, *, side: Side = "right"
    ) -> None:
        if not examples:
            raise UsageError("no example: nothing to learn")
        self.examples, self._seed = tuple(examples), seed
        self.side: Side = side
        self.rows = len(self.examples)
        self._line = Line(self.rows, batch, self._order)

    def batch(self, step: int) -> Batch:
        """Batch number `step` of the endless line of epochs."""
        return collate([self.examples[i] for i in self._line.at(step)], self.side)

    def _order(self, epoch: int) -> np.ndarray:
        return self._seed.child("epoch", epoch).numpy_generator().permutation(self.rows)


def sequential_batches(
    examples: Sequence[PromptExample], batch: int, side: Side = "right"
) -> Iterator[Batch]:
    """Every example once, in the order given: to evaluate on."""
    for start in range(0, len(examples), batch):
        yield collate(examples[start : start + batch], side)


def collate(examples: Iterable[PromptExample], side: Side = "right", pad: int = 0) -> Batch:
    """The examples as one batch, padded with any id on one side; pads are hidden and unscored.

    Right is for learning: most models count positions from the first column. Left is for models
    that are told their positions.
    """
    examples = list(examples)
    rows = [(*e.prompt, *e.answer) for e in examples]
    starts = [len(e.prompt) - 1 for e in examples]  # the position that predicts the first token
    if not rows or min(starts) < 0:
        raise UsageError("an example needs a prompt: the first token follows something")
    width = max(map(len, rows)) - 1
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    targets = np.full((len(rows), width), IGNORE, dtype=np.int64)
    hidden = np.ones((len(rows), width), dtype=bool)
    for place, (row, start) in enumerate(zip(rows, starts, strict=True)):
        size = len(row) - 1
        shift = width - size if side == "left" else 0
        ids[place, shift : shift + size] = row[:-1]
        targets[place, shift + start : shift + size] = row[start + 1 :]
        hidden[place, shift : shift + size] = False
    mask = torch.from_numpy(hidden) if hidden.any() else None
    return Batch(torch.from_numpy(ids), torch.from_numpy(targets), mask)
