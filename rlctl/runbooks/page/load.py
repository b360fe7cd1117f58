"""Reads a page into a Runbook, or reports every mistake with its line. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePath

from rlctl.files.mistakes import Mistakes, shown
from rlctl.runbooks.page.blocks import FIXED_VARIABLES, fenced, read_step, variables
from rlctl.runbooks.page.front_matter import FrontMatter, read_front
from rlctl.runbooks.page.model import DecideRow, PageSection, Risk, Runbook, Step

ESCALATE = "escalate"
FIRST_COMMANDS = 3
_FENCE_LINE = "---"
_FILE = re.compile(r"(?P<id>RB-[0-9]{2})-(?P<slug>[a-z0-9]+(?:-[a-z0-9]+)*)\.md")
_ROW = re.compile(r"\|(?P<says>.+)\|(?P<go_to>[^|]+)\|\s*")
_TARGET = re.compile(r"`(?P<step>[a-z][a-z0-9-]*)`|(?P<page>RB-[0-9]{2})|(?P<escalate>escalate)")
_PAGE_ID = re.compile(r"RB-[0-9]{2}")
_HINT = "`rlctl runbook show RB-01` shows a page that works"
_READ_ONLY_SECTIONS = frozenset({PageSection.LOOK, PageSection.VERIFY})
Lines = list[tuple[int, str]]


def read_page(source: str, path: str) -> Runbook:
    """Read and check a page; InvalidFile lists every mistake as `path:line: ...`."""
    mistakes = Mistakes(path, hint=_HINT)
    lines = source.splitlines()
    if lines[:1] != [_FENCE_LINE] or _FENCE_LINE not in lines[1:]:
        mistakes.stop(1, f"a page begins with front matter between two lines `{_FENCE_LINE}`")
    end = lines.index(_FENCE_LINE, 1)
    front = read_front("\n".join(["", *lines[1:end]]) + "\n", mistakes)
    body = list(enumerate(lines[end + 1 :], start=end + 2))
    slug = _slug(front, path, mistakes)
    sections = _sections(front, body, mistakes)
    steps, decisions = _steps(sections, mistakes), _decisions(sections, mistakes)
    for line, text in (*_wrong_steps(front, steps), *_wrong_decisions(steps, decisions)):
        mistakes.add(line, text)
    mistakes.raise_any()
    return Runbook(
        id=front.id,
        slug=slug,
        title=front.title,
        severity=front.severity,
        kinds=front.mode.kinds,
        owner=front.owner,
        servers=front.lists["servers"],
        symptoms=front.lists["symptoms"],
        findings=front.lists["findings"],
        error_codes=front.lists["error_codes"],
        causes=front.lists["causes"],
        drills=front.lists["drills"],
        mitigate_ms=front.mitigate_ms,
        escalate_after_ms=front.escalate_after_ms,
        rehearsals=front.rehearsals,
        sections={section: "\n".join(line for _, line in found).strip() for section, found in sections.items()},
        steps=steps,
        decisions=decisions,
        text="\n".join(lines[end + 1 :]).strip() + "\n",
        source=path,
    )


def _slug(front: FrontMatter, path: str, mistakes: Mistakes) -> str:
    found = _FILE.fullmatch(PurePath(path).name)
    if found is None or found["id"] != front.id:
        mistakes.add(1, f"the file of {front.id} must have a name such as {front.id}-what-it-is.md")
    return found["slug"] if found else ""


def _sections(front: FrontMatter, body: Lines, mistakes: Mistakes) -> dict[PageSection, Lines]:
    """The text under each heading; the headings and their order are fixed."""
    heads = [(position, number, line) for position, (number, line) in enumerate(body) if re.match(r"#{1,2} ", line)]
    wanted = [f"# {front.id} {front.title}", *(f"## {section}" for section in PageSection)]
    found_heads = [line for _, _, line in heads]
    if found_heads != wanted:
        right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(found_heads, wanted, strict=False)))
        number = heads[min(right, len(heads) - 1)][1] if heads else 1
        belongs = shown(wanted[min(right, len(wanted) - 1)])
        mistakes.stop(number, f"the headings are, in this order: {', '.join(PageSection)}; expected here: {belongs}")
    ends = [position for position, _, _ in heads[2:]] + [len(body)]
    found = {section: body[head[0] + 1 : end] for section, head, end in zip(PageSection, heads[1:], ends, strict=True)}
    for (section, lines), head in zip(found.items(), heads[1:], strict=True):
        if not any(line.strip() for _, line in lines):
            mistakes.add(head[1], f"{section} is empty")
    return found


def _steps(sections: Mapping[PageSection, Lines], mistakes: Mistakes) -> tuple[Step, ...]:
    found: list[Step] = []
    for section, lines in sections.items():
        blocks, outside = fenced(lines)
        for block in blocks:
            step = read_step(block, section, mistakes)
            if step is None:
                continue
            *before, last = [line for number, line in outside if number < block.line] or [""]
            if last != label(step, found):
                mistakes.add(block.line, f"{step.id}: the line before it must be: {label(step, found)}")
            prose = _last_paragraph(before)
            if step.risk is Risk.DANGER and not prose:
                mistakes.add(
                    block.line,
                    f"{step.id}: the paragraph above must say what may be lost",
                )
            if section is PageSection.VERIFY and not prose:
                mistakes.add(block.line, f"{step.id}: the paragraph above must say what a good answer looks like")
            found.append(replace(step, prose=prose))
    return tuple(found)


def _last_paragraph(lines: Sequence[str]) -> str:
    """The last paragraph before a step, in one line."""
    paragraph = "\n".join(lines).strip().rpartition("\n\n")[2]
    return "" if paragraph.startswith("**`") else " ".join(paragraph.split())


def label(step: Step, earlier: Sequence[Step]) -> str:
    """The line that a page must have above a command. It shows the attributes, which a rendered page hides."""
    used = variables(step.command)
    sources = [f"`${name}` from `{one.id}`" for one in earlier for name in one.sets if name in used]
    only = [f"only {step.only}"] if step.only else []
    return f"**`{step.id}`** ({', '.join([step.risk, *only, *sources])})"


def _decisions(sections: Mapping[PageSection, Lines], mistakes: Mistakes) -> tuple[DecideRow, ...]:
    """The rows of the table under Decide, without its header row."""
    rows = [(number, row) for number, line in sections[PageSection.DECIDE] if (row := _ROW.fullmatch(line.strip()))]
    found = []
    for number, row in rows[2:]:
        target = _TARGET.search(row["go_to"])
        if target is None:
            mistakes.add(number, "a row must end with a `step`, a page such as RB-04, or escalate")
            continue
        go_to = next(name for name in target.groups() if name)
        found.append(DecideRow(line=number, says=row["says"].strip(), go_to=go_to))
    return tuple(found)


def _wrong_steps(front: FrontMatter, steps: Sequence[Step]) -> Iterator[tuple[int, str]]:
    first = [step for step in steps if step.section is PageSection.LOOK]
    if len(first) != FIRST_COMMANDS:
        yield 1, f"{PageSection.LOOK}: there are {len(first)}"
    checks = [step for step in steps if step.section is PageSection.VERIFY and step.when is None]
    unsure = [kind for kind in front.mode.kinds if not any(step.only in {None, kind} for step in checks)]
    yield from (
        (1, f"{PageSection.VERIFY}: a check without a condition must show recovery on {kind}") for kind in unsure
    )
    greatest = max((step.risk for step in steps), key=list(Risk).index, default=Risk.READ)
    if front.risk is not greatest:
        yield 1, f"risk: the highest risk of the steps is {greatest}, not {front.risk}"
    ids = [step.id for step in steps]
    for step in steps:
        if ids.count(step.id) > 1:
            yield step.line, f"{step.id}: the id is given twice"
        if step.section in _READ_ONLY_SECTIONS and step.mutates:
            yield step.line, f"{step.id}: {step.section} must only read"
        yield from _wrong_references(steps, step)
    for rehearsal in front.rehearsals:
        if rehearsal.mended_before is not None and rehearsal.mended_before not in ids:
            yield 1, f"mended_before: there is no step {rehearsal.mended_before}"


def _wrong_references(steps: Sequence[Step], step: Step) -> Iterator[tuple[int, str]]:
    """Steps may refer only to steps before them."""
    before = steps[: steps.index(step)]
    if step.when is not None:
        source = next((one for one in before if one.id == step.when.step), None)
        if source is None:
            yield step.line, f"{step.id}: when: no step {step.when.step} comes before it"
        elif "-o json" not in source.command:
            yield step.line, f"{step.id}: when: {source.id} does not print JSON"
    known = {*FIXED_VARIABLES, *(name for one in before for name in one.sets)}
    for name in variables(step.command):
        if name not in known:
            yield step.line, f"{step.id}: no step before it sets ${name}"


def _wrong_decisions(steps: Sequence[Step], decisions: Sequence[DecideRow]) -> Iterator[tuple[int, str]]:
    ids = {step.id for step in steps}
    if len(decisions) < 2:
        yield 1, f"{PageSection.DECIDE}: needs a table of two rows or more"
    for decision in decisions:
        if decision.go_to not in ids and decision.go_to != ESCALATE and not _PAGE_ID.fullmatch(decision.go_to):
            yield decision.line, f"{PageSection.DECIDE}: there is no step {decision.go_to}"
    targets = {decision.go_to for decision in decisions}
    for step in steps:
        if step.when is not None and step.section in {PageSection.STOP, PageSection.FIX} and step.id not in targets:
            yield step.line, f"{step.id}: has a condition, but no row of {PageSection.DECIDE} leads to the step"
