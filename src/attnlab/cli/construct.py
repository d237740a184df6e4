"""attnlab construct: queries and keys that do what you want, or the proof that none can."""

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import JsonOption, note, say_json
from attnlab.cli.constructed import say_construction, say_constructions

if TYPE_CHECKING:
    from attnlab.construct.result import Construction


class Scale(StrEnum):
    """What a score q·k is multiplied by."""

    ONE = "1"
    SQRT = "sqrt"


KeysOption = Annotated[str, typer.Option(metavar="FILE", help="One key a row: CSV, JSON, .npy.")]
ValuesOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="One value a row, a row a key: adds the output.")
]
QueryOption = Annotated[
    str, typer.Option(metavar="FILE", help="One row in a file, or typed: 1,0,-.5")
]
ScaleOption = Annotated[Scale, typer.Option(help="Scores are q·k (1) or q·k/√h (sqrt).")]
TargetsOption = Annotated[str, typer.Option(metavar="0,1", help="Which keys, from 0.")]
WeightOption = Annotated[float, typer.Option(help="Attention wanted there, between 0 and 1.")]
MaybeWeight = Annotated[
    float | None, typer.Option(help="Attention wanted in all, between 0 and 1.")
]
IndexOption = Annotated[int, typer.Option(help="The key that may change, from 0.")]
UnitOption = Annotated[bool, typer.Option("--unit-norm", help="The new key has length 1.")]
GOAL = "average:0,1 or select:2"

construct = typer.Typer(help="Queries and keys that do what you want, or the proof that none can.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(construct, name="construct")


@construct.callback(invoke_without_command=True)
def options(context: typer.Context) -> None:
    """Queries and keys that do what you want, or the proof that none can."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@construct.command("select")
def select(
    keys: KeysOption,
    target: Annotated[int, typer.Option(help="Which key, from 0.")],
    weight: WeightOption = 0.99,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """The shortest query whose attention on one key reaches --weight."""
    from attnlab.construct.select import select as solve

    rows, worth = _matrices(keys, values)
    _answer(solve(rows, target, weight, scale.value, worth), json, {target})


@construct.command("identity")
def identity(
    keys: KeysOption,
    weight: WeightOption = 0.99,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """The query matrix whose row i selects key i: attention that changes nothing."""
    from attnlab.construct.select import identity as solve

    rows, worth = _matrices(keys, values)
    found = solve(rows, weight, scale.value, worth)
    say_json(found.as_json()) if json else say_constructions(found)


@construct.command("average")
def average(
    keys: KeysOption,
    targets: TargetsOption,
    weight: MaybeWeight = None,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """A query that gives the --targets equal weight, and as much in all as can be."""
    from attnlab.construct.average import average as solve
    from attnlab.construct.files import indices

    members = indices(targets, "--targets")
    rows, worth = _matrices(keys, values)
    _answer(solve(rows, members, weight, scale.value, worth), json, members)


@construct.command("match")
def match(
    keys: KeysOption,
    weights: Annotated[
        str, typer.Option(metavar=".5,.5,0", help="One weight a key, or a file of them; sum 1.")
    ],
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """The query whose attention is nearest to --weights, by Kullback-Leibler divergence."""
    from attnlab.construct.files import read_distribution
    from attnlab.construct.match import match as solve

    target = read_distribution(weights, "weights")
    rows, worth = _matrices(keys, values)
    _answer(solve(rows, target, scale.value, worth), json)


@construct.command("replace-key")
def replace_key(  # noqa: PLR0913  (each is one documented option)
    keys: KeysOption,
    query: QueryOption,
    index: IndexOption,
    goal: Annotated[str, typer.Option(help=f"What the same query shall do: {GOAL}.")],
    weight: MaybeWeight = None,
    unit_norm: UnitOption = False,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """The key that, in place of one of them, makes the same query average a set or select one."""
    from attnlab.construct.files import read_vector
    from attnlab.construct.replace import replace_key as solve

    aim = _goal(goal, weight)
    rows, worth = _matrices(keys, values)
    found = solve(rows, read_vector(query, "query"), index, aim, unit_norm, scale.value, worth)
    _answer(found, json, {index, *aim.members})


@construct.command("design")
def design(  # noqa: PLR0913  (each is one documented option)
    keys: KeysOption,
    free: Annotated[str, typer.Option(metavar="2", help="Which keys may change, from 0.")],
    after: Annotated[str, typer.Option(help=f"What the query does then: {GOAL}.")],
    before: Annotated[str | None, typer.Option(help=f"And with the keys as given: {GOAL}.")] = None,
    weight: MaybeWeight = None,
    unit_norm: UnitOption = False,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """A query and new keys together: it does --before, and --after once they are replaced."""
    from attnlab.construct.design import design as solve
    from attnlab.construct.files import indices

    places = indices(free, "--free")
    goals = (None if before is None else _goal(before, weight), _goal(after, weight))
    rows, worth = _matrices(keys, values)
    found = solve(rows, goals, places, unit_norm, scale.value, worth)
    _answer(found, json, {*places, *goals[1].members})


@construct.command("average-scale")
def average_scale(
    keys: KeysOption,
    targets: TargetsOption,
    tolerance: Annotated[
        float, typer.Option(help="Each of the two weights is at least (1 - tolerance)/2.")
    ] = 0.01,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """How large β must be for q = β(k_a + k_b) to average two keys."""
    from attnlab.construct.files import indices
    from attnlab.construct.pair import average_scale as solve
    from attnlab.core.errors import UsageError

    members = indices(targets, "--targets")
    if len(members) != 2:
        raise UsageError(f"--targets {targets}: two keys, as in 0,1")
    rows, worth = _matrices(keys, values)
    _answer(solve(rows, *members, tolerance, scale.value, worth), json, members)


@construct.command("extract")
def extract(
    basis_a: Annotated[str, typer.Option(metavar="FILE", help="Vectors that span v_a, as rows.")],
    basis_b: Annotated[str, typer.Option(metavar="FILE", help="Vectors that span v_b, as rows.")],
    columns: Annotated[bool, typer.Option("--columns", help="Vectors are columns.")] = False,
    json: JsonOption = False,
) -> None:
    """The matrix M with M(v_a + v_b)/2 = v_a for all v_a in span A and v_b in span B."""
    from attnlab.construct.extract import extract as solve
    from attnlab.construct.files import read_matrix, vectors_are_columns

    a, b = read_matrix(basis_a, "vectors"), read_matrix(basis_b, "vectors")
    if not columns and vectors_are_columns(a, b):
        columns = True
        note("more rows than columns: the columns are taken as the basis")
    _answer(solve(a, b, columns), json)


def _matrices(keys: str, values: str | None) -> tuple[Any, Any]:
    """Keys, and values where given."""
    from attnlab.construct.files import read_matrix

    return read_matrix(keys, "keys"), None if values is None else read_matrix(values, "values")


def _goal(text: str, weight: float | None) -> Any:
    """The goal, with the weight of --weight unless it brings its own."""
    from dataclasses import replace

    from attnlab.construct.goals import parse_goal
    from attnlab.core.errors import UsageError

    goal = parse_goal(text)
    if weight is None:
        return goal
    if goal.weight is not None:
        raise UsageError(f"{text} brings its weight: no --weight, please")
    return replace(goal, weight=weight)


def _answer(found: "Construction", json: bool, named: Collection[int] = ()) -> None:
    """What was found; that it cannot be done is an answer too. Of many keys, show the `named`."""
    say_json(found.as_json()) if json else say_construction(found, named)
