"""attnlab rouge: ROUGE scores of your own texts."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import JsonOption, note, say, say_json, say_table
from attnlab.core.plural import counted

PredictionsOption = Annotated[
    Path, typer.Option(metavar="FILE", help="One text per line, or a .json list, or .jsonl.")
]
ReferencesOption = Annotated[
    Path, typer.Option(metavar="FILE", help="As many reference texts, in the same order.")
]
NAMES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "rougeLsum": "ROUGE-Lsum"}


def rouge(
    predictions: PredictionsOption,
    references: ReferencesOption,
    splitter: Annotated[
        str, typer.Option(help="How ROUGE-Lsum finds sentences: newline or sentence.")
    ] = "newline",
    tokenizer: Annotated[str, typer.Option(help="Letters of a word: ascii or unicode.")] = "ascii",
    no_stemmer: Annotated[
        bool, typer.Option("--no-stemmer", help="Compare words without stemming.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Score predictions against references with ROUGE.

    Prints ROUGE-1, -2, -L and -Lsum with 95 % confidence intervals over the items.
    """
    from attnlab.measure.rouge import KINDS, Rouge, Variant
    from attnlab.measure.rouge import rouge as score
    from attnlab.tasks.texts import read_texts

    variant = Variant(stemmer=not no_stemmer, tokenizer=tokenizer, splitter=splitter)
    scores: Rouge = score(read_texts(predictions), read_texts(references), variant)
    for remark in scores.remarks():
        note(f"note: {remark}")
    if json:
        say_json(scores.as_json())
        return
    rows = []
    for kind in KINDS:
        p, r, f = (scores.estimate(kind, m) for m in ("precision", "recall", "f"))
        interval = f"{f.low:.4f} to {f.high:.4f}" if f.has_interval else "–"
        rows.append([NAMES[kind], f"{f.value:.4f}", interval, f"{p.value:.4f}", f"{r.value:.4f}"])
    say_table(["score", "F", "95 % of F", "precision", "recall"], rows)
    say(f"{counted(scores.n, 'item')}, {scores.estimate(KINDS[0]).method}; {variant}")
