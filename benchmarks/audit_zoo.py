"""Every causal-LM class of the installed transformers through every audit of a model.

python benchmarks/audit_zoo.py [--only llama --only gpt2] [--json] [--workers 2]

Exit 1 when a class fails that is not in KNOWN: a defect there, or a false alarm here. KNOWN says
what each failure was found to be.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from zoo_settings import KNOWN


def one(model_type: str) -> dict[str, Any]:
    """The verdicts on one class, in a process that serves many."""
    import torch
    from zoo import quiet, tiny_models

    from attnlab.audit.catalogue import check

    torch.set_num_threads(1)
    (entry,) = tiny_models((model_type,))
    row: dict[str, Any] = {"type": model_type, "class": entry.class_name}
    if entry.why_not:
        return {**row, "why_not": entry.why_not}
    began = time.perf_counter()
    with quiet():
        found = check(entry.build(), name=entry.class_name)
    audits = [finding.as_json() for finding in found.findings]
    return {**row, "seconds": round(time.perf_counter() - began, 1), "audits": audits}


def unexplained(row: dict[str, Any]) -> list[str]:
    """Audits that fail and are not accounted for."""
    known = KNOWN.get(row["type"], {})
    failed = [a["name"] for a in row.get("audits", []) if a["verdict"] == "fail"]
    return [name for name in failed if name not in known]


def shown(row: dict[str, Any]) -> str:
    """One line a class."""
    if "why_not" in row:
        return f"– {row['class']}: {row['why_not']}"
    count = {v: sum(a["verdict"] == v for a in row["audits"]) for v in ("pass", "fail")}
    failed = [a for a in row["audits"] if a["verdict"] == "fail"]
    mark = "✗" if failed else "✓"
    lines = [f"{mark} {row['class']}: {count['pass']} pass, {count['fail']} fail"]
    for a in failed:
        known = KNOWN.get(row["type"], {}).get(a["name"], "NOT EXPLAINED")
        lines.append(f"    {a['name']}: {a['why']}\n        {known}")
    return "\n".join(lines)


def main() -> None:
    """Sweep, print, and count."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    parser = argparse.ArgumentParser(description="Audit every causal LM of transformers")
    parser.add_argument("--only", action="append", help="a model type; repeat")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    types = chosen.only or sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    rows = []
    with ProcessPoolExecutor(chosen.workers) as pool:
        for row in pool.map(one, types):
            rows.append(row)
            if not chosen.json:
                print(shown(row), flush=True)
    odd = {row["type"]: names for row in rows if (names := unexplained(row))}
    if chosen.json:
        print(json.dumps({"rows": rows, "unexplained": odd}, indent=1))
    else:
        audited = [row for row in rows if "audits" in row]
        failing = sum(any(a["verdict"] == "fail" for a in row["audits"]) for row in audited)
        print(
            f"{len(audited)} of {len(rows)} classes audited, {failing} fail, "
            f"{len(odd)} of them unexplained: {', '.join(odd) or 'none'}"
        )
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
