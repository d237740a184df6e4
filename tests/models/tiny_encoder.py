"""A BERT and a RoBERTa of a few thousand numbers in Hugging Face folders, tokenizer included."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

from attnlab.core.seeds import Seed

MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
GOOD, BAD, PLAIN = ("good", "fine", "lovely"), ("bad", "dull", "awful"), ("a", "film", "the", "it")
WORDS = [*GOOD, *BAD, *PLAIN, *(f"w{i}" for i in range(30))]
SHAPE: dict[str, Any] = {
    "vocab_size": 53,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "pad_token_id": 1,
}
POSITIONS = 31  # texts, markers included


def tokenizer_json(pair: str) -> str:
    table = {word: i for i, word in enumerate([*MARKS, *WORDS])}
    made = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return made.to_str()


def _write(path: Path, model: Any, pair: str, names: list[str]) -> Path:
    generator = Seed(5).torch_generator()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1:
                p.normal_(0.0, 0.3, generator=generator)
            elif "LayerNorm" not in name:
                p.normal_(0.0, 0.1, generator=generator)
    model.save_pretrained(path)
    (path / "tokenizer.json").write_text(tokenizer_json(pair))
    (path / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "pad_token": "<pad>",
                "unk_token": "<unk>",
                "model_max_length": POSITIONS,
                "model_input_names": names,
            }
        )
    )
    return path


def bert_folder(path: Path) -> Path:
    config = BertConfig(**SHAPE, max_position_embeddings=POSITIONS, type_vocab_size=2)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return _write(path, BertModel(config), "<s> $A </s> $B:1 </s>:1", names)


def roberta_folder(path: Path) -> Path:
    config = RobertaConfig(**SHAPE, max_position_embeddings=POSITIONS + 2, type_vocab_size=1)
    names = ["input_ids", "attention_mask"]
    return _write(path, RobertaModel(config), "<s> $A </s> </s> $B </s>", names)
