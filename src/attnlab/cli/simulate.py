"""attnlab simulate: train one student of the solvable model and measure it."""

from typing import Annotated

import typer

from attnlab.cli.console import DeviceOption, JsonOption, finite, say_json, say_table, set_option

SETTINGS = "Settings: sigma, ridge, tokens, rank, student_rank, test_samples, dtype, method."
OWN_OPTIONS = {"dim": "--dim", "alpha": "--alpha", "omega": "--omega", "starts": "--start"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(  # noqa: PLR0913  (each is one documented option)
    dim: Annotated[int, typer.Option(help="D, the dimension of a token.")] = 1000,
    alpha: Annotated[float, typer.Option(help="α = N/D, samples per dimension.")] = 1.5,
    omega: Annotated[
        float, typer.Option(help="ω, the weight of positions in the teacher, 0 to 1.")
    ] = 0.3,
    start: Annotated[
        str, typer.Option(help="Initial weights: semantic, positional or random.")
    ] = "semantic",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    set_: Annotated[list[str] | None, set_option(SETTINGS)] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Train one student of the solvable model.

    Draws a teacher and N = α·D samples, trains a student from one start, and prints its overlap
    with the teacher and its errors.
    """
    from attnlab.cli.settings import parse_settings
    from attnlab.core.errors import UsageError
    from attnlab.report.text import plain
    from attnlab.solvable.limits import check_simulation, translate_arithmetic_errors

    settings = parse_settings(set_)
    for key in settings.keys() & OWN_OPTIONS.keys():
        raise UsageError(f"--set {key}: use the option {OWN_OPTIONS[key]} instead")
    settings |= {"dim": dim, "alpha": alpha, "omega": omega}
    check_simulation(settings, start, seed, device)
    from attnlab.solvable.results import simulate_one

    with translate_arithmetic_errors():
        student = simulate_one({**settings, "starts": [start]}, seed, device)
    reasons = {
        k: "not a finite number with these settings" for k in student if _missing(student[k])
    }
    if json:
        say_json({**student, "reasons": reasons})
    else:
        say_table(["quantity", "value"], [[k, plain(finite(v))] for k, v in student.items()])


def _missing(value: object) -> bool:
    return value is not None and finite(value) is None
