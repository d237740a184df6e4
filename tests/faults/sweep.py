"""`python sweep.py WRITER FOLDER kill | WHAT [once|on] [EVERY]`: every case is a line of JSON.

`python sweep.py WRITER FOLDER trace` prints the order in which things reach the disk.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.faults.harness import CHANGING, REFUSED, Fault, sweep, traced
from tests.faults.order import CALLS
from tests.faults.writers import WRITERS


def main() -> None:
    name, folder, what, *rest = sys.argv[1:]
    writer, room = WRITERS[name](), Path(folder)
    writer.before(room)
    if what == "trace":
        own, log = writer.fresh(room, 0), room / "trace.log"
        code = traced(lambda: writer.work(own), log, room / "stderr.txt", f"trace={CALLS}")
        assert code == 0, (room / "stderr.txt").read_text()
        print(json.dumps({"own": str(own)}))
        return
    onwards, every = "on" in rest, int(next((w for w in rest if w.isdigit()), "1"))
    calls = [w for w in rest if w not in ("once", "on") and not w.isdigit()]
    for call in calls or (CHANGING if what == "SIGKILL" else REFUSED[what]):
        for point in sweep(writer, room, Fault(call, what, onwards), every):
            print(json.dumps(point.as_json()), flush=True)


if __name__ == "__main__":
    main()
