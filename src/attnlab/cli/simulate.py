"""attnlab simulate: train one student of the solvable model and measure it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import DeviceOption, JsonOption, finite, say_json, say_table, set_option
from attnlab.report.text import plain

SETTINGS = (
    "Settings: sigma, ridge, tokens, rank, student_rank, scaling, mixing, semantic_norm, "
    "positional_norm, test_samples, dtype, method, tolerance, max_evaluations."
)
DEFAULTS = {"dim": 1000, "alpha": 1.5, "omega": 0.3}
OWN_OPTIONS = {"dim": "--dim", "alpha": "--alpha", "omega": "--omega", "starts": "--start"}


def simulate(  # noqa: PLR0913  (each is one documented option)
    dim: Annotated[
        int | None, typer.Option(help="D, the dimension of a token.", show_default="1000")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="α = N/D, samples per dimension.", show_default="1.5")
    ] = None,
    omega: Annotated[
        float | None,
        typer.Option(help="ω, the weight of positions in the teacher, 0 to 1.", show_default="0.3"),
    ] = None,
    start: Annotated[
        str, typer.Option(help="Initial weights: semantic, positional or random.")
    ] = "semantic",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Store teacher, inputs, targets and settings."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Train on data that --save stored before."),
    ] = None,
    set_: Annotated[list[str] | None, set_option(SETTINGS)] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Train one student of the solvable model.

    Draws a teacher and N = α·D samples (or reads those of --data), trains a student from one
    start, and prints its overlap with the teacher and its errors.
    """
    from attnlab.cli.settings import parse_settings
    from attnlab.core.errors import UsageError
    from attnlab.solvable.results import check_simulation, translate_arithmetic_errors

    settings = parse_settings(set_)
    for key in settings.keys() & OWN_OPTIONS.keys():
        raise UsageError(f"--set {key}: use the option {OWN_OPTIONS[key]} instead")
    own = {"dim": dim, "alpha": alpha, "omega": omega}
    settings |= {name: value for name, value in own.items() if value is not None}
    if save is not None and data is not None:
        raise UsageError("give --save or --data, not both: the data are stored already")
    stored = None
    if data is not None:
        settings, stored = _read(data, settings)
    check_simulation({**DEFAULTS, **settings}, start, seed, device)
    from attnlab.solvable.results import simulate_one

    chosen = {**DEFAULTS, **settings, "starts": [start]}
    with translate_arithmetic_errors():
        student = simulate_one(chosen, seed, device, stored, save)
    reasons = {
        k: "not a finite number with these settings" for k in student if _missing(student[k])
    }
    if json:
        say_json({**student, "reasons": reasons})
    else:
        say_table(["quantity", "value"], [[k, plain(finite(v))] for k, v in student.items()])


def _read(path: Path, settings: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The settings with those of the stored data, and the teacher with the data."""
    from attnlab.solvable.results import settings_of_data
    from attnlab.solvable.storage import load_data

    stored = load_data(path)
    return settings_of_data(stored[1], settings, path), stored


def _missing(value: object) -> bool:
    return value is not None and finite(value) is None
