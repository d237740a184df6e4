"""When do a new tokenizer and new weights pay? One source, one target, three ways, rising data.

    continued  the news' tokenizer, weights pretrained on the news, trained on
    borrowed   the news' tokenizer, fresh weights
    own        a tokenizer learnt from the target's own bytes, fresh weights

Every way takes the same steps of the same number of tokens. Compared are bits per byte, −log₂ p of
the text / its bytes: perplexity is per token, and a token is another unit in each tokenizer. dev
says at which evaluation to stop, test is reported.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial, TrialContext, TrialStopped
from attnlab.measure.perplexity import Perplexity, corpus_perplexity
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.studies.audited import audit_metrics
from attnlab.studies.concepts.texts import byte_count, splits, taken, word_count
from attnlab.tasks.batches import PackedBatches, sequential_batches
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer
from attnlab.train.loop import train
from attnlab.train.result import Hooks, Progress
from attnlab.train.settings import TrainSettings

WAYS = ("continued", "borrowed", "own")
MIN_COUNT = 2  # a pair that occurs once is no habit of the text


@dataclass(frozen=True)
class Exam:
    """Dev and test texts of the target, for any tokenizer."""

    dev: list[str]
    test: list[str]

    def scores(self, model: GPT, tokenizer: Tokenizer) -> dict[str, float]:
        """Bits per byte of both; perplexity of test per token."""
        dev, test = (read(model, tokenizer, part) for part in (self.dev, self.test))
        return {
            "value": bits(dev, self.dev),
            "test_bits": bits(test, self.test),
            "test_perplexity": test.corpus,
        }


def read(model: GPT, tokenizer: Tokenizer, texts: Sequence[str]) -> Perplexity:
    """Every token scored once, in rows of a block; the first of a row is given."""
    stream, size = tokenizer.stream(texts), model.config.block
    rows = [stream[i : i + size + 1] for i in range(0, len(stream) - 1, size)]
    return corpus_perplexity(model.nll, sequential_batches(rows, 32))


def bits(found: Perplexity, texts: Sequence[str]) -> float:
    """Σ −log₂ p / bytes."""
    return found.nll / math.log(2) / byte_count(texts)


def try_ways(trial: Trial, context: TrialContext) -> Outcome:
    """Pretrain on the news once, then each way at each size."""
    c, seed = trial.config, trial.stream
    news, target = splits("news"), splits(c["target"])
    exam = Exam(
        *(
            taken(part, c["scored_bytes"], seed.child(name))
            for name, part in (("dev", target.dev), ("test", target.test))
        )
    )
    source = taken(news.train, c["source_bytes"], seed.child("source"))
    borrowed = learnt(source, c["vocabulary"])
    lesson = _Lesson(trial, context)
    pretrained = lesson.fresh("pretrained")
    lesson.teach(pretrained, borrowed, source, None)
    metrics: dict[str, Any] = audit_metrics(lesson.fresh("fresh"), "start")
    metrics["untouched_bits"] = exam.scores(pretrained, borrowed)["test_bits"]
    curves: dict[str, list[float]] = {}
    for size in c["sizes"]:
        texts = taken(target.train, size, seed.child("read"))
        own = learnt(texts, c["vocabulary"])
        ways = {
            "continued": (copy.deepcopy(pretrained), borrowed),
            "borrowed": (lesson.fresh("fresh"), borrowed),
            "own": (lesson.fresh("fresh"), own),
        }
        for way, (model, tokenizer) in ways.items():
            log = lesson.teach(model, tokenizer, texts, exam, tuned=way == "continued")
            metrics |= {f"{way}_{size}_{k}": v for k, v in at_best(log).items()}
            curves[f"{way}_{size}"] = [line["value"] for line in log]
        if size == c["sizes"][-1]:
            metrics |= lengths(exam.test, own, borrowed) | crossed(ways, exam)
            metrics |= audit_metrics(ways["own"][0], "end")
    return Outcome(metrics, curves=curves)


def learnt(texts: Sequence[str], vocabulary: int) -> Tokenizer:
    """Byte-pair pieces of these texts."""
    return train_tokenizer("bpe", texts, min_count=MIN_COUNT, vocabulary=vocabulary)


def at_best(log: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Test at the evaluation where dev is lowest; the first of equals."""
    best = min(log, key=lambda line: line["value"])
    return {"bits": best["test_bits"], "perplexity": best["test_perplexity"], "step": best["step"]}


def lengths(texts: Sequence[str], own: Tokenizer, borrowed: Tokenizer) -> dict[str, float]:
    """Tokens a word (fertility) and bytes a token, with each tokenizer and GPT-2's."""
    from attnlab.studies.concepts.foreign import gpt2_tokenizer

    theirs = sum(len(e.ids) for e in gpt2_tokenizer().encode_batch(list(texts)))
    counts = {
        "own": sum(len(own.encode(t)) for t in texts),
        "borrowed": sum(len(borrowed.encode(t)) for t in texts),
        "gpt2": theirs,
    }
    words, size = word_count(texts), byte_count(texts)
    return {f"{name}_fertility": n / words for name, n in counts.items()} | {
        f"{name}_bytes": size / n for name, n in counts.items()
    }


def crossed(ways: dict[str, tuple[GPT, Tokenizer]], exam: Exam) -> dict[str, float]:
    """Perplexity per token with the model's own ids, and with the other tokenizer's."""
    found = {}
    for way, other in (("own", "borrowed"), ("borrowed", "own")):
        model, right = ways[way]
        wrong = ways[other][1]
        good, bad = (read(model, t, exam.test).corpus for t in (right, wrong))
        found |= {
            f"{way}_right": good,
            f"{way}_wrong": bad,
            f"{way}_log_ratio": math.log(bad / good),
        }
    return found


class _Lesson:
    """Fresh models and trainings of one trial."""

    def __init__(self, trial: Trial, context: TrialContext) -> None:
        self.c, self.seed, self.context = trial.config, trial.stream, context

    def fresh(self, name: str) -> GPT:
        c = self.c
        config = GPTConfig(c["vocabulary"], c["block"], c["layers"], c["heads"], c["width"])
        return GPT(config, self.seed.child("weights", name).torch_generator())

    def teach(
        self,
        model: GPT,
        tokenizer: Tokenizer,
        texts: Sequence[str],
        exam: Exam | None,
        *,
        tuned: bool = False,
    ) -> list[dict[str, Any]]:
        """Steps on the texts; the lines of the log at which the exam was sat."""
        c, context = self.c, self.context
        steps = c["pretrain_steps" if exam is None else "steps"]
        batches = PackedBatches(tokenizer.stream(texts), c["block"], c["batch"], _order(self.seed))

        def progress(p: Progress) -> None:
            context.step(p.step, p.steps, f"{c['target']}, loss {p.loss:.3f}")

        def sit(module: nn.Module) -> dict[str, float]:
            assert isinstance(module, GPT) and exam is not None
            return exam.scores(module, tokenizer)

        settings = TrainSettings(
            steps=steps,
            batch=c["batch"],
            evaluate_every=max(1, steps // c["evaluations"]),
            learning_rate=c["tune_rate" if tuned else "learning_rate"],
        )
        hooks = Hooks(
            evaluate=None if exam is None else sit, progress=progress, stop=context.stopping
        )
        done = train(model, batches, settings, hooks=hooks)
        if done.ending == "stopped":
            raise TrialStopped
        return [line for line in done.log if np.isfinite(line.get("value") or math.nan)]


def _order(seed: Seed) -> Seed:
    return seed.child("order")
