"""Break the code in many small ways and count how often the tests notice, to compare two commits.

python tools/mutants.py sample OUT.json [--tree FOLDER] [--count 60] [--seed 0]
python tools/mutants.py run SAMPLE.json OUT.json [--tree FOLDER] [--budget 40] [--jobs 1]
python tools/mutants.py compare BEFORE.json AFTER.json

`sample` draws mutants from all rooms: a comparison, an operator, a number, a condition or a
returned value is changed, two arguments are swapped, or a statement is left out. A mutant is stored
as text (function, statement, expression), so that `run` finds it again in a tree where files have
moved and names have changed; those it does not find it lists. `run` applies each to a copy of the
tree and runs the test files nearest to the changed module, until one fails or `--budget` seconds of
processor time are spent. A test that fails counts only when it passes without the mutant;
`--skip FILE` names tests, one a line, that fail on this machine without any.
"""

import argparse
import ast
import json
import multiprocessing.util
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

from mutant_sites import Site, apply, find, sample, sites_in, write

MOST_TEST_FILES = 12
BUDGET_VARIABLE, SUBJECT_VARIABLE = "MUTANT_CPU_SECONDS", "MUTANT_SUBJECT"
SKIP_VARIABLE = "MUTANT_SKIPPED_TESTS"


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
    skipped = os.environ.get(SKIP_VARIABLE)
    if skipped:
        failing = set(Path(skipped).read_text("utf-8").splitlines())
        items[:] = [item for item in items if item.nodeid not in failing]
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


def run(sample_file: Path, out: Path, tree: Path, budget: float, jobs: int) -> None:
    """Judge what is not in `out` yet, `jobs` mutants at a time, each process in its own copy."""
    mutants = json.loads(sample_file.read_text())
    results = json.loads(out.read_text()) if out.is_file() else []
    known = {result["id"] for result in results}
    missing = [mutant for mutant in mutants if mutant["id"] not in known]
    with ProcessPoolExecutor(jobs) as pool:
        work = [pool.submit(judge_in_copy, mutant, tree, budget) for mutant in missing]
        for done in as_completed(work):
            results.append(done.result())
            out.write_text(json.dumps(sorted(results, key=lambda r: r["id"]), indent=1))
            print(describe(results[-1]), flush=True)
    summarise(results)


def judge_in_copy(mutant: dict[str, Any], tree: Path, budget: float) -> dict[str, Any]:
    """Find the mutant's place in a copy of the tree that this process made, and judge it there."""
    own, sites = copy_of(tree)
    site = find(mutant, sites)
    place = {"id": mutant["id"]} | (site.as_json() if site else mutant)
    place.pop("body")
    return place | (judge(own, site, budget) if site else {"verdict": "not found"})


@cache
def copy_of(tree: Path) -> tuple[Path, list[Site]]:
    """A copy that is removed when this process ends, and its mutants."""
    folder = tempfile.mkdtemp()
    finalize = multiprocessing.util.Finalize
    finalize(None, shutil.rmtree, args=(folder, True), exitpriority=1)
    own = Path(folder) / "tree"
    ignored = shutil.ignore_patterns(".git", ".venv", ".gpu", "runs", ".*_cache")
    shutil.copytree(tree, own, ignore=ignored)
    return own, sites_in(own)


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
    parser.add_argument("--jobs", type=int, default=1, help="mutants judged at a time")
    parser.add_argument("--skip", type=Path, help="tests that fail here without a mutant")
    given = parser.parse_args()
    if given.action == "sample":
        drawn = sample(given.tree, given.count, given.seed)
        given.files[0].write_text(json.dumps(drawn, indent=1))
    elif given.action == "run":
        source, out = given.files
        if given.skip:
            os.environ[SKIP_VARIABLE] = str(given.skip.resolve())
        run(source, out, given.tree, given.budget, given.jobs)
    else:
        compare(*(json.loads(path.read_text()) for path in given.files))


if __name__ == "__main__":
    main()
