"""attnlab generate TARGET: what a model goes on with."""

from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    TargetArgument,
    say,
    say_json,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("generate")(generate)


def generate(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    prompt: Annotated[str, typer.Option(help="What it goes on from.")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="At most so many.")] = 60,
    temperature: Annotated[float, typer.Option(min=0, help="0: the likeliest, always.")] = 0.8,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another text.")] = 0,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Go on from a prompt, token by token, by sampling."""
    from attnlab.api.asking import continued

    found = continued(target, prompt, out, device, tokens=tokens, temperature=temperature,
                      seed=seed)  # fmt: skip
    if json:
        say_json(found)
    else:
        say(found["prompt"] + found["text"])
