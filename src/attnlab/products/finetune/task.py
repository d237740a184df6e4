"""The data and the encoder of a fine-tuning, with every split as token ids."""

import copy
from dataclasses import dataclass, replace

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Classifier, Encoder, open_encoder
from attnlab.models.trainable import redraw_weights
from attnlab.products.finetune.settings import FinetuneSettings, load_data
from attnlab.tasks.encoder_inputs import EncodedExamples, encode_examples
from attnlab.tasks.labelled import LabelledData
from attnlab.training.classify import Predictions, predict
from attnlab.training.tune import build_classifier, max_text_tokens

EVALUATION_BATCH = {"cpu": 64, "cuda": 512}  # rows; a GPU takes as long for 64 as for 512


@dataclass(frozen=True)
class EncodedTask:
    """Labelled texts and an encoder that fit each other."""

    data: LabelledData
    encoder: Encoder
    train: EncodedExamples
    dev: EncodedExamples
    test: EncodedExamples

    def build_classifier(self, s: FinetuneSettings, seed: Seed, device: str) -> Classifier:
        """The untrained classifier."""
        classes = len(self.data.labels)
        return build_classifier(self.encoder, classes, s.tuning(), seed).to(device)

    def check_labels(self) -> None:
        """UsageError where the training rows have one label only."""
        if len({row.label for row in self.data.train}) < 2:
            raise UsageError(
                f"{self.data.name}: all {len(self.train)} training rows have one label"
            )


def predict_all(model: Classifier, rows: EncodedExamples, count: int = 0) -> Predictions:
    """Predictions for every row of a split, or for `count` of them, evenly spaced."""
    batch = evaluation_batch(next(model.parameters()).device.type)
    return predict(model, rows.batches_by_length(batch, count))


def evaluation_batch(device: str) -> int:
    """Rows of a batch in evaluation."""
    return EVALUATION_BATCH.get(device, EVALUATION_BATCH["cpu"])


def load_task(s: FinetuneSettings, seed: Seed | None = None) -> EncodedTask:
    """Read data and encoder; whatever is wrong with them raises here."""
    data = load_data(s).sample(s.rows, s.scored, s.scored)
    task = encode_task(s, data, open_encoder(s.model))
    return replace(task, encoder=initial_encoder(s, task.encoder, seed or Seed(0)))


def initial_encoder(s: FinetuneSettings, encoder: Encoder, seed: Seed) -> Encoder:
    """The pretrained encoder, or a copy with random weights."""
    if s.init == "pretrained":
        return encoder
    library = redraw_weights(copy.deepcopy(encoder.library), seed.child("encoder"))
    return replace(encoder, library=library)


def encode_task(s: FinetuneSettings, data: LabelledData, encoder: Encoder) -> EncodedTask:
    """Tokenize every split for this encoder."""
    most = max_text_tokens(encoder, s.tuning())
    longest = min(s.longest or most, most)
    parts = [encode_examples(encoder.tokenizer, rows, longest) for rows in data.as_dict().values()]
    return EncodedTask(data, encoder, *parts)
