"""Real texts by name, split by document, and samples of them.

news     BBC articles (xsum)                 law      court cases (multi-lexsum)
plays    Shakespeare                         records  19,913 rows of a table, 40 per document
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from attnlab.assets import get
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.corpus import Corpus, Splits, read_text
from attnlab.tasks.summaries import multi_lexsum, xsum

ROWS = 40  # of the table in one document


@lru_cache(maxsize=4)
def text_splits(name: str) -> Splits:
    """Train, dev and test; no document is in two of them."""
    if name == "plays":
        return Corpus.shakespeare().split()
    if name == "records":
        (file,) = get("people").files
        lines = read_text(file).splitlines()[1:]
        documents = ["\n".join(lines[i : i + ROWS]) for i in range(0, len(lines), ROWS)]
    else:
        documents = [row.article for row in {"news": xsum, "law": multi_lexsum}[name]()]
    return Corpus(tuple(documents), name).split()


def sample_bytes(documents: Sequence[str], size: int, seed: Seed) -> list[str]:
    """Documents in random order up to `size` bytes; the last one is cut between characters."""
    sample: list[str] = []
    left = size
    for i in seed.numpy_generator().permutation(len(documents)):
        data = documents[int(i)].encode()
        sample.append(data[:left].decode(errors="ignore"))
        left -= len(data)
        if left <= 0:
            return sample
    raise UsageError(f"{size:,} bytes of text are needed, but there are only {size - left:,}")


def byte_count(documents: Sequence[str]) -> int:
    """Bytes of the documents in UTF-8."""
    return sum(len(d.encode()) for d in documents)


def gpt2_tokenizer() -> Any:
    """GPT-2's byte-level BPE tokenizer, from the two files of the asset."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    files = {file.suffix: str(file) for file in get("gpt2-bpe").files}
    tokenizer = Tokenizer(models.BPE.from_file(files[".json"], files[".txt"]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
