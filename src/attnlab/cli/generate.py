"""attnlab generate TARGET: continue a prompt with one decoding strategy or several."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from unicodedata import category

import typer

from attnlab.api.listener import Listener
from attnlab.cli.console import RUNS, DeviceOption, JsonOption, OutOption, say, say_json, say_remark

if TYPE_CHECKING:
    from attnlab.decode.generate import Generated
    from attnlab.decode.strategy import Strategy

DEFAULT = "temperature:t=0.8"
INDENT = "   "


def generate(  # noqa: PLR0913  (each is one documented option)
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A run, RUN@TRIAL, model folder, .gguf file, asset or hub name (owner/name).",
        ),
    ] = "smollm2",
    prompt: Annotated[str, typer.Option(help="The text to continue.")] = "",
    prompt_file: Annotated[
        Path | None,
        typer.Option(help="Read the prompt from a UTF-8 file; its last newline is dropped."),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:KEY=VALUE,…",
            help="greedy, sample, temperature:t=, top-k:k=, top-p:p=, min-p:p=, typical:p= or "
            "beam:width=; repeat the option to compare. "
            f"Default: {DEFAULT}",
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Texts per strategy.")] = 1,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest text, in tokens.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sampling.")] = 0,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Continue a prompt with a language model.

    On a terminal the first text of each strategy is shown while it is generated.
    """
    from attnlab.api.generating import generate

    names = strategy or [DEFAULT]
    prompt = _prompt(prompt, prompt_file)
    listener = RemarkPrinter() if json else Printer(prompt, len(names) == 1 and n == 1)
    document = generate(
        target,
        prompt,
        out,
        device,
        strategies=names,
        n=n,
        max_new_tokens=max_new_tokens,
        seed=seed,
        listener=listener,
    )
    if json:
        say_json(document)


def _prompt(prompt: str, file: Path | None) -> str:
    if file is None:
        return prompt
    from attnlab.core.errors import UsageError
    from attnlab.tasks.corpus import read_text

    if prompt:
        raise UsageError("give --prompt or --prompt-file, not both")
    return str(read_text(file)).removesuffix("\n").removesuffix("\r")


class RemarkPrinter(Listener):
    """Prints remarks on stderr and no text: `--json` prints everything at the end."""

    def remark(self, text: str) -> None:
        """Print the remark on stderr."""
        say_remark(text)


class Printer(RemarkPrinter):
    """Prints prompt and text; of several texts, the prompt and then a paragraph per strategy."""

    def __init__(self, prompt: str, alone: bool) -> None:
        self.prompt, self.alone, self.live = prompt, alone, sys.stdout.isatty()
        self.started, self.at_line_start = False, False

    def begins(self, strategy: "Strategy") -> None:
        """Print the name of the strategy, and the prompt before the first one."""
        if not self.alone:
            if not self.started:
                say(_shown(self.prompt))
            say(f"\n{strategy} · {strategy.order}")
        self.started = True
        if self.live:
            self._write(self.prompt if self.alone else _number(0))

    def piece(self, text: str) -> None:
        """Print more of the first text at once, on a terminal only."""
        if self.live:
            self._write(text)

    def ends(self, texts: "Sequence[Generated]") -> None:
        """Print the texts that were not shown yet; n equal texts are printed once."""
        self.at_line_start = False
        if self.live:
            say()
        same = len(texts) > 1 and len({text.ids for text in texts}) == 1
        for number, text in enumerate(texts[:1] if same else texts):
            if number or not self.live:
                self._write((self.prompt if self.alone else _number(number)) + str(text.text))
                self.at_line_start = False
                say()
        if same:
            say(f"{INDENT}({len(texts)} times the same)")

    def _write(self, text: str) -> None:
        """Write to stdout; of several texts, indent every line after the first."""
        if not self.alone:
            first, *later = text.split("\n")
            first = INDENT + first if self.at_line_start and first else first
            self.at_line_start = not (later[-1] if later else first)
            text = "\n".join([first, *(line and INDENT + line for line in later)])
        sys.stdout.write(_shown(text))
        sys.stdout.flush()


def _number(number: int) -> str:
    return f"{number + 1:<{len(INDENT)}}"


def _shown(text: str) -> str:
    """The text with control characters escaped, which would disturb a terminal."""
    return "".join(repr(c)[1:-1] if category(c) == "Cc" and c not in "\n\t" else c for c in text)
