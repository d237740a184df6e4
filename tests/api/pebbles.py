"""A built-in study for one test, its runs made in this process, and a document that asks it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attnlab.api import answers
from attnlab.api.conclude import conclude
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import Source, load_study_class
from attnlab.studies import STUDIES

MODULE = "pebble_study_of_the_answers"
CODE = """
from attnlab import Outcome, Study, judge
from attnlab.lab.study import StudySettings
from attnlab.measure.intervals import mean_interval


class PebbleSettings(StudySettings):
    size: int = 5


class Pebbles(Study):
    name = "pebbles"
    question = "Are pebbles round?"
    Settings = PebbleSettings

    def trials(self):
        return [self.trial(seed, size=self.settings.size) for seed in range(self.settings.seeds)]

    def run(self, trial, context):
        return Outcome({"roundness": 1 + 0.01 * trial.seed})

    def claims(self, table):
        ours = mean_interval(table.column("roundness"))
        return [judge("round", "Pebbles are round", ours, above=0.9),
                judge("square", "Pebbles are square", ours, above=2.0),
                judge("other", "Nobody asked this", ours, above=3.0)]
"""
PAGE = """# 7. Stones
What stones are like; see [the log](../../LOG.md).

## 1a. Are pebbles round?
**Question.** Are they round or *not*?

**Answer.** Yes, all of them, as `attnlab run pebbles` says and as anybody who was at a beach
has seen.

**Reported.** 0.97.

**Ours.** 1.01 ± 0.02; in [results](../results/knowledge.md).

| size | roundness |
|---|---|
| 5 | 1.01 |

**Evidence.** study `pebbles`: claims `round`, `square` (fails, as it must); audit `light`.

**Reproduce.** `attnlab run pebbles`:

```python
## 1b. Not a heading
print("**Answer.** neither")
```

## Q1.b. Why?
**Question.** Why?

**Answer.** By definition.
"""


def stones() -> answers.Document:
    """The document of PAGE."""
    return answers.parse_page(7, "stones", PAGE)


@contextmanager
def built_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The study is built in as long as the block lasts; gives its file."""
    home = folder / "stones"
    home.mkdir()
    file = home / f"{MODULE}.py"
    file.write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setitem(STUDIES, "pebbles", f"{MODULE}:Pebbles")
    try:
        yield file
    finally:
        sys.modules.pop(MODULE, None)


def make_run(out: Path, scale: str = "quick", *, finish: bool = True, **settings: Any) -> str:
    """A run of the study in `out`; returns its name."""
    study = load_study_class("pebbles").at(scale, device="cpu", **settings)
    record = Record.create_or_open(out, Plan.of(study, Source("pebbles"), scale))
    with record.lock():
        for trial in study.trials() if finish else ():
            context: Any = None
            record.add(trial, "done", study.run(trial, context))
        if finish:
            conclude(record, study)
        else:
            record.seal(complete=False)
    return record.name
