"""attnlab rouge: texts of one's own against references."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import JsonOption, note, say, say_json, say_table

Texts = "One text a line, a .json list or .jsonl."
PredictionsOption = Annotated[Path, typer.Option(metavar="FILE", help=Texts)]
ReferencesOption = Annotated[Path, typer.Option(metavar="FILE", help="As many, in this order.")]
NAMES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "rougeLsum": "ROUGE-Lsum"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rouge")(rouge)


def rouge(
    predictions: PredictionsOption,
    references: ReferencesOption,
    splitter: Annotated[str, typer.Option(help="Of Lsum: newline or sentence.")] = "newline",
    tokenizer: Annotated[str, typer.Option(help="ascii or unicode.")] = "ascii",
    no_stemmer: Annotated[bool, typer.Option("--no-stemmer", help="Words as they are.")] = False,
    json: JsonOption = False,
) -> None:
    """ROUGE-1, -2, -L and -Lsum of predictions against references, with intervals over items."""
    from attnlab.measure.rouge import KINDS, Rouge, Variant
    from attnlab.measure.rouge import rouge as scored
    from attnlab.tasks.texts import read_texts

    variant = Variant(stemmer=not no_stemmer, tokenizer=tokenizer, splitter=splitter)
    found: Rouge = scored(read_texts(predictions), read_texts(references), variant)
    for remark in found.remarks():
        note(f"note: {remark}")
    if json:
        say_json(found.as_json())
        return
    rows = []
    for kind in KINDS:
        p, r, f = (found.estimate(kind, m) for m in ("precision", "recall", "f"))
        interval = f"{f.low:.4f} to {f.high:.4f}" if f.has_interval else "–"
        rows.append([NAMES[kind], f"{f.value:.4f}", interval, f"{p.value:.4f}", f"{r.value:.4f}"])
    say_table(["score", "F", "95 % of F", "precision", "recall"], rows)
    say(f"{found.n:,} items, {found.estimate(KINDS[0]).method}; {variant}")
