"""attnlab theory: the exact curves and critical points for D -> infinity."""

from typing import Annotated

import typer

from attnlab.cli.console import JsonOption, say, say_json, say_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("theory")(theory)


def theory(  # noqa: PLR0913  (each is one documented option)
    omega: Annotated[float, typer.Option(help="Weight of positions in the teacher, 0 to 1.")] = 0.3,
    alpha: Annotated[
        list[float] | None, typer.Option(help="Samples per dimension; repeat.")
    ] = None,
    branch: Annotated[str, typer.Option(help="semantic, positional or both.")] = "both",
    critical: Annotated[bool, typer.Option("--critical", help="α_c, α_l and α_w.")] = False,
    sigma: Annotated[float, typer.Option(help="Size of the tokens.")] = 0.5,
    ridge: Annotated[float, typer.Option(help="λ of the loss.")] = 0.01,
    points: Annotated[int, typer.Option(help="Sobol points of the integrals.")] = 2**14,
    json: JsonOption = False,
) -> None:
    """Order parameters and errors of both branches at each α, or the critical points."""
    from attnlab.solvable.answers import critical_points, theory_points

    if critical:
        found = critical_points(omega, sigma=sigma, ridge=ridge, points=points)
        if json:
            say_json(found)
        else:
            for name, value in found.items():
                say(f"{name} = {value}")
        return
    rows = theory_points(omega, alpha or [], branch, sigma=sigma, ridge=ridge, points=points)
    if json:
        say_json({"omega": omega, "points": rows})
        return
    columns = list(rows[0])
    say_table(columns, [[_cell(row[c]) for c in columns] for row in rows])


def _cell(value: object) -> str:
    from attnlab.report.text import number

    return number(value) if isinstance(value, float) else str(value)
