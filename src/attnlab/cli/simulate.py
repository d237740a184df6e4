"""attnlab simulate: one instance of the solvable model, trained from one start."""

from typing import Annotated

import typer

from attnlab.cli.console import JsonOption, say_json, say_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(  # noqa: PLR0913  (each is one documented option)
    dim: Annotated[int, typer.Option(help="D, the width of a token.")] = 1000,
    alpha: Annotated[float, typer.Option(help="Samples per dimension, N/D.")] = 1.5,
    omega: Annotated[float, typer.Option(help="Weight of positions in the teacher.")] = 0.3,
    start: Annotated[str, typer.Option(help="semantic, positional or random.")] = "semantic",
    seed: Annotated[int, typer.Option(help="Which instance.")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other setting.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    json: JsonOption = False,
) -> None:
    """Draw a teacher and N = α·D samples, train one student, measure it."""
    from attnlab.core.config import parse_assignment
    from attnlab.solvable.answers import simulate_one

    settings = dict(parse_assignment(text) for text in set_ or [])
    given = {"dim": dim, "alpha": alpha, "omega": omega, "starts": [start]}
    found = simulate_one({**settings, **given}, seed, device)
    if json:
        say_json(found)
    else:
        say_table(["quantity", "value"], [[k, str(v)] for k, v in found.items()])
