"""The writers: a run, its report, a training's checkpoints, the shelf of assets; and two bad ones.

Each stores something small through the package's own functions. The bad ones write as people do,
and are here so that the harness is seen to find what it looks for.
"""

import hashlib
import importlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


class RunWriter:
    """A whole life of a record: made, two trials stored, results, a figure, sealed."""

    def __init__(self) -> None:
        from attnlab.lab import record
        from tests.lab import small_run

        # where it was computed asks git, in other processes: not what is looked at here
        record.session = lambda device, sha256: {"device": device}
        self.small_run, self.digest = small_run.small_run, ""

    def before(self, folder: Path) -> None:
        self.digest = self.small_run(folder / "undisturbed").digest()

    def fresh(self, folder: Path, number: int) -> Path:
        return folder / f"case-{number}"

    def work(self, own: Path) -> None:
        self.small_run(own)

    def judge(self, own: Path) -> str:
        from attnlab.lab.verify import verify_run

        for found in own.glob("tiny-*"):
            if problems := verify_run(found).problems:
                return f"damaged: {problems}"
        again = self.small_run(own)
        if again.digest() != self.digest:
            return "another digest after the same command"
        left = [p.name for p in again.path.rglob(".partial-*")]
        state = again.verify()
        return "" if state.complete and not left else f"not complete: {state.problems} {left}"


class ReportWriter(RunWriter):
    """The report of a finished run, written anew."""

    def before(self, folder: Path) -> None:
        from attnlab.report.build import write_report

        record = self.small_run(folder / "undisturbed")
        with record.lock():
            record.write_results({"question": "Is it?", "answer": "It is.", "claims": []})
            record.seal()
        self.digest, self.source = record.digest(), record.path
        whole = shutil.copytree(self.source, folder / "whole")
        self.report, self.page = write_report, write_report(whole).read_bytes()

    def fresh(self, folder: Path, number: int) -> Path:
        return shutil.copytree(self.source, folder / f"case-{number}")

    def work(self, own: Path) -> None:
        self.report(own)

    def judge(self, own: Path) -> str:
        from attnlab.lab.verify import verify_run

        if problems := verify_run(own).problems:
            return f"damaged: {problems}"
        there = own / "report.html"
        if there.exists() and not there.read_bytes().rstrip().endswith(b"</html>"):
            return "half a report"
        self.report(own)
        state = verify_run(own)
        # the page names its folder
        same = there.read_bytes().replace(own.name.encode(), b"whole") == self.page
        good = state.complete and state.ok and state.digest == self.digest and same
        return "" if good else f"after the same command: {state}, same page: {same}"


class CheckpointWriter:
    """A training stopped after step 9: the checkpoint of step 10 is written, an old one removed."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "tests" / "training"))
        # they find each other as scripts of one folder do
        self.crash: Any = importlib.import_module("crash")
        self.training: Any = self.crash.training

    def before(self, folder: Path) -> None:
        crash = self.crash
        crash.one_thread()
        crash.build_optimizer(crash.Tiny(), crash.settings())
        self.training(folder / "warm", 2)  # what torch loads late is loaded now
        steps = crash.STEPS
        assert crash.ended(crash.forked(lambda: self.training(folder / "whole", steps))) == 0
        asked = iter([False] * crash.BEFORE + [True])
        hooks = crash.Hooks(evaluate=crash.dev_loss, stop=lambda: next(asked))
        start = folder / "before"
        assert crash.ended(crash.forked(lambda: self.training(start, steps, hooks=hooks))) == 0
        self.digest = crash.digest(folder / "whole")

    def fresh(self, folder: Path, number: int) -> Path:
        return shutil.copytree(folder / "before", folder / f"case-{number}")

    def work(self, own: Path) -> None:
        self.training(own, self.crash.STEPS)

    def judge(self, own: Path) -> str:
        found = self.crash.judged(own)
        wanted = {"again": 0, "digest": self.digest, "leftovers": []}
        wrong = {key: found[key] for key in wanted if found[key] != wanted[key]}
        if found["step"] not in (self.crash.BEFORE, self.crash.STEPS):
            wrong["step"] = found["step"]
        return f"{wrong}" if wrong else ""


class AssetWriter:
    """An asset fetched from a folder of packages into an empty cache."""

    name = "pebbles"

    def __init__(self) -> None:
        from attnlab.assets import archive, catalogue, fetch, registry
        from tests.assets import packing

        entries = packing.entries()
        catalogue.catalogue = fetch.catalogue = lambda: entries
        self.packing, self.loaded = packing, (archive, registry)

    def before(self, folder: Path) -> None:
        (folder / "wheels").mkdir()
        for name, data in self.packing.PACKAGES.items():
            (folder / "wheels" / name).write_bytes(data)
        os.environ.update(
            PIP_FIND_LINKS=str(folder / "wheels"), PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull
        )
        self.work(folder / "whole")  # what is loaded late is loaded now
        self.digest = self._digest()

    def fresh(self, folder: Path, number: int) -> Path:
        return folder / f"case-{number}"

    def work(self, own: Path) -> None:
        from attnlab import assets

        os.environ["ATTNLAB_CACHE"] = str(own)
        assets.get(self.name)

    def judge(self, own: Path) -> str:
        os.environ["ATTNLAB_CACHE"] = str(own)
        if wrong := self._wrong():
            return wrong
        self.work(own)
        if wrong := self._wrong():
            return f"after the same command: {wrong}"
        return "" if self._digest() == self.digest else "other bytes"

    def _wrong(self) -> str:
        from attnlab import assets

        for each in assets.listing():
            if each.state == "damaged" or (
                each.state == "cached" and assets.verify(each.entry.name)
            ):
                return f"{each.entry.name} is {each.state}"
        return ""

    def _digest(self) -> str:
        from attnlab import assets

        data = b"".join(f.name.encode() + f.read_bytes() for f in assets.get(self.name).files)
        return hashlib.sha256(data).hexdigest()


class PlainWriter:
    """What people write: open, dump. Killed in the middle it is gone. A planted fault."""

    value: ClassVar = {"kept": list(range(997))}

    def before(self, folder: Path) -> None:
        (folder / "start.json").write_text(json.dumps({"kept": []}))

    def fresh(self, folder: Path, number: int) -> Path:
        own = folder / f"case-{number}"
        own.mkdir()
        shutil.copy(folder / "start.json", own / "value.json")
        return own

    def work(self, own: Path) -> None:
        with open(own / "value.json", "w") as file:
            json.dump(self.value, file)

    def judge(self, own: Path) -> str:
        try:
            json.loads((own / "value.json").read_text())
        except ValueError:
            return "neither old nor new"
        return ""


class HastyWriter(PlainWriter):
    """Beside and renamed, but nothing is brought to the disk: a planted fault of order."""

    def work(self, own: Path) -> None:
        (own / "new").write_text(json.dumps(self.value))
        os.rename(own / "new", own / "value.json")


WRITERS: dict[str, Any] = {
    "run": RunWriter,
    "report": ReportWriter,
    "checkpoint": CheckpointWriter,
    "asset": AssetWriter,
    "plain": PlainWriter,
    "hasty": HastyWriter,
}
