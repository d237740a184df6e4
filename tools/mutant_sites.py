"""Mutants of a source tree: where one small change applies, and the same place in another tree.

An operator changes a comparison, an arithmetic sign, a number, a condition, the order of two
arguments or a returned value, or leaves a statement out. `Site` says where; `find` looks the same
place up in a tree where files have moved and names have changed.
"""

import ast
import copy
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
BLOCKS = ("annotation", "returns", "body", "orelse", "finalbody", "handlers", "cases")
MINIMUM_PER_ROOM = 2
SIMILAR_ENOUGH = 0.6


@dataclass(frozen=True)
class Site:
    """A place where one operator applies; `node` is replaced by the source text `after`."""

    file: str
    function: str
    body: str
    statement: str
    operator: str
    before: str
    after: str
    node: ast.AST

    @property
    def room(self) -> str:
        """The first folder below the package, or the module itself."""
        return Path(self.file).parts[0].removesuffix(".py")

    def as_json(self) -> dict[str, str]:
        """Everything but the node."""
        names = ("file", "function", "body", "statement", "operator", "before", "after")
        return {"room": self.room} | {name: getattr(self, name) for name in names}


def mutations(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Operator and changed copy, for each operator that applies to this node."""
    if isinstance(node, ast.stmt):
        yield from statement_mutations(node)
        return
    changed: Any = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            changed.ops = [COMPARISONS[type(operator)]()]
            yield "comparison", changed
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC:
            changed.op = ARITHMETIC[type(operator)]()
            yield "arithmetic", changed
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            yield "number", ast.Constant(value + 1)
        case ast.BoolOp(op=operator):
            changed.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "boolean", changed
        case ast.IfExp():
            changed.test = ast.UnaryOp(ast.Not(), changed.test)
            yield "condition", changed
        case ast.Call(args=[first, second, *rest]) if _has_order(changed):
            changed.args = [second, first, *rest]
            yield "arguments", changed


def statement_mutations(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """The same for whole statements."""
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield "return", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "removal", ast.Pass()


def _has_order(call: ast.Call) -> bool:
    """Whether swapping the first two arguments can matter: not for min and max."""
    symmetric = isinstance(call.func, ast.Name) and call.func.id in ("min", "max")
    return not symmetric and not any(isinstance(a, ast.Starred) for a in call.args[:2])


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that can be replaced: no annotations, strings, inner blocks."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in BLOCKS and not isinstance(node, ast.IfExp | ast.Lambda):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from walk(child)


def functions_of(node: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """All functions and methods with their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}".lstrip(".")
            if isinstance(child, ast.FunctionDef):
                yield inner, child
            yield from functions_of(child, inner)


def sites_of(file: str, source: str) -> Iterator[Site]:
    """All mutants of the functions of one file."""
    for name, function in functions_of(ast.parse(source)):
        body = " ".join(ast.unparse(statement) for statement in function.body)
        for statement in statements(function.body):
            text = ast.unparse(statement).splitlines()[0]
            changes = [
                (operator, part, ast.unparse(ast.fix_missing_locations(changed)))
                for part in walk(statement)
                for operator, changed in mutations(part)
            ]
            if isinstance(statement, ast.If | ast.While):
                changes.append(("condition", statement.test, _negate(statement.test)))
            for operator, part, after in changes:
                yield Site(file, name, body, text, operator, ast.unparse(part), after, part)


def _negate(test: ast.expr) -> str:
    return f"not ({ast.unparse(test)})"


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a function with those of its blocks, without those of inner functions."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Raise):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(statement, name, []))
        for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            yield from statements(part.body)


def sites_in(tree: Path) -> list[Site]:
    """All mutants of a tree."""
    package = tree / "src" / "attnlab"
    return [
        site
        for path in sorted(package.rglob("*.py"))
        for site in sites_of(path.relative_to(package).as_posix(), path.read_text("utf-8"))
    ]


def sample(tree: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """Some from each room, more from the larger ones; within a room all operators alike."""
    rooms: dict[str, dict[str, list[Site]]] = defaultdict(lambda: defaultdict(list))
    for site in sites_in(tree):
        rooms[site.room][site.operator].append(site)
    sizes = {room: sum(map(len, found.values())) for room, found in rooms.items()}
    quota = dict.fromkeys(sorted(sizes), MINIMUM_PER_ROOM)
    while sum(quota.values()) < count:
        quota[max(quota, key=lambda room: sizes[room] / quota[room])] += 1
    generator = random.Random(seed)
    chosen: list[Site] = []
    for room, number in quota.items():
        operators = sorted(rooms[room])
        generator.shuffle(operators)
        for i in range(number):
            chosen.append(generator.choice(rooms[room][operators[i % len(operators)]]))
    return [{"id": i} | site.as_json() for i, site in enumerate(chosen[:count])]


@cache
def tokens(text: str) -> Counter[str]:
    """Words and signs with their counts."""
    return Counter(re.findall(r"\w+|[^\w\s]", text))


def likeness(a: str, b: str) -> float:
    """Share of words in common: 1 when the same words are in both."""
    one, other = tokens(a), tokens(b)
    return 2 * (one & other).total() / max(1, one.total() + other.total())


def find(mutant: dict[str, Any], sites: list[Site]) -> Site | None:
    """The same place in another tree, or None when nothing is like it."""

    def score(site: Site) -> float:
        return (
            0.3 * likeness(mutant["before"], site.before)
            + 0.2 * likeness(mutant["statement"], site.statement)
            + 0.3 * likeness(mutant["body"], site.body)
            + 0.1 * (mutant["function"] == site.function)
            + 0.05 * (Path(mutant["file"]).name == Path(site.file).name)
            + 0.05 * (mutant["room"] == site.room)
        )

    alike = [
        site
        for site in sites
        if site.operator == mutant["operator"]
        and likeness(mutant["before"], site.before) >= 0.5
        and likeness(mutant["body"], site.body) >= 0.4
    ]
    best = max(alike, key=score, default=None)
    return best if best is not None and score(best) >= SIMILAR_ENOUGH else None


def apply(site: Site, path: Path) -> None:
    """Write the changed text; the time stamp moves on, so that no stale byte code is used."""
    node: Any = site.node
    lines = path.read_bytes().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    text = b"".join(lines)
    after = site.after if isinstance(node, ast.stmt) else f"({site.after})"
    write(path, text[:start] + after.encode() + text[end:])


def write(path: Path, data: bytes) -> None:
    """With a time stamp that is later than before by two seconds."""
    later = path.stat().st_mtime + 2
    path.write_bytes(data)
    os.utime(path, (later, later))
