"""attnlab theory: the exact curves and critical points of the solvable model (D → ∞)."""

from typing import Annotated, Any

import typer

from attnlab.cli.console import JsonOption, finite, say, say_json, say_table
from attnlab.report.text import plain


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
        return {**row, "reason": "not a finite number with these settings"}
    return row if row["converged"] else {**row, "reason": "the iteration did not converge"}


def _say_critical(critical: dict[str, Any]) -> None:
    for name, value in critical.items():
        if name != "reasons":
            why = critical["reasons"].get(name)
            say(f"{name} = {plain(value)}" + (f"  ({why})" if why else ""))
