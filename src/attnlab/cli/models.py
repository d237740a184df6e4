"""Commands that use a model: attend, audit, perplexity, compare, export."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    TargetArgument,
    guard_stdout,
    note,
    say,
    say_json,
    say_remark,
    say_table,
)

COULD_NOT_JUDGE = 7  # exit code of `attnlab audit`


def attend(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    text: Annotated[str, typer.Option(help="The text the model reads.")],
    layer: Annotated[
        int | None, typer.Option(min=0, help="Show this layer only, counted from 0.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(min=0, help="Show this head only, counted from 0.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also write a .png, .svg or .pdf file.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write an interactive HTML page.")] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Show the attention weights of a model on a text.

    All layers and heads are shown unless --layer or --head choose one.
    """
    from attnlab.api.questions import attend
    from attnlab.report import attention as maps

    with guard_stdout():
        attention = attend(target, text, out, device, remark=say_remark)
    columns, rows = maps.table(attention, layer, head)  # refuses a wrong layer before any file
    if picture is not None:
        maps.save(maps.picture(attention, layer, head), picture)
    if html is not None:
        maps.write_page(attention, html)
    if json:
        say_json(maps.as_json(attention))
        return
    say_table(columns, rows)
    for path in (picture, html):
        if path is not None:
            say(str(path))


def audit(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="AUDIT", help="Run only this audit; can be repeated."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="AUDIT", help="Leave out this audit; can be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the test inputs.")] = 0,
    length: Annotated[
        int | None, typer.Option(min=3, help="Length of the longest test input, in tokens.")
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run the Python code that comes with the model; needs --revision.",
        ),
    ] = False,
    revision: Annotated[
        str | None, typer.Option(help="Commit of a hub model, or the hash of a folder's code.")
    ] = None,
    device: DeviceOption = "cpu",
    out: OutOption = RUNS,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Test a model for silent failures.

    For example: attention to future tokens, rows of a batch that influence each other, tokens
    that have no effect. Exit code 1: an audit failed. Exit code 7: the model could not be judged,
    because it raised an error on the input of an audit, or because none of the requested audits
    applies.
    """
    from attnlab.api.questions import audit
    from attnlab.audit.finding import AUDIT_MARKS, NOT_JUDGED, Finding

    def on_finding(finding: Finding) -> None:
        if not quiet:
            note(f"{AUDIT_MARKS[finding.verdict]} {finding.name}")

    with guard_stdout():
        verdicts = audit(
            target,
            out,
            device,
            only=only or [],
            skip=skip or [],
            seed=seed,
            length=length,
            revision=revision,
            trust=trust_remote_code,
            on_finding=on_finding,
        )
    if json:
        say_json(verdicts.as_json())
    else:
        if verdicts.verdict == NOT_JUDGED:
            say(f"could not be judged: {verdicts.why}")
        say_table(
            ["", "audit", "number", "threshold", "what was found"],
            [list(finding.cells()) for finding in verdicts],
        )
        say(verdicts.summary())
    if verdicts.verdict != "pass":
        raise typer.Exit(COULD_NOT_JUDGE if verdicts.verdict == NOT_JUDGED else 1)


def perplexity(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A UTF-8 text file.")] = None,
    text: Annotated[str | None, typer.Option(help="A text, instead of FILE.")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Score every line as a text of its own.")
    ] = False,
    stride: Annotated[
        int | None,
        typer.Option(min=1, help="New tokens per window; default: the model's context length."),
    ] = None,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="Also score the token that ends a text, as the studies do."),
    ] = False,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Compute the perplexity of a text under a model.

    The perplexity is exp(Σ NLL / Σ tokens). With --lines, the command also prints the mean of the
    perplexities of all lines. The end of a text is scored only with --stop. The studies
    positions, head-merging and projection-depth score their sentences with their ends.
    """
    from attnlab.api.questions import perplexity
    from attnlab.core.errors import UsageError
    from attnlab.tasks.corpus import read_text

    if (file is None) == (text is None):
        raise UsageError("give either FILE or --text")
    read = text if file is None else read_text(file)
    with guard_stdout():
        scores = perplexity(
            target, str(read), out, device, lines=lines, stride=stride, stop=stop, remark=say_remark
        )
    if json:
        say_json(scores)
    else:
        say_table(
            ["quantity", "value"], [[k, _format(v)] for k, v in scores.items() if v is not None]
        )


def _format(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def compare(  # noqa: PLR0913  (each is one documented option)
    first: Annotated[
        str, typer.Argument(metavar="A", help="A model: any TARGET that `attnlab attend` takes.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Another model.")],
    text: Annotated[str | None, typer.Option(help="The text both models read.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read this text from a UTF-8 file.")] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Compare the logits of two models on one text.

    Prints the largest and the mean absolute difference, and the share of positions where both
    models predict the same token.
    """
    from attnlab.api.questions import compare
    from attnlab.core.errors import UsageError
    from attnlab.tasks.corpus import read_text

    if text is not None and file is not None:
        raise UsageError("give --text or --file, not both")
    read = read_text(file) if file is not None else text
    with guard_stdout():
        gaps = compare(first, second, None if read is None else str(read), out, device)
    if json:
        say_json(gaps)
        return
    rows = [[k, f"{v:.3g}" if isinstance(v, float) else str(v)] for k, v in gaps.items()]
    say_table(["quantity", "value"], rows)


def export(
    target: TargetArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Write a GPT as a Hugging Face folder.

    AutoModelForCausalLM.from_pretrained(DIR) loads it; a model with parts that neither GPT-2 nor
    Llama has needs `import attnlab.models.hugging_face` first.
    """
    from attnlab.api.questions import export_target

    files = export_target(target, folder, out)
    if json:
        say_json({"target": target, "folder": str(folder), "files": files})
    else:
        for name in files:
            say(str(folder / name))
