"""attnlab simulate: one instance of the solvable model, trained from one start."""

from typing import Annotated

import typer

from attnlab.cli.console import DeviceOption, JsonOption, SetOption, finite, say_json, say_table

OWN_OPTIONS = {"dim": "--dim", "alpha": "--alpha", "omega": "--omega", "starts": "--start"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(  # noqa: PLR0913  (each is one documented option)
    dim: Annotated[int, typer.Option(help="D, the width of a token.")] = 1000,
    alpha: Annotated[float, typer.Option(help="Samples per dimension, N/D.")] = 1.5,
    omega: Annotated[float, typer.Option(help="Weight of positions in the teacher.")] = 0.3,
    start: Annotated[str, typer.Option(help="semantic, positional or random.")] = "semantic",
    seed: Annotated[int, typer.Option(help="Which instance.")] = 0,
    set_: SetOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Draw a teacher and N = α·D samples, train one student, measure it."""
    from attnlab.cli.settings import assigned
    from attnlab.core.errors import UsageError
    from attnlab.report.text import plain
    from attnlab.solvable.limits import check_simulation, translate_arithmetic_errors

    settings = assigned(set_)
    for key in settings.keys() & OWN_OPTIONS.keys():
        raise UsageError(f"--set {key}: it has its own option, {OWN_OPTIONS[key]}")
    settings |= {"dim": dim, "alpha": alpha, "omega": omega}
    check_simulation(settings, start, seed, device)
    from attnlab.solvable.results import simulate_one

    with translate_arithmetic_errors():
        found = simulate_one({**settings, "starts": [start]}, seed, device)
    reasons = {k: "not a finite number with these settings" for k in found if _missing(found[k])}
    if json:
        say_json({**found, "reasons": reasons})
    else:
        say_table(["quantity", "value"], [[k, plain(finite(v))] for k, v in found.items()])


def _missing(value: object) -> bool:
    return value is not None and finite(value) is None
