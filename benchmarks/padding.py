"""An epoch of fine-tuning: batches as wide as their longest row, against one fixed width.

python benchmarks/padding.py [--rows 64] [--width 128] [--data sentiment|boolq] [--json]

Rows: ours pads each batch to its longest row, with rows of like length together; theirs pads every
batch to --width tokens, as a tokenizer's `padding="max_length"` does. The same rows of the data,
the same encoder (minilm-l6, all of it learning), forward and backward, one run. The note gives the
share of padding on both sides.
"""

from collections.abc import Callable

import torch
from common import Row, arguments, best_time, report

from attnlab.core.seeds import Seed
from attnlab.models.encoder import Encoder, open_encoder
from attnlab.tasks.encoder_inputs import ShuffledBatches, encode_examples
from attnlab.tasks.known_data import boolq, rotten_tomatoes
from attnlab.tasks.labelled import Example
from attnlab.training.classify import cross_entropy
from attnlab.training.tune import TuneSettings, build_classifier

BATCH = 16
TARGET = 2.0
DATA = {"sentiment": rotten_tomatoes, "boolq": boolq}


def row_of(encoder: Encoder, examples: tuple[Example, ...], width: int, rounds: int) -> Row:
    """Seconds of an epoch both ways."""
    rows = encode_examples(encoder.tokenizer, examples, width)
    model = build_classifier(encoder, 2, TuneSettings(method="full"), Seed(1)).train()
    steps = max(1, len(rows) // BATCH)
    shares, times = [], []
    for fixed in (False, True):
        made = ShuffledBatches(rows, BATCH, Seed(2), fixed=fixed)
        batches = [made.batch(step) for step in range(steps)]
        hidden = sum(int(b.key_padding_mask.sum()) for b in batches)
        shares.append(hidden / sum(b.key_padding_mask.numel() for b in batches))
        times.append(best_time(_epoch(model, batches), rounds))
    ours, theirs = times
    note = f"padding {shares[0]:.1%} against {shares[1]:.1%} of all positions; {rows.report()}"
    name = f"an epoch of {len(rows)} rows, fixed width {width}"
    return Row(name, ours, theirs, "s", theirs / ours, TARGET, note)


def _epoch(model: torch.nn.Module, batches: list) -> Callable[[], None]:
    def epoch() -> None:
        for batch in batches:
            model.zero_grad(set_to_none=True)
            total, _ = cross_entropy(model, batch)
            total.backward()

    return epoch


def main() -> None:
    """One row."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--data", default="sentiment", choices=sorted(DATA))
    given = parser.parse_args()
    examples = DATA[given.data]().sample(given.rows).train
    report([row_of(open_encoder(), examples, given.width, 1)], given.json)


if __name__ == "__main__":
    main()
