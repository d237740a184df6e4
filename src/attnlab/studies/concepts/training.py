"""What a step of training does, and why the data are shuffled.

On a network of two layers:

    backward twice without zero_grad      the gradients add up: exactly twice one of them
    train()                               dropout is random, batch norm depends on the whole batch
    eval()                                neither; but autograd still records
    no_grad()                             nothing is recorded: no bytes saved for a backward pass

The same sentences in random order, or sorted by class: a linear classifier on the vectors of a
frozen encoder, trained by plain SGD. Sorted, every step of the second half of an epoch says
"positive", and so does the classifier when the epoch ends.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.seeds import Seed
from attnlab.lab.training import train_in_trial
from attnlab.lab.trial import Outcome, Scalar, TrialContext
from attnlab.models.encoder import Encoder, open_encoder
from attnlab.studies.concepts.encoding import mean_vectors, sample_examples
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.tasks.batches import shuffled as new_orders
from attnlab.tasks.encoder_inputs import encode_examples
from attnlab.tasks.known_data import rotten_tomatoes
from attnlab.tasks.labelled import Example, majority
from attnlab.training.settings import TrainSettings

ROWS, WIDTH, HIDDEN = 7, 5, 11  # of the network
BATCH = 8  # of the classifier
LEARNING_RATE = 5.0  # large, since the vectors have length 1
MAX_TOKENS = 64


def measure_step(seed: Seed) -> Outcome:
    """Each fact on a network and rows drawn from the seed."""
    rows = torch.randn(ROWS, WIDTH, generator=seed.child("rows").torch_generator())
    ratios = gradient_ratios(build_network(seed), rows)
    changes = output_changes(build_network(seed), rows, seed)
    return Outcome({**ratios, **changes, **saved_bytes(build_network(seed), rows)})


def build_network(seed: Seed) -> nn.Sequential:
    """Linear, batch norm, ReLU, dropout, linear; the same weights for the same seed."""
    one, two = (nn.utils.skip_init(nn.Linear, *shape) for shape in ((WIDTH, HIDDEN), (HIDDEN, 1)))
    generator = seed.child("weights").torch_generator()
    with torch.no_grad():
        for parameter in (*one.parameters(), *two.parameters()):
            parameter.normal_(0, 0.5, generator=generator)
    return nn.Sequential(one, nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(0.5), two)


def gradient_ratios(model: nn.Module, rows: Tensor) -> dict[str, float]:
    """Gradient norm of a second backward pass over the first, without and with zero_grad."""
    model.eval()

    def norm_after_backward() -> float:
        model(rows).square().sum().backward()
        norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
        return float(torch.stack(norms).norm())

    once, twice = norm_after_backward(), norm_after_backward()
    model.zero_grad()
    again = norm_after_backward()
    return {"not_zeroed": twice / once, "zeroed": again / once}


@torch.no_grad()
def output_changes(model: nn.Sequential, rows: Tensor, seed: Seed) -> dict[str, float]:
    """How far an output moves when it is computed again, and with other rows in the batch."""
    first, batch_norm, relu, dropout, last = model
    with_dropout = nn.Sequential(first, relu, dropout, last)
    with_norm = nn.Sequential(first, batch_norm, relu, last)
    others = rows.clone()
    others[1:] = torch.randn(ROWS - 1, WIDTH, generator=seed.child("others").torch_generator())
    changes: dict[str, float] = {}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed.child("dropout").number % 2**31)
        for mode in ("train", "eval"):
            with_dropout.train(mode == "train")
            one, two = with_dropout(rows), with_dropout(rows)
            changes[f"dropout_{mode}"] = float((one - two).abs().max())
            with_norm.train(mode == "train")
            change = with_norm(rows)[0] - with_norm(others)[0]
            changes[f"neighbours_{mode}"] = float(change.abs().max())
    return changes


def saved_bytes(model: nn.Module, rows: Tensor) -> dict[str, int | bool]:
    """Bytes saved for a backward pass in train mode, in eval mode, and under no_grad."""
    metrics: dict[str, int | bool] = {}
    for name in ("train", "eval", "no_grad"):
        model.train(name == "train")
        sizes: list[int] = []

        def pack(tensor: Tensor, sizes: list[int] = sizes) -> Tensor:
            sizes.append(tensor.numel() * tensor.element_size())
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with hooks, torch.set_grad_enabled(name != "no_grad"), torch.random.fork_rng(devices=[]):
            out = model(rows)
        metrics[f"kept_{name}"] = sum(sizes)
        metrics[f"records_{name}"] = bool(out.requires_grad)
    return metrics


class Vectors(NamedTuple):
    """Sentences as vectors of length 1, and their classes."""

    x: Tensor
    labels: Tensor


class OrderedBatches:
    """Full batches of rows sorted by class, or in another random order every epoch."""

    def __init__(self, rows: Vectors, seed: Seed, *, shuffled: bool) -> None:
        by_class = np.argsort(rows.labels.numpy(), kind="stable")
        self._order = new_orders(len(by_class), seed) if shuffled else lambda epoch: by_class
        self.rows, self.per_epoch = rows, len(by_class) // BATCH

    def batch(self, step: int) -> Vectors:
        """The rows of one step; an epoch leaves out what does not fill a batch."""
        epoch, place = divmod(step, self.per_epoch)
        chosen = torch.from_numpy(self._order(epoch)[place * BATCH : (place + 1) * BATCH])
        return Vectors(self.rows.x[chosen], self.rows.labels[chosen])


def compare_orders(s: ConceptsSettings, seed: Seed, context: TrialContext) -> Outcome:
    """Test accuracy after each epoch in both orders, from the same initial weights."""
    encoder, data = open_encoder(s.encoder), rotten_tomatoes()
    learn = sentence_vectors(encoder, sample_examples(data.train, s.sentences, seed.child("train")))
    count = min(s.sentences // 2, len(data.test))
    examples = sample_examples(data.test, count, seed.child("test"))
    test = sentence_vectors(encoder, examples)
    metrics: dict[str, Scalar] = {"majority": majority(examples), "tested": len(examples)}
    curves: dict[str, list[float]] = {}
    for name in ("shuffled", "sorted"):
        batches = OrderedBatches(learn, seed.child("order"), shuffled=name == "shuffled")
        curves[name] = accuracy_curve(batches, test, s.epochs, seed.child("weights"), context)
        metrics[f"{name}_accuracy"] = curves[name][-1]
    return Outcome(metrics, curves=curves)


def sentence_vectors(encoder: Encoder, examples: list[Example]) -> Vectors:
    """The mean of each sentence's states, scaled to length 1."""
    rows = encode_examples(encoder.tokenizer, examples, MAX_TOKENS)
    out = torch.zeros(len(examples), encoder.width)
    for chosen, batch in rows.batches_by_length(32):
        vectors = mean_vectors(encoder, batch.ids, batch.key_padding_mask, batch.kinds)
        out[torch.from_numpy(chosen)] = vectors
    return Vectors(functional.normalize(out, dim=1), torch.from_numpy(rows.labels))


def accuracy_curve(
    batches: OrderedBatches, test: Vectors, epochs: int, seed: Seed, context: TrialContext
) -> list[float]:
    """Train a linear classifier; its test accuracy after every epoch."""
    model: Any = nn.utils.skip_init(nn.Linear, batches.rows.x.shape[1], 2)
    with torch.no_grad():
        model.weight.normal_(0.0, 0.02, generator=seed.torch_generator())
        model.bias.zero_()

    def loss(module: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        total = functional.cross_entropy(module(batch.x), batch.labels, reduction="sum")
        return total, torch.tensor(len(batch.labels))

    def error(module: nn.Module) -> float:
        return float((module(test.x).argmax(dim=1) != test.labels).float().mean())

    settings = TrainSettings(
        steps=epochs * batches.per_epoch,
        batch=BATCH,
        learning_rate=LEARNING_RATE,
        optimizer="sgd",
        schedule="constant",
        warmup_fraction=0.0,
        weight_decay=0.0,
        clip=0.0,
        evaluate_every=batches.per_epoch,
    )
    result = train_in_trial(context, "order", model, batches, settings, loss=loss, evaluate=error)
    return [1 - wrong for wrong in result.evaluated("value")]
