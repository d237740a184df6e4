"""Run every study at smoke scale and write what it found to one JSON file, to compare two commits.

python tools/snapshot.py dump OUT.json [--runs FOLDER] [STUDY ...]
python tools/snapshot.py compare BEFORE.json AFTER.json

`dump` stores the metrics of every trial (floats as hexadecimal, so that equal means equal to the
last bit), the claims, the audits, the answer and the figures' names. `compare` prints what differs
and exits with 1 when a metric does.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def exact(value: Any) -> Any:
    """A float as hexadecimal text; everything else as it is."""
    return value.hex() if isinstance(value, float) else value


def snapshot(name: str, out: Path) -> dict[str, Any]:
    """One study at smoke scale with its default seeds."""
    import attnlab

    started = time.perf_counter()
    done = attnlab.run(name, scale="smoke", out=out, settings={"device": "cpu"})
    rows = {
        row.id: {
            "seed": row.seed,
            "state": row.state,
            "config": dict(row.config),
            "metrics": {key: exact(value) for key, value in row.metrics.items()},
            "curves": {key: [exact(v) for v in values] for key, values in row.curves.items()},
            "samples": list(row.samples),
            "findings": [
                f if isinstance(f, dict) else f.as_json() for f in getattr(row, "findings", ())
            ],
        }
        for row in done.table
    }
    results = done.results
    kept = ("answer", "claims", "audits", "discussion")
    figures = [figure["name"] for figure in results["figures"]]
    print(f"{name}: {len(rows)} trials, {time.perf_counter() - started:.0f} s", flush=True)
    return {"rows": rows, "figures": figures, **{key: results[key] for key in kept}}


def dump(out: Path, runs: Path, names: list[str]) -> None:
    """Study by study; what is in the file already is kept."""
    from attnlab.studies import study_names

    found = json.loads(out.read_text()) if out.is_file() else {}
    for name in names or study_names():
        if name not in found:
            try:
                found[name] = snapshot(name, runs)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                continue
            out.write_text(json.dumps(found, indent=1, sort_keys=True))


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print every difference; the number of metrics that differ."""
    wrong = 0
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            print(f"{name}: in one snapshot only")
            continue
        old, new = before[name], after[name]
        wrong += compare_rows(name, old["rows"], new["rows"])
        for kind in ("claims", "audits"):
            compare_named(name, kind, old[kind], new[kind])
        for key in ("answer", "figures"):
            if old[key] != new[key]:
                print(f"{name}: {key}\n  - {old[key]}\n  + {new[key]}")
    return wrong


def compare_rows(name: str, old: dict[str, Any], new: dict[str, Any]) -> int:
    """Trials are matched by id; a text metric that became a finding is reported, not counted."""
    wrong = len(old.keys() ^ new.keys())
    if wrong:
        print(f"{name}: {wrong} trials are in one snapshot only")
    moved: set[str] = set()
    for key in old.keys() & new.keys():
        a, b = old[key], new[key]
        for kind in ("metrics", "curves"):
            for metric in a[kind].keys() | b[kind].keys():
                was, now = a[kind].get(metric), b[kind].get(metric)
                if was == now and (metric in a[kind]) == (metric in b[kind]):
                    continue
                if metric not in b[kind] and isinstance(was, str) and not was.startswith("0x"):
                    moved.add(metric)
                else:
                    wrong += 1
                    print(f"{name}: {key} {metric}: {was} -> {now}")
        wrong += a["samples"] != b["samples"]
    if moved:
        print(f"{name}: now findings instead of text metrics: {', '.join(sorted(moved))}")
    equal = len(old.keys() & new.keys())
    print(f"{name}: {equal} trials compared, {wrong} differences in metrics, curves or samples")
    return wrong


def compare_named(name: str, kind: str, old: list[Any], new: list[Any]) -> None:
    """Claims and audits by name."""
    was, now = ({item["name"]: item for item in items} for items in (old, new))
    for key in [*was, *(key for key in now if key not in was)]:
        if key not in now or key not in was:
            print(f"{name}: {kind[:-1]} {key} only {'before' if key in was else 'after'}")
            continue
        for field in was[key].keys() | now[key].keys():
            if was[key].get(field) != now[key].get(field):
                print(
                    f"{name}: {kind[:-1]} {key}, {field}\n"
                    f"  - {was[key].get(field)}\n  + {now[key].get(field)}"
                )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("dump", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--runs", type=Path)
    given = parser.parse_intermixed_args()
    if given.action == "compare":
        pair = [json.loads(Path(p).read_text()) for p in (given.file, given.rest[0])]
        sys.exit(1 if compare(*pair) else 0)
    dump(given.file, given.runs or Path(tempfile.mkdtemp()), given.rest)


if __name__ == "__main__":
    main()
