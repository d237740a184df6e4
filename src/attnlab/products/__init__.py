"""Trainings on a user's own data: runs like those of studies, started by commands of their own.

`attnlab train` trains a small GPT on a text, `attnlab finetune` adapts an encoder to labelled
texts. Studies may build on them; `attnlab list` shows questions only.
"""

PRODUCTS: dict[str, str] = {
    "finetune": "attnlab.products.finetune.study:Finetune",
    "train": "attnlab.products.train_text.study:TrainText",
}
