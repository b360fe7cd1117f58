"""Builds the indexes of the runbooks: README.md by symptom for people, answers.json by code for rlctl.

A test compares both with the pages. To write them again: `.venv/bin/python -m tests.unit.runbooks.index`.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlctl.runbooks.answers import FILE_NAME
from rlctl.runbooks.catalog import all_shipped
from rlctl.runbooks.page.model import Runbook

FOLDER = Path(__file__).parents[3] / "runbooks"

_HEAD = """\
# Runbooks

This folder has the pages for incidents of a fleet that holds rate limits. Each page leads from a symptom to health with
commands of `rlctl` only. `rlctl runbook test` rehearses each page: it causes the fault and runs the page.

```sh
export RLCTL_TOPOLOGY=/path/to/topology.yaml
rlctl status                  # step 0 of every page: a finding names its page if there is one
rlctl runbook show RB-01      # shows a page, with the fleet's name in its commands
rlctl runbook run RB-01       # runs a page; asks before each step that changes something
```

The commands of the pages print JSON for `rlctl runbook run`; without `-o json` they print tables.
`$RL_FLEET` is the fleet's name, `$RL_DIR` the folder of its topology file, and `$RL_ELECTION` the longest time of an
election. Other `$RL_...` variables come from the output of an earlier step. `rlctl runbook run` fills in all of them.

## Symptoms
"""


def index(pages: Sequence[Runbook]) -> str:
    """Return the whole file."""
    return "\n".join([_HEAD, *_symptoms(pages), "", *_findings(pages), "", *_pages(pages), "", *_new_page()]) + "\n"


def answers(pages: Sequence[Runbook]) -> str:
    """Return the whole file that rlctl reads."""
    found = {
        "findings": {code: page.id for page in pages for code in page.findings},
        "error_codes": {code: page.id for page in pages for code in page.error_codes},
        "causes": {str(cause): page.id for page in pages for cause in page.causes},
    }
    return json.dumps(found, indent=2) + "\n"


def _symptoms(pages: Sequence[Runbook]) -> Iterator[str]:
    yield "| Symptom | Page |"
    yield "|---|---|"
    for page in pages:
        for symptom in page.symptoms:
            yield f"| {symptom} | {_link(page)} |"


def _findings(pages: Sequence[Runbook]) -> Iterator[str]:
    yield "## Findings, errors and causes"
    yield ""
    yield "| Finding of `status` or `doctor`, error, or cause of a fallback | Page |"
    yield "|---|---|"
    for page in pages:
        for word in (*page.findings, *page.error_codes, *page.causes):
            yield f"| `{word}` | {_link(page)} |"


def _pages(pages: Sequence[Runbook]) -> Iterator[str]:
    yield "## All pages"
    yield ""
    yield "| Page | Severity | Fleets | Greatest risk | Drill that shows it |"
    yield "|---|---|---|---|---|"
    for page in pages:
        drills = ", ".join(f"`{drill}`" for drill in page.drills) or "-"
        yield f"| {_link(page)} {page.title} | {page.severity} | {', '.join(page.kinds)} | {page.risk} | {drills} |"


def _new_page() -> Iterator[str]:
    yield "## A page of your own"
    yield ""
    yield "Copy a page, keep its headings and their order, and name the file `RB-nn-what-it-is.md`."
    yield "`rlctl runbook show FILE` names every mistake in it with its line."
    yield "`rlctl runbook test FILE` runs the page from each of its faults to health, and again without each step"
    yield "that changes something. If the fleet recovers without a step, the step is dead and fails the page. A step"
    yield "that can lose data must be necessary after every fault for which the page runs it."
    yield ""
    yield "`servers` are the servers that the page was rehearsed on. `risk` must match the steps, and `mode` the"
    yield "rehearsals. A rehearsal names the drill that shows what its fault does to counters and clients, if there is"
    yield "one. Pages cannot name alerts yet. `rlctl runbook test` prints the seconds to recovery, and writes nothing"
    yield "into pages."


def _link(page: Runbook) -> str:
    return f"[{page.id}]({page.name}.md)"


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(index(all_shipped()), encoding="utf-8")
    (FOLDER / FILE_NAME).write_text(answers(all_shipped()), encoding="utf-8")
