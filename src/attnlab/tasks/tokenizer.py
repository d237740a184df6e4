"""Word, character and byte-pair tokenizers, on the `tokenizers` library.

    word  <START> to be , or not to be . <STOP>     rare words are <UNK>; white space is not kept
    char  <START> t o _ b e ... <STOP>              characters never seen in training are <UNK>
    bpe   <START> to Ġbe , Ġor ... <STOP>           falls back to bytes: nothing is unknown

Ids 0, 1, 2 are always <START>, <STOP>, <UNK>. The characters "<STOP>" in a text become ordinary
tokens, never the special token. Padding uses the id of <STOP>; it is masked and never scored. char
and bpe decode to exactly the text they encoded.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import numpy as np
from tokenizers import Encoding, Regex, decoders, models, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Library

from attnlab.core.config import suggest
from attnlab.core.errors import IntegrityError, UsageError

Kind = Literal["word", "char", "bpe"]
SPECIAL_TOKENS = ("<START>", "<STOP>", "<UNK>")
BPE_VOCABULARY = 4096
BYTES = 256
MAX_CHARACTERS_PER_CALL = 1_000_000  # the library keeps about 100 bytes per token of a call
MAX_TEXTS_PER_CALL = 20_000

_WORD = r"[\p{L}\p{N}\p{M}_]+(?:['’\-][\p{L}\p{N}\p{M}_]+)*|-{2,}|\S"
_NO_SPACE_BEFORE = r"^(?![,.;:!?)\]}]+$)"
# GPT-2's rule with a limit on every run: a line without spaces must not become one huge word
_PIECES = (
    r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}{1,40}| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]{1,8}"
    r"|\s{1,8}(?!\S)|\s{1,8}"
)
_BETWEEN_WORDS = re.compile(r"(?<=\S)[ \n\t](?=\S)")  # every tokenizer starts a new token here


class Tokenizer:
    """Encodes and decodes texts; `start`, `stop`, `unknown` and `pad` are the special ids."""

    start: int = 0
    stop: int = 1
    unknown: int = 2
    pad: int = 1

    def __init__(self, library: Library) -> None:
        if tuple(library.id_to_token(i) for i in range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
            raise IntegrityError(f"tokenizer: ids 0, 1, 2 are not {', '.join(SPECIAL_TOKENS)}")
        self._library = library
        self._library.encode_special_tokens = True  # "<STOP>" in a text is ordinary text
        self.size: int = library.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens."""
        return [i for piece in _split_long_text(text) for i in self._encoding(piece).ids]

    def unknown_pieces(self, text: str) -> list[str]:
        """Return the characters or words of a text that are outside the vocabulary, in order."""
        unknown = []
        for piece in _split_long_text(text):
            encoding = self._encoding(piece)
            for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
                if token == self.unknown:
                    unknown.append(piece[start:end])
        return unknown

    def row(self, text: str) -> list[int]:
        """Return the ids of <START> text <STOP>."""
        return [self.start, *self.encode(text), self.stop]

    def rows(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Return `row` of every text as int32 arrays; the library encodes them in parallel."""
        texts = [_check_unicode(t) for t in texts]
        parts = (
            texts[i : i + MAX_TEXTS_PER_CALL] for i in range(0, len(texts), MAX_TEXTS_PER_CALL)
        )
        return [
            np.array([self.start, *encoded.ids, self.stop], dtype=np.int32)
            for part in parts
            for encoded in self._library.encode_batch_fast(part, add_special_tokens=False)
        ]

    def stream(self, documents: Iterable[str]) -> np.ndarray:
        """Return <START> document <STOP> <START> document <STOP> … in one int32 array."""
        parts = [part for document in documents for part in self._parts(document)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; <START> and <STOP> are left out, <UNK> is shown."""
        kept = [int(i) for i in ids if i not in (self.start, self.stop)]
        if any(not 0 <= i < self.size for i in kept):
            raise UsageError(f"token ids must lie in 0..{self.size - 1}")
        return self._library.decode(kept, skip_special_tokens=False)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a token, for labels in figures; bpe writes a space as Ġ."""
        return [self._library.id_to_token(int(i)) or SPECIAL_TOKENS[self.unknown] for i in ids]

    def to_json(self) -> str:
        """Return the text of a tokenizer.json file, which `transformers` reads as well."""
        return self._library.to_str()

    @staticmethod
    def from_json(text: str) -> "Tokenizer":
        """Load a tokenizer from the text that `to_json` returned."""
        try:
            library = Library.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise IntegrityError(f"not a tokenizer: {str(error)[:200]}") from None
        return Tokenizer(library)

    def _encoding(self, piece: str) -> Encoding:
        return self._library.encode(_check_unicode(piece), add_special_tokens=False)

    def _parts(self, document: str) -> Iterator[np.ndarray]:
        yield np.array([self.start], dtype=np.int32)
        for piece in _split_long_text(document):
            yield np.array(self._encoding(piece).ids, dtype=np.int32)
        yield np.array([self.stop], dtype=np.int32)


def train_tokenizer(
    kind: str, documents: Iterable[str], *, min_count: int = 1, vocabulary: int | None = None
) -> Tokenizer:
    """Train a tokenizer on documents: tokens with at least `min_count` uses, most frequent first.

    `vocabulary` is the largest size, special tokens included (default: no limit for word and char,
    4,096 for bpe). Ties go by the alphabet, so the order of the documents does not matter.
    """
    if kind not in get_args(Kind):
        raise UsageError(f"tokenizer {kind!r}: {suggest(kind, get_args(Kind))}")
    if min_count < 1:
        raise UsageError(f"min_count must be at least 1, got {min_count}")
    smallest = len(SPECIAL_TOKENS) + (BYTES if kind == "bpe" else 1)
    if vocabulary is not None and vocabulary < smallest:
        raise UsageError(f"vocabulary of a {kind} tokenizer: at least {smallest}, got {vocabulary}")
    library, trainer = (
        _bpe_library(min_count, vocabulary)
        if kind == "bpe"
        else _word_or_char_library(kind, min_count, vocabulary)
    )
    library.train_from_iterator(
        (p for d in documents for p in _split_long_text(_check_unicode(d))), trainer
    )
    # other libraries that read the JSON file then begin a text with <START> too
    library.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL_TOKENS[0]} $A",
        pair=f"{SPECIAL_TOKENS[0]} $A $B",
        special_tokens=[(SPECIAL_TOKENS[0], 0)],
    )
    if library.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise UsageError(f"tokenizer: no {kind} occurs {min_count} times in the train split")
    return Tokenizer(library)


def _word_or_char_library(
    kind: str, min_count: int, vocabulary: int | None
) -> tuple[Library, trainers.WordLevelTrainer]:
    library = Library(models.WordLevel({}, unk_token=SPECIAL_TOKENS[2]))
    if kind == "char":
        library.pre_tokenizer = pre_tokenizers.FixedLength(1)
        library.decoder = decoders.Fuse()
    else:
        library.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)
        spaced = decoders.Replace(Regex(_NO_SPACE_BEFORE), " ")
        library.decoder = decoders.Sequence([spaced, decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return library, trainers.WordLevelTrainer(
        vocab_size=vocabulary or 2**31,
        min_frequency=min_count,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )


def _bpe_library(min_count: int, vocabulary: int | None) -> tuple[Library, trainers.BpeTrainer]:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    return library, trainers.BpeTrainer(
        vocab_size=vocabulary or BPE_VOCABULARY,
        min_frequency=min_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )


def _split_long_text(text: str) -> Iterator[str]:
    """Split a text between words after at most MAX_CHARACTERS_PER_CALL characters.

    A word is split only if the second half of that length has no space.
    """
    start = 0
    while len(text) - start > MAX_CHARACTERS_PER_CALL:
        end = start + MAX_CHARACTERS_PER_CALL
        for between in _BETWEEN_WORDS.finditer(text, start + MAX_CHARACTERS_PER_CALL // 2, end):
            end = between.start()
        yield text[start:end]
        start = end
    yield text[start:]


def _check_unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"text: not Unicode at character {error.start:,}") from None
    return text
