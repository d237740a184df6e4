"""Break the code in many small ways and count how often the tests notice, to compare two commits.

python tools/mutants.py sample OUT.json [--tree FOLDER] [--count 60] [--seed 0]
python tools/mutants.py run SAMPLE.json OUT.json [--tree FOLDER] [--budget 40]
python tools/mutants.py compare BEFORE.json AFTER.json

`sample` draws mutants from all rooms: a comparison, an operator, a number, a condition or a
returned value is changed, two arguments are swapped, or a statement is left out. A mutant is stored
as text (function, statement, expression), so that `run` finds it again in a tree where files have
moved and names have changed; those it does not find it lists. `run` applies each to a copy of the
tree and runs the test files nearest to the changed module, until one fails or `--budget` seconds of
processor time are spent. A test that fails counts only when it passes without the mutant.
"""

import argparse
import ast
import copy
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
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
MOST_TEST_FILES = 12
BUDGET_VARIABLE, SUBJECT_VARIABLE = "MUTANT_CPU_SECONDS", "MUTANT_SUBJECT"


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


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every dotted name a file imports, with the names it takes from modules."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(name for name in names if name.startswith("attnlab"))


@cache
def modules_of(tree: Path) -> dict[str, Path]:
    """Files of the package by dotted name."""
    source = tree / "src"
    return {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (source / "attnlab").rglob("*.py")
    }


def distance(tree: Path, test: Path, module: str) -> int:
    """How many imports lie between a test file and a module; 9 when there is no way."""
    modules = modules_of(tree)
    reached, front = set[str](), imports_of(test) & modules.keys()
    for steps in range(1, 9):
        if module in front:
            return steps
        reached |= front
        beyond = set[str]().union(*(imports_of(modules[name]) for name in front))
        front = beyond & modules.keys() - reached
    return 9


def nearest_tests(tree: Path, file: str) -> list[str]:
    """Test files by distance from a module: of the same name, then by imports, the room's first."""
    parts = Path(file).with_suffix("").parts
    module = ".".join(["attnlab", *(part for part in parts if part != "__init__")])
    ranked = []
    for path in sorted((tree / "tests").rglob("test_*.py")):
        inside, name = path.relative_to(tree / "tests").parts, path.stem.removeprefix("test_")
        other_room = inside[0] != parts[0]
        steps, alike = distance(tree, path, module), any(name[:5] == part[:5] for part in parts)
        if not other_room or steps < 9 or alike:
            exact = not other_room and name in parts
            rank = (
                0 if exact else 1 if alike else 2,
                steps + 2 * other_room,
                len(imports_of(path)),
            )
            ranked.append((rank, path.relative_to(tree).as_posix()))
    return [path for _, path in sorted(ranked)[:MOST_TEST_FILES]]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """As a plugin of pytest: in each file first the tests that name what was changed."""
    subject = os.environ[SUBJECT_VARIABLE]
    order = {path: i for i, path in enumerate(dict.fromkeys(item.path for item in items))}
    generator = random.Random(0)

    def key(item: Any) -> tuple[int, bool, float]:
        parameters = getattr(item, "callspec", None)
        text = f"{item.name} {parameters.params if parameters else ''}"
        named = subject in re.sub(r"[\W_]+", "_", text)
        return order[item.path], not named, generator.random()

    items.sort(key=key)


def pytest_runtest_teardown(item: Any) -> None:
    """As a plugin of pytest: stop when the budget of processor time is spent."""
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    if used > float(os.environ[BUDGET_VARIABLE]):
        item.session.shouldstop = "the budget is spent"


def run_tests(
    tree: Path, tests: list[str], budget: float, subject: str = ""
) -> tuple[str | None, float, str]:
    """The first test that fails or None, processor seconds, and the last line of pytest."""
    here = Path(__file__).parent
    environment = os.environ | {
        "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{here}",
        "OMP_NUM_THREADS": "1",
        BUDGET_VARIABLE: str(budget),
        SUBJECT_VARIABLE: subject,
    }
    command = ["nice", "-n", "5", sys.executable, "-m", "pytest", "-x", "-rfE", "--tb", "no"]
    command += ["-p", "mutants", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "120"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [*command, "-m", "not slow and not gpu", *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=20 * budget)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        said = "FAILED <hangs>"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
    last = said.strip().splitlines()[-1:] or [""]
    return (failed[1] if failed else None), round(spent, 1), last[0]


def judge(tree: Path, site: Site, budget: float) -> dict[str, Any]:
    """Killed or not, by which test, at what cost."""
    path = tree / "src" / "attnlab" / site.file
    original = path.read_bytes()
    tests = nearest_tests(tree, site.file)
    apply(site, path)
    try:
        failed, seconds, last = run_tests(tree, tests, budget, path.stem)
    finally:
        write(path, original)
    if failed and "::" in failed and not passes(tree, failed, budget):
        return {"verdict": "unclear", "by": failed, "seconds": seconds, "pytest": last}
    verdict = "killed" if failed else "survived"
    return {"verdict": verdict, "by": failed, "seconds": seconds, "pytest": last, "tests": tests}


@cache
def passes(tree: Path, test: str, budget: float) -> bool:
    """Whether a test passes without any mutant."""
    return run_tests(tree, [test], budget)[0] is None


def run(sample_file: Path, out: Path, tree: Path, budget: float) -> None:
    """One mutant after the other; what is in the file already is kept."""
    mutants = json.loads(sample_file.read_text())
    results = json.loads(out.read_text()) if out.is_file() else []
    known = {result["id"] for result in results}
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "tree"
        shutil.copytree(
            tree, own, ignore=shutil.ignore_patterns(".git", ".venv", "runs", ".*_cache")
        )
        sites = sites_in(own)
        for mutant in (m for m in mutants if m["id"] not in known):
            site = find(mutant, sites)
            place = {"id": mutant["id"]} | (site.as_json() if site else mutant)
            place.pop("body")
            found = judge(own, site, budget) if site else {"verdict": "not found"}
            results.append(place | found)
            out.write_text(json.dumps(results, indent=1))
            print(describe(results[-1]), flush=True)
    summarise(results)


def describe(result: dict[str, Any]) -> str:
    """One line a mutant."""
    place = f"{result['file']} {result['function']}"
    change = f"{result['before']} -> {result['after']}".replace("\n", " ")
    return f"{result['id']:3} {result['verdict']:9} {place}: {change[:120]}"


def summarise(results: list[dict[str, Any]]) -> None:
    """Counts and those that were not killed."""
    counts = Counter(result["verdict"] for result in results)
    print(", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()))
    for result in results:
        if result["verdict"] != "killed":
            print(describe(result))


def compare(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    """Both counts, and the mutants with another verdict now."""
    then = {result["id"]: result for result in before}
    for name, results in (("before", before), ("after", after)):
        counts = Counter(result["verdict"] for result in results)
        print(f"{name}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()))
    for result in after:
        was = then[result["id"]]["verdict"]
        if was != result["verdict"]:
            print(f"{was} -> {describe(result)}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("sample", "run", "compare"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=40.0, help="processor seconds a mutant")
    given = parser.parse_args()
    if given.action == "sample":
        drawn = sample(given.tree, given.count, given.seed)
        given.files[0].write_text(json.dumps(drawn, indent=1))
    elif given.action == "run":
        source, out = given.files
        run(source, out, given.tree, given.budget)
    else:
        compare(*(json.loads(path.read_text()) for path in given.files))


if __name__ == "__main__":
    main()
