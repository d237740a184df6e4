"""attnlab construct: find queries and keys with a given attention, or prove that none exist."""

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import JsonOption, command_group, note, say_json
from attnlab.cli.constructed import say_attention, say_construction, say_constructions

if TYPE_CHECKING:
    from attnlab.construct.result import Construction


class Scale(StrEnum):
    """What a score q·k is multiplied by."""

    ONE = "1"
    SQRT = "sqrt"


KeysOption = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Keys, one per row: CSV, JSON or .npy; or `example`, four keys of a course exercise.",
    ),
]
ValuesOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Values, one row per key; the output is then printed too."),
]
QueryOption = Annotated[
    str, typer.Option(metavar="FILE", help="Query: a file with one row, or numbers: 1,0,-.5")
]
ScaleOption = Annotated[
    Scale, typer.Option(help="Scores are q·k (1) or q·k/√h with h entries per key (sqrt).")
]
TargetsOption = Annotated[str, typer.Option(metavar="0,1", help="The keys, counted from 0.")]
WeightOption = Annotated[
    float, typer.Option(help="Attention weight the key must get, between 0 and 1.")
]
MaybeWeight = Annotated[
    float | None, typer.Option(help="Total attention weight of the target keys, between 0 and 1.")
]
IndexOption = Annotated[int, typer.Option(help="The key to replace, counted from 0.")]
UnitOption = Annotated[bool, typer.Option("--unit-norm", help="New keys must have norm 1.")]
GOAL = "average:0,1 or select:2"

construct = command_group("construct", "Construct queries and keys, or prove that none exist.")


@construct.command("apply")
def apply(
    keys: KeysOption,
    query: QueryOption,
    values: ValuesOption = None,
    hard: Annotated[
        bool, typer.Option("--hard", help="Argmax: all weight on the highest score.")
    ] = False,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Compute attention for a given query.

    Prints scores, weights and, with --values, the output.
    """
    from attnlab.construct.apply import apply as compute
    from attnlab.construct.files import read_vector

    given = _given(keys, values, scale)
    found = compute(**given, query=read_vector(query, "query"), hard=hard)
    say_json(found.as_json()) if json else say_attention(found)


@construct.command("select")
def select(
    keys: KeysOption,
    target: Annotated[int, typer.Option(help="The key, counted from 0.")],
    weight: WeightOption = 0.99,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Find the shortest query that attends to one key."""
    from attnlab.construct.select import select as solve

    solved = solve(**_given(keys, values, scale), index=target, weight=weight)
    _answer(solved, json, {target})


@construct.command("identity")
def identity(
    keys: KeysOption,
    weight: WeightOption = 0.99,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Find queries that make attention the identity.

    Row i of the query matrix gives key i the weight --weight or more.
    """
    from attnlab.construct.select import identity as solve

    solved = solve(**_given(keys, values, scale), weight=weight)
    say_json(solved.as_json()) if json else say_constructions(solved)


@construct.command("average")
def average(
    keys: KeysOption,
    targets: TargetsOption,
    weight: MaybeWeight = None,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Find a query that attends equally to several keys.

    Without --weight their total weight is as large as possible.
    """
    from attnlab.construct.average import average as solve
    from attnlab.construct.files import indices

    members = indices(targets, "--targets")
    solved = solve(**_given(keys, values, scale), members=members, weight=weight)
    _answer(solved, json, members)


@construct.command("match")
def match(
    keys: KeysOption,
    weights: Annotated[
        str, typer.Option(metavar=".5,.5,0", help="One weight per key, or a file; they sum to 1.")
    ],
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Find the query whose attention is closest to --weights.

    The distance is the Kullback-Leibler divergence.
    """
    from attnlab.construct.files import read_distribution
    from attnlab.construct.match import match as solve

    target = read_distribution(weights, "weights")
    _answer(solve(**_given(keys, values, scale), target=target), json)


@construct.command("replace-key")
def replace_key(  # noqa: PLR0913  (each is one documented option)
    keys: KeysOption,
    query: QueryOption,
    index: IndexOption,
    goal: Annotated[str, typer.Option(help=f"What the query must do with the new key: {GOAL}.")],
    weight: MaybeWeight = None,
    unit_norm: UnitOption = False,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Replace one key so that a given query reaches a goal."""
    from attnlab.construct.files import read_vector
    from attnlab.construct.replace import replace_key as solve

    aim = _goal(goal, weight)
    given = _given(keys, values, scale)
    own = {"query": read_vector(query, "query"), "index": index, "goal": aim}
    _answer(solve(**given, **own, unit_norm=unit_norm), json, {index, *aim.members})


@construct.command("design")
def design(  # noqa: PLR0913  (each is one documented option)
    keys: KeysOption,
    free: Annotated[str, typer.Option(metavar="2", help="The keys to replace, counted from 0.")],
    after: Annotated[str, typer.Option(help=f"What the query must do with the new keys: {GOAL}.")],
    before: Annotated[
        str | None, typer.Option(help=f"What it must do with the old keys: {GOAL}.")
    ] = None,
    weight: MaybeWeight = None,
    unit_norm: UnitOption = False,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Find a query and new keys that reach a goal together.

    With the old keys the query does --before, with the new ones --after.
    """
    from attnlab.construct.design import design as solve
    from attnlab.construct.files import indices

    replaced = indices(free, "--free")
    goals = (None if before is None else _goal(before, weight), _goal(after, weight))
    given = _given(keys, values, scale)
    solved = solve(**given, goals=goals, free=replaced, unit_norm=unit_norm)
    _answer(solved, json, {*replaced, *goals[1].members})


@construct.command("average-scale")
def average_scale(
    keys: KeysOption,
    targets: TargetsOption,
    tolerance: Annotated[
        float, typer.Option(help="Both weights must be at least (1 - tolerance)/2.")
    ] = 0.01,
    values: ValuesOption = None,
    scale: ScaleOption = Scale.ONE,
    json: JsonOption = False,
) -> None:
    """Find the β for which q = β(k_a + k_b) averages two keys.

    It is the smallest β for which the weights of both keys meet --tolerance.
    """
    from attnlab.construct.files import indices
    from attnlab.construct.pair import average_scale as solve
    from attnlab.core.errors import UsageError

    members = indices(targets, "--targets")
    if len(members) != 2:
        raise UsageError(f"--targets {targets}: give two keys, as in 0,1")
    given, (a, b) = _given(keys, values, scale), members
    _answer(solve(**given, a=a, b=b, tolerance=tolerance), json, members)


@construct.command("extract")
def extract(
    basis_a: Annotated[str, typer.Option(metavar="FILE", help="Vectors that span A, one per row.")],
    basis_b: Annotated[str, typer.Option(metavar="FILE", help="Vectors that span B, one per row.")],
    columns: Annotated[
        bool, typer.Option("--columns", help="The files hold one vector per column.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Find the matrix that extracts one of two averaged values.

    For this matrix, M(v_a + v_b)/2 = v_a for all v_a in the span of A and v_b in the span of B.
    """
    from attnlab.construct.extract import extract as solve
    from attnlab.construct.files import read_matrix, vectors_are_columns

    a, b = read_matrix(basis_a, "vectors"), read_matrix(basis_b, "vectors")
    if not columns and vectors_are_columns(a, b):
        columns = True
        note("the files have more rows than columns: each column is taken as one vector")
    _answer(solve(a, b, columns), json)


def _given(keys: str, values: str | None, scale: Scale) -> dict[str, Any]:
    """What every construction is given: the keys, the scale, and values if there are any."""
    from attnlab.construct.example import EXAMPLE, KEYS
    from attnlab.construct.files import read_matrix

    rows = KEYS if keys == EXAMPLE else read_matrix(keys, "keys")
    worth = None if values is None else read_matrix(values, "values")
    return {"keys": rows, "scale": scale.value, "values": worth}


def _goal(text: str, weight: float | None) -> Any:
    """Parse a goal; --weight sets its weight, which `select:2@0.9` may do instead."""
    from dataclasses import replace

    from attnlab.construct.goals import parse_goal
    from attnlab.core.errors import UsageError

    goal = parse_goal(text)
    if weight is None:
        return goal
    if goal.weight is not None:
        raise UsageError(f"{text} already has a weight: leave out --weight")
    return replace(goal, weight=weight)


def _answer(solved: "Construction", json: bool, named: Collection[int] = ()) -> None:
    """Print a solution, or that there is none; of many keys, the `named` ones are shown."""
    say_json(solved.as_json()) if json else say_construction(solved, named)
