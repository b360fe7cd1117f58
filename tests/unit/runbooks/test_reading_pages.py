"""Pages are read with all their mistakes, each with its line."""

import pytest

from rlctl.errors import InvalidFile
from rlctl.runbooks.catalog import all_shipped, find
from rlctl.runbooks.page.load import read_page
from rlctl.runbooks.page.model import Fault, PageSection, Risk, StepCondition
from rlctl.topology.model import Kind

FRONT = """\
---
id: RB-90
title: A page
severity: s2
mode: cluster
risk: mutate
owner: us
servers: [any]
symptoms: [it hurts]
findings: []
error_codes: []
causes: []
drills: []
time_to_mitigate: 1m
escalate_after: 5m
rehearsals:
  - {fault: scripts-flushed, kinds: [cluster]}
---
"""
BODY = """\
# RB-90 A page

## Symptom
It hurts.

## Effect on limiting
Over-admits.

## Stop the bleeding
Nothing.

## First three commands
**`look`** (read)
```sh id=look risk=read expect-exit=0,11 sets="RL_NODE=nodes[0].name; RL_SHARD=nodes[0].shard"
rlctl status -o json
```
**`doctor`** (read)
```sh id=doctor risk=read expect-exit=0,11,12
rlctl doctor -o json
```
**`history`** (read)
```sh id=history risk=read
rlctl history -o json
```

## Decide
| What the output says | Go to |
|---|---|
| a node is ill | `fix` |
| many are | RB-04 |

## Fix
Mend it.
All of it:

**`fix`** (mutate, only cluster)
```sh id=fix risk=mutate when="look: findings[?code=='x']" timeout=2m only=cluster
rlctl deploy --yes -o json
```

## Verify
Nothing is ill:

**`well`** (read)
```sh id=well risk=read expect="state=='healthy'"
rlctl status -o json
```

## Undo
**`unfence`** (mutate, `$RL_NODE` from `look`)
```sh id=unfence risk=mutate
rlctl unfence $RL_NODE --yes -o json
```

## Escalate
To nobody.

## Afterwards
Sleep.

## Background
None.
"""
NAME = "RB-90-a-page.md"


def mistakes(front: str = FRONT, body: str = BODY, name: str = NAME) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        read_page(front + body, name)
    return caught.value.message.splitlines()


@pytest.mark.parametrize("language", ["", "text"])
def test_a_block_without_attributes_is_for_the_reader(language: str) -> None:
    shown = f"Mend it.\n```{language}\ntwo nodes answered\n```\n"
    page = read_page(FRONT + BODY.replace("Mend it.\n", shown), NAME)
    assert [step.id for step in page.steps] == ["look", "doctor", "history", "fix", "well", "unfence"]


def test_a_page_that_is_well() -> None:
    page = read_page(FRONT + BODY, NAME)
    assert (page.id, page.slug, page.name, page.kinds) == ("RB-90", "a-page", "RB-90-a-page", (Kind.CLUSTER,))
    assert page.rehearsals[0].fault is Fault.SCRIPTS_FLUSHED
    assert (page.mitigate_ms, page.escalate_after_ms) == (60_000, 300_000)
    assert page.sections[PageSection.SYMPTOM] == "It hurts."
    assert [step.id for step in page.steps] == ["look", "doctor", "history", "fix", "well", "unfence"]
    look, _doctor, _history, fix, well, _unfence = page.steps
    assert look.exits == {0, 11}
    assert look.sets == {"RL_NODE": "nodes[0].name", "RL_SHARD": "nodes[0].shard"}
    assert (fix.risk, fix.timeout_ms, fix.only) == (Risk.MUTATE, 120_000, Kind.CLUSTER)
    assert fix.when == StepCondition(step="look", query="findings[?code=='x']")
    assert well.expect == "state=='healthy'"
    assert (fix.prose, well.prose, look.prose) == ("Mend it. All of it:", "Nothing is ill:", "")
    assert [(one.says, one.go_to) for one in page.decisions] == [("a node is ill", "fix"), ("many are", "RB-04")]
    assert page.steps_for(Kind.SENTINEL) == (*page.steps[:3], *page.steps[4:])
    assert page.risk is Risk.MUTATE


@pytest.mark.parametrize(
    ("before", "after", "mistake"),
    [
        ("id: RB-90", "id: RB-9", "RB-90-a-page.md:2: id: `RB-9` is not valid; write RB- and two digits"),
        ("severity: s2", "severity: s9", "RB-90-a-page.md:4: severity: `s9` is not known; write one of s1, s2, s3"),
        ("causes: []\n", "", "RB-90-a-page.md:2: `causes` is missing"),
        ("owner: us", "owner: us\nalerts: []", "RB-90-a-page.md:8: the key `alerts` is unknown; known are"),
        ("scripts-flushed", "meteor", "RB-90-a-page.md:17: fault: `meteor` is not known; write one of"),
        (
            "kinds: [cluster]}",
            "kinds: [sentinel]}",
            ":16: rehearsals: their kinds must be exactly the kinds of mode cluster",
        ),
        ("mode: cluster", "mode: both", ":16: rehearsals: their kinds must be exactly the kinds of mode both"),
        ("mode: cluster", "mode: ring", ":5: mode: `ring` is not known; write one of cluster, sentinel, both"),
        ("risk: mutate", "risk: read", ":1: risk: the highest risk of the steps is mutate, not read"),
        ("kinds: [cluster]}", "kinds: [cluster], drill: crash}", ":16: rehearsals: add crash to `drills` too"),
        ("kinds: [cluster]}", "kinds: [cluster], mended_before: x}", "mended_before: there is no step x"),
    ],
)
def test_mistakes_in_the_front_matter(before: str, after: str, mistake: str) -> None:
    assert before in FRONT
    [found] = mistakes(front=FRONT.replace(before, after, 1))
    assert mistake in found


@pytest.mark.parametrize(
    ("before", "after", "mistake"),
    [
        ("# RB-90 A page", "# RB-90 Another", ":19: the headings are, in this order"),
        ("## Undo\n", "", "expected here: `## Undo`"),
        ("## Verify\n", "## Check\n", "expected here: `## Verify`"),
        ("\nIt hurts.", "", ":21: Symptom is empty"),
        ("id=look", "id=Look", "id: `Look` is not an id"),
        ("id=doctor", "id=look", "look: the id is given twice"),
        ("risk=read\n", "risk=some\n", "risk: `some` is not a risk"),
        ("expect-exit=0,11 ", "expect-exit=0,x ", "expect-exit: write exit codes"),
        ("timeout=2m", "timeout=2", "timeout: `2` has no unit"),
        ("timeout=2m", "patience=2m", "`patience=2m` is not an attribute"),
        ("only=cluster", "only=ring", "only: `ring` is not a kind of fleet"),
        ('when="look: ', 'when="', "when: write `STEP: EXPRESSION`"),
        ('when="look: ', 'when="well: ', "fix: when: no step well comes before it"),
        ("rlctl status -o json\n```\n**`doctor`", "rlctl status\n```\n**`doctor`", "look does not print JSON"),
        (
            "**`fix`** (mutate, only cluster)\n",
            "",
            "fix: the line before it must be: **`fix`** (mutate, only cluster)",
        ),
        ("id=look risk=read", "id=look risk=danger", "look: the paragraph above must say what may be lost"),
        ("Nothing is ill:\n", "", "well: the paragraph above must say what a good answer looks like"),
        ("**`fix`** (mutate, only cluster)\n", "**`fix`** (mutate)\n", "fix: the line before it must be"),
        ("findings[?code=='x']", "findings[?", "when: not a JMESPath expression"),
        ("state=='healthy'", "!findings[?code]", "`!` negates only the first word"),
        ("RL_NODE=", "RL_FLEET=", "sets: `RL_FLEET` cannot be set"),
        ("unfence $RL_NODE", "unfence $RL_OTHER", "unfence: no step before it sets $RL_OTHER"),
        ("rlctl unfence $RL_NODE --yes", "rlctl unfence $RL_NODE", "the command needs --yes"),
        ("deploy --yes", "deploy --confirm x", "risk=danger needs --confirm"),
        ("rlctl history", "rlctl destroy", "this command changes something"),
        ("rlctl history", "rlctl env", "this command prints secrets"),
        ("rlctl history -o json", "rlctl -o json env", "write the command's name first"),
        (
            "id=well risk=read expect=\"state=='healthy'\"",
            "id=well risk=read only=sentinel",
            "a check without a condition must show recovery on cluster",
        ),
        (
            "id=well risk=read",
            'id=well risk=read when="look: state"',
            "Verify: a check without a condition must show recovery on cluster",
        ),
        ("rlctl history -o json", "rlctl history\nrlctl status", "a block must have one command of rlctl, on one line"),
        ("rlctl history -o json", "redis-cli info", "a block must have one command of rlctl, on one line"),
        ("rlctl history -o json", "rlctl history 'x", "the command cannot be split into words"),
        ("```sh id=history risk=read\n", "```sh\n", "this command would never run"),
        ("```sh id=history risk=read\nrlctl history -o json\n```\n", "", "First three commands: there are 2"),
        ("id=well risk=read", "id=well risk=mutate", "well: Verify must only read"),
        ("| many are | RB-04 |\n", "", "needs a table of two rows or more"),
        ("| many are | RB-04 |", "| many are | pray |", "a row must end with a `step`, a page"),
        ("| many are | RB-04 |", "| many are | `pray` |", "Decide: there is no step pray"),
        ("| a node is ill | `fix` |", "| a node is ill | `look` |", "fix: has a condition"),
    ],
)
def test_mistakes_in_the_text(before: str, after: str, mistake: str) -> None:
    assert before in BODY
    found = mistakes(body=BODY.replace(before, after, 1))
    assert any(mistake in line for line in found), found


@pytest.mark.parametrize("name", ["RB-91-a-page.md", "page.md", "RB-90.md", "RB-90-A.md"])
def test_the_file_is_called_after_the_page(name: str) -> None:
    assert mistakes(name=name) == [f"{name}:1: the file of RB-90 must have a name such as RB-90-what-it-is.md"]


@pytest.mark.parametrize("text", ["", "# RB-90 A page\n", "---\nid: RB-90\n"])
def test_a_page_without_front_matter(text: str) -> None:
    with pytest.raises(InvalidFile, match="a page begins with front matter"):
        read_page(text, NAME)


@pytest.mark.parametrize("page", all_shipped(), ids=lambda page: page.id)
def test_a_page_without_any_one_line_is_refused_or_still_a_page(page: object) -> None:
    """Whatever line is lost, reading ends in a page or in a named mistake."""
    shipped = next(one for one in all_shipped() if one == page)
    from rlctl.assets import asset_folder  # noqa: PLC0415

    lines = (asset_folder("runbooks") / shipped.source).read_text(encoding="utf-8").splitlines()
    for number in range(len(lines)):
        try:
            read_page("\n".join(lines[:number] + lines[number + 1 :]), shipped.source)
        except InvalidFile as failure:
            assert failure.message.startswith(f"{shipped.source}:")  # noqa: PT017


@pytest.mark.parametrize("name", ["RB-01", "rb-01", "primary-down", "RB-01-primary-down"])
def test_pages_are_found_by_any_of_their_names(name: str) -> None:
    assert find(name).id == "RB-01"
