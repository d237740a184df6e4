"""Questions asked by greedy decoding: what is said, whether it is right, how sure the model is.

confidence = p(answer and its end | question) = Π p(character), the sequence probability
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from attnlab.decode.filters import likeliest
from attnlab.decode.generate import Generated, generate
from attnlab.decode.strategy import Strategy
from attnlab.measure.calibration import auroc, calibration, selective_accuracy
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver
from attnlab.studies.knowledge.data import Material
from attnlab.tasks.birthplaces import Question, find_stated
from attnlab.tasks.people import normalise
from attnlab.tasks.prompts import PromptExample, sequential_batches

MOST = 5  # invented places that are counted out
Model = GPT | Perceiver
Prompt = Sequence[int]


@dataclass(frozen=True)
class Answers:
    """What a model said to some questions, in their order."""

    questions: tuple[Question, ...]
    said: tuple[str, ...]
    confidence: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """Exact match after `normalise`; nobody's place is never right."""
        pairs = zip(self.said, self.questions, strict=True)
        return np.array([said == q.place for said, q in pairs], dtype=bool)

    def as_json(self) -> list[list[Any]]:
        """[name, place, said, confidence] each."""
        rows = zip(self.questions, self.said, self.confidence, strict=True)
        return [[q.name, q.place, said, round(float(p), 6)] for q, said, p in rows]


def answers(
    model: Model, data: Material, questions: Sequence[Question], longest: int, batch: int
) -> Answers:
    """Ask all; an answer ends at ⁇ or □, or after `longest` characters."""
    v = data.vocabulary
    prompts = [data.prompt(question.text) for question in questions]
    found = said(model, prompts, longest, batch, (v.start, v.pad))
    texts = tuple(normalise(v.decode(text.ids)) for text in found)
    whole = [
        PromptExample(prompt, text.ids if text.ended == "length" else (*text.ids, v.start))
        for prompt, text in zip(prompts, found, strict=True)
    ]
    return Answers(tuple(questions), texts, sequence_probability(model, whole, batch))


def said(
    model: Model, prompts: Sequence[Prompt], longest: int, batch: int, stops: Collection[int] = ()
) -> list[Generated]:
    """The likeliest characters after each prompt, at most `longest`, in the prompts' order.

    A Perceiver has no cache: its latents have fixed positions, and each further character is read
    with the whole row. Rows are padded on the right, where a causal model does not look, so that
    one forward serves a whole batch instead of one row. It gives no log-probabilities.
    """
    if not prompts:
        return []
    if isinstance(model, GPT):
        return generate(
            model, prompts, Strategy("greedy"), max_new_tokens=longest, stop_ids=stops, batch=batch
        )
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    texts: dict[int, Generated] = {}
    for start in range(0, len(order), batch):
        now = order[start : start + batch]
        written = _together(model, [prompts[i] for i in now], longest, frozenset(stops))
        texts |= dict(zip(now, written, strict=True))
    return [texts[i] for i in range(len(prompts))]


def _together(
    model: Perceiver, prompts: Sequence[Prompt], longest: int, stops: frozenset[int]
) -> list[Generated]:
    """One forward a character, of the rows that have not ended."""
    texts, ended = [list(prompt) for prompt in prompts], [False] * len(prompts)
    for _ in range(longest):
        open_ = [i for i, over in enumerate(ended) if not over]
        if not open_:
            break
        for i, token in zip(open_, _next(model, [texts[i] for i in open_]), strict=True):
            ended[i] = token in stops
            if not ended[i]:
                texts[i].append(token)
    return [
        Generated(tuple(text[len(prompt) :]), (), "token" if over else "length")
        for text, prompt, over in zip(texts, prompts, ended, strict=True)
    ]


@torch.no_grad()
def _next(model: Perceiver, texts: Sequence[Prompt]) -> list[int]:
    """The likeliest id after the last `context` ids of each."""
    kept = [text[-model.context :] for text in texts]
    lengths = torch.tensor([len(text) for text in kept])
    ids = pad_sequence([torch.tensor(text) for text in kept], batch_first=True)
    # what comes after a row's end need not be hidden, and hiding it would be slower
    logits = model.logits(ids.to(next(model.parameters()).device))
    return likeliest(logits[torch.arange(len(kept)), lengths - 1]).tolist()


@torch.no_grad()
def sequence_probability(model: Model, examples: Sequence[PromptExample], batch: int) -> np.ndarray:
    """p(answer | prompt) of every example."""
    device, found = next(model.parameters()).device, []
    for part in sequential_batches(examples, batch):
        here = part.to(device)
        logs = model.logits(here.ids, here.key_padding_mask).double().log_softmax(dim=-1)
        picked = logs.gather(-1, here.targets.clamp_min(0)[..., None])[..., 0]
        found.append(torch.where(here.targets >= 0, picked, 0).sum(dim=-1).exp().cpu().numpy())
    return np.concatenate(found) if found else np.empty(0)


def recalled(model: Model, data: Material, longest: int, batch: int) -> np.ndarray:
    """Of each read person: 1 where the model completes the sentence as it stands in the text, or 0.

    The first sentence in which the name comes before the place is given up to the place; −1 where
    there is none.
    """
    people, found = data.world.read, np.full(len(data.world.read), -1)
    starts: dict[int, str] = {}
    for number, question in enumerate(people):
        stated = (start for text in data.world.documents if (start := told(question, text)))
        if start := next(stated, ""):
            starts[number] = start
    prompts = [data.vocabulary.encode(start) for start in starts.values()]
    for number, answer in zip(starts, said(model, prompts, longest, batch), strict=True):
        place = people[number].place or ""
        found[number] = data.vocabulary.decode(answer.ids).startswith(place)
    return found


def told(question: Question, document: str) -> str:
    """The document up to the place, where the whole name comes before it; else ''.

    Whole words: "Ed Cox" is not told of where Ted Cox is, nor born in Houston by his name.
    """
    if not question.place or question.name not in document:  # quick, and mostly so
        return ""
    name = _whole(question.name).search(document)
    place = None if name is None else _whole(question.place).search(document, name.end())
    return document[: place.start()] if place else ""


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")


def together(kept: np.ndarray, right: np.ndarray) -> dict[str, int]:
    """Of the people whose sentence was completed after reading, how many are answered; and not."""
    found = {"recalled_right": int((kept == 1).sum()), "recalled_n": int((kept >= 0).sum())}
    for name, those in {"memorised": kept == 1, "forgotten": kept == 0}.items():
        found |= {f"{name}_n": int(those.sum()), f"{name}_right": int(right[those].sum())}
    return found


def measured(kinds: dict[str, Answers], data: Material, limit: int) -> dict[str, Any]:
    """Counts and shares of one model's answers; what does not exist is left out."""
    metrics: dict[str, Any] = {}
    for kind, found in kinds.items():
        if not found.said:
            continue
        top = Counter(found.said).most_common(MOST)
        metrics |= {
            f"{kind}_confidence": float(found.confidence.mean()),
            f"{kind}_top": "; ".join(f"{said} {n}" for said, n in top),
            f"{kind}_top_share": top[0][1] / len(found.said),
        }
        if kind != "invented":
            metrics |= {
                f"{kind}_n": len(found.said),
                f"{kind}_right": int(found.right.sum()),
                f"{kind}_accuracy": float(found.right.mean()),
            }
    return metrics | _of_read(kinds["read"], data, limit) | _told_apart(kinds)


def _of_read(read: Answers, data: Material, limit: int) -> dict[str, Any]:
    """Baselines, ceiling, seen and unseen places, calibration: of the people who are the test."""
    gold = [q.place for q in read.questions]
    taught = Counter(q.place for q in data.world.taught)
    common = taught.most_common(1)[0][0]
    seen = np.array([place in data.world.seen_places for place in gold])
    found = {
        "majority": Counter(gold).most_common(1)[0][1] / len(gold),
        "commonest_taught": gold.count(common) / len(gold),
        "ceiling": float(np.mean(find_stated(read.questions, data.world.documents, limit))),
        "seen_n": int(seen.sum()),
        "seen_right": int(read.right[seen].sum()),
        "unseen_n": int((~seen).sum()),
        "unseen_right": int(read.right[~seen].sum()),
    }
    judged = calibration(read.confidence, read.right)
    return found | {
        "calibration_error": judged.error,
        "brier": judged.brier,
        "abstaining_area": selective_accuracy(read.confidence, read.right).area,
    }


def _told_apart(kinds: dict[str, Answers]) -> dict[str, Any]:
    """AUROC of confidence, read people against those of whom nothing can be known."""
    found: dict[str, Any] = {}
    for other in ("unread", "invented"):
        e = auroc(kinds["read"].confidence, kinds[other].confidence)
        if e.has_interval:
            ends = {f"auroc_{other}_low": e.low, f"auroc_{other}_high": e.high}
            found |= {f"auroc_{other}": e.value, **ends}
    return found
