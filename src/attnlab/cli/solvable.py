"""attnlab theory and attnlab simulate: the solvable model, computed exactly and sampled."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import (
    DeviceOption,
    JsonOption,
    finite,
    say,
    say_json,
    say_table,
    set_option,
)
from attnlab.report.text import plain

NOT_FINITE = "not a finite number with these settings"


def theory(  # noqa: PLR0913  (each is one documented option)
    omega: Annotated[
        float, typer.Option(help="ω, the weight of positions in the teacher, 0 to 1.")
    ] = 0.3,
    alpha: Annotated[
        list[float] | None,
        typer.Option(metavar="ALPHA", help="α = N/D, samples per dimension; can be repeated."),
    ] = None,
    branch: Annotated[
        str, typer.Option(help="Branch of solutions: semantic, positional or both.")
    ] = "both",
    critical: Annotated[
        bool, typer.Option("--critical", help="Print the critical points α_c, α_l and α_w.")
    ] = False,
    sigma: Annotated[
        float, typer.Option(min=1e-3, max=1e3, help="σ, the standard deviation of the tokens.")
    ] = 0.5,
    ridge: Annotated[
        float, typer.Option(min=1e-9, max=1e3, help="λ, the strength of the ridge penalty.")
    ] = 0.01,
    points: Annotated[
        int, typer.Option(help="Sobol points of the numerical integrals, a power of two.")
    ] = 2**14,
    json: JsonOption = False,
) -> None:
    """Compute the exact theory of the solvable model.

    Prints the order parameters and errors of each branch at every --alpha, or with --critical
    the critical points, in the limit of infinite dimension D.
    """
    from attnlab.core.errors import UsageError
    from attnlab.solvable.results import critical_points, theory_points, translate_arithmetic_errors

    if critical and (alpha or branch != "both"):
        raise UsageError(
            "--critical finds α itself, on both branches: leave out --alpha and --branch"
        )
    options = {"sigma": sigma, "ridge": ridge, "points": points}
    with translate_arithmetic_errors():
        if critical:
            points_found = critical_points(omega, **options)
            say_json(points_found) if json else _say_critical(points_found)
            return
        rows = theory_points(omega, alpha or [], branch, **options)
    if json:
        say_json({"omega": omega, "points": [_with_reason(row) for row in rows]})
        return
    columns = list(rows[0])
    say_table(columns, [[plain(row[c]) for c in columns] for row in rows])


def _with_reason(row: dict[str, Any]) -> dict[str, Any]:
    """The row, with a reason if the point cannot be relied on."""
    if finite(row) != row:
        return {**row, "reason": NOT_FINITE}
    return row if row["converged"] else {**row, "reason": "the iteration did not converge"}


def _say_critical(critical: dict[str, Any]) -> None:
    for name, value in critical.items():
        if name != "reasons":
            why = critical["reasons"].get(name)
            say(f"{name} = {plain(value)}" + (f"  ({why})" if why else ""))


SETTINGS = (
    "Settings: sigma, ridge, tokens, rank, student_rank, scaling, mixing, semantic_norm, "
    "positional_norm, test_samples, dtype, method, tolerance, max_evaluations."
)
DEFAULTS = {"dim": 1000, "alpha": 1.5, "omega": 0.3}
OWN_OPTIONS = {"dim": "--dim", "alpha": "--alpha", "omega": "--omega", "starts": "--start"}


def simulate(  # noqa: PLR0913  (each is one documented option)
    dim: Annotated[
        int | None, typer.Option(help=f"D, the dimension of a token; default: {DEFAULTS['dim']}.")
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help=f"α = N/D, samples per dimension; default: {DEFAULTS['alpha']}."),
    ] = None,
    omega: Annotated[
        float | None,
        typer.Option(
            help=f"ω, the weight of positions in the teacher, 0 to 1; default: {DEFAULTS['omega']}."
        ),
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
    from attnlab.core.config import parse_assignments
    from attnlab.core.errors import UsageError
    from attnlab.solvable.results import (
        check_simulation,
        settings_of_data,
        simulate_one,
        translate_arithmetic_errors,
    )

    settings = parse_assignments(set_)
    for key in settings.keys() & OWN_OPTIONS.keys():
        raise UsageError(f"--set {key}: use the option {OWN_OPTIONS[key]} instead")
    own = {"dim": dim, "alpha": alpha, "omega": omega}
    settings |= {name: value for name, value in own.items() if value is not None}
    if save is not None and data is not None:
        raise UsageError("give --save or --data, not both: the data are stored already")
    stored = None
    if data is not None:
        from attnlab.solvable.storage import load_data

        stored = load_data(data)
        settings = settings_of_data(stored[1], settings, data)
    check_simulation({**DEFAULTS, **settings}, start, seed, device)
    chosen = {**DEFAULTS, **settings, "starts": [start]}
    with translate_arithmetic_errors():
        student = simulate_one(chosen, seed, device, stored, save)
    if json:
        missing = [k for k, v in student.items() if v is not None and finite(v) is None]
        reasons = dict.fromkeys(missing, NOT_FINITE)
        say_json({**student, "reasons": reasons})
    else:
        say_table(["quantity", "value"], [[k, plain(finite(v))] for k, v in student.items()])
