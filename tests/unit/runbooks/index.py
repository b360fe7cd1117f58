"""The index of the pages: runbooks/README.md by symptom for people, runbooks/answers.json by code for rlctl.

A test compares both with the pages; `.venv/bin/python -m tests.unit.runbooks.index` writes them anew.
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

What to do when the fleet that holds the rate limits is in trouble. Each page leads from a symptom to health by commands
of `rlctl` alone, and each is followed by machine from the very fault: `rlctl runbook test`.

```sh
export RLCTL_TOPOLOGY=/path/to/topology.yaml
rlctl status                  # step 0 of every page: a finding names its page where there is one
rlctl runbook show RB-01      # read a page, with the fleet's name filled in
rlctl runbook run RB-01       # have it carried out; asks before each step that changes something
```

The commands on the pages print JSON for the machine that follows them; leave `-o json` away to read a table.
`$RL_FLEET` is the fleet's name, `$RL_DIR` the folder of its topology file, `$RL_ELECTION` how long an election may take
in it; other `$RL_...` come from what an earlier step printed. `rlctl runbook run` fills them in.

## What do you see?
"""


def index(pages: Sequence[Runbook]) -> str:
    """The whole file."""
    return "\n".join([_HEAD, *_symptoms(pages), "", *_findings(pages), "", *_pages(pages), "", *_new_page()]) + "\n"


def answers(pages: Sequence[Runbook]) -> str:
    """The whole file that rlctl reads."""
    found = {
        "findings": {code: page.id for page in pages for code in page.findings},
        "error_codes": {code: page.id for page in pages for code in page.error_codes},
        "causes": {str(cause): page.id for page in pages for cause in page.causes},
    }
    return json.dumps(found, indent=2) + "\n"


def _symptoms(pages: Sequence[Runbook]) -> Iterator[str]:
    yield "| You see | Page |"
    yield "|---|---|"
    for page in pages:
        for symptom in page.symptoms:
            yield f"| {symptom} | {_link(page)} |"


def _findings(pages: Sequence[Runbook]) -> Iterator[str]:
    yield "## What does rlctl say?"
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
    yield "`rlctl runbook test FILE` follows it from each of its faults to health, and again without each step that"
    yield "changes something: a step that nobody misses is dead, and fails the page. One that can lose data has to be"
    yield "missed after every fault after which it was taken."
    yield ""
    yield "`servers` are those that a page was followed on; `risk` is compared with the steps, `mode` with the"
    yield "rehearsals. A rehearsal names the drill that shows what its fault does to counters and clients, if there is"
    yield "one. There are no `alerts` yet that a page could name. When a page was last followed, and in what time, is"
    yield "told by `rlctl runbook test`, which does not write into pages. Background is not folded: terminals cannot"
    yield "unfold it."


def _link(page: Runbook) -> str:
    return f"[{page.id}]({page.name}.md)"


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(index(all_shipped()), encoding="utf-8")
    (FOLDER / FILE_NAME).write_text(answers(all_shipped()), encoding="utf-8")
