"""The command blocks of a page: attributes and one command each. Pure."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.units import parse_duration
from rlctl.runbooks.page import jmespath
from rlctl.runbooks.page.model import PageSection, Risk, Step, StepCondition
from rlctl.topology.model import Kind

# Variables of every page: the fleet's name, the folder of its topology file, and how long an election may take.
FLEET, FOLDER, ELECTION = "RL_FLEET", "RL_DIR", "RL_ELECTION"
FIXED_VARIABLES = frozenset({FLEET, FOLDER, ELECTION})
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})\s*(?P<info>.*)")
_STEP_ID = re.compile(r"[a-z][a-z0-9-]*")
_NAME = re.compile(r"RL_[A-Z][A-Z_]*")
_ATTRIBUTES = ("id", "risk", "expect-exit", "expect", "timeout", "when", "only", "sets")
# Commands that only read. With --dry-run or --peek, every command only reads.
_READ_COMMANDS = frozenset(
    {
        *("status", "doctor", "history", "capacity measure", "capacity plan", "capacity predict"),
        *("scripts list", "scripts plan", "scripts status", "scripts verify", "scripts history"),
        *("rules plan", "rules status", "rules explain", "failover-drill list", "failover-drill show"),
    }
)
_READ_ONLY_OPTIONS = frozenset({"--dry-run", "--peek"})
_AGREEING_OPTIONS = frozenset({"--yes", "--confirm"})
# Commands that print secrets, which a transcript must not contain.
_PRINTS_SECRETS = frozenset({"env", "secrets"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its line number, the text after the opening fence, and its lines."""

    line: int
    info: str
    content: tuple[str, ...]


def fenced(lines: list[tuple[int, str]]) -> tuple[list[Block], list[tuple[int, str]]]:
    """Split numbered lines into fenced blocks and the lines outside of them."""
    blocks: list[Block] = []
    outside: list[tuple[int, str]] = []
    rest = iter(lines)
    for number, line in rest:
        opening = _FENCE.match(line)
        if opening is None:
            outside.append((number, line))
            continue
        content = []
        for _number, inner in rest:
            if inner.strip() == opening["fence"]:
                break
            content.append(inner)
        blocks.append(Block(line=number, info=opening["info"], content=tuple(content)))
    return blocks, outside


def read_step(block: Block, section: PageSection, mistakes: Mistakes) -> Step | None:
    """Read a block as a step, and collect its mistakes; None for a block without attributes."""
    attributes = _attributes(block, mistakes)
    command = " ".join(line.strip() for line in block.content).strip()
    if attributes is None:
        if command.startswith("rlctl "):
            mistakes.add(block.line, "this command would never run: give the block an id and a risk")
        return None
    reading = _AttributeReader(block.line, attributes, mistakes)
    if len(block.content) != 1 or not command.startswith("rlctl "):
        mistakes.add(block.line, "a block must have one command of rlctl, on one line")
        return None
    step = Step(
        id=reading.id(),
        section=section,
        line=block.line,
        command=command,
        risk=reading.risk(),
        exits=reading.exits(),
        expect=reading.expression("expect"),
        timeout_ms=reading.timeout_ms(),
        when=reading.when(),
        only=reading.only(),
        sets=reading.sets(),
    )
    for wrong in _mistakes_in(step):
        mistakes.add(block.line, f"{step.id}: {wrong}")
    return step


def words(command: str) -> list[str]:
    """Split a command as a shell would."""
    return shlex.split(command)


def variables(command: str) -> list[str]:
    """Names of the variables in a command."""
    return [braced or bare for braced, bare in VARIABLE.findall(command)]


def filled(command: str, values: Mapping[str, str]) -> str:
    """Replace the known variables of a command with their values, quoted for a shell; keep unknown variables."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return shlex.quote(values[name]) if name in values else found[0]

    return VARIABLE.sub(value, command)


def _attributes(block: Block, mistakes: Mistakes) -> dict[str, str] | None:
    try:
        _language, *pairs = shlex.split(block.info) or [""]
    except ValueError as failure:
        mistakes.add(block.line, f"the block's attributes cannot be read: {failure}")
        return None
    if not pairs:
        return None
    found: dict[str, str] = {}
    for pair in pairs:
        key, is_given, value = pair.partition("=")
        if key not in _ATTRIBUTES or not is_given or key in found:
            mistakes.add(
                block.line, f"{shown(pair)} is not an attribute, or is repeated; known are {', '.join(_ATTRIBUTES)}"
            )
        found[key] = value
    return found


class _AttributeReader:
    """Reads the attributes of one block."""

    def __init__(self, line: int, attributes: Mapping[str, str], mistakes: Mistakes) -> None:
        self._line = line
        self._attributes = attributes
        self._mistakes = mistakes

    def id(self) -> str:
        found = self._attributes.get("id", "")
        if not _STEP_ID.fullmatch(found):
            self._wrong(f"id: {shown(found)} is not an id; write a lower-case word")
        return found

    def risk(self) -> Risk:
        found = self._attributes.get("risk", "")
        if found not in set(Risk):
            self._wrong(f"risk: {shown(found)} is not a risk; write one of {', '.join(Risk)}")
            return Risk.DANGER
        return Risk(found)

    def exits(self) -> frozenset[int]:
        codes = self._attributes.get("expect-exit", "0").split(",")
        if not all(code.isdigit() for code in codes):
            self._wrong("expect-exit: write exit codes, such as 0,11")
            return frozenset()
        return frozenset(map(int, codes))

    def timeout_ms(self) -> int:
        try:
            return parse_duration(self._attributes.get("timeout", "60s"))
        except ValueError as failure:
            self._wrong(f"timeout: {failure}")
            return 0

    def expression(self, key: str) -> str | None:
        found = self._attributes.get(key)
        if found is not None:
            self._check(key, found)
        return found

    def when(self) -> StepCondition | None:
        found = self._attributes.get("when")
        if found is None:
            return None
        step, colon, expression = found.partition(":")
        if not colon:
            self._wrong("when: write `STEP: EXPRESSION`")
        self._check("when", expression.strip())
        return StepCondition(step=step.strip(), query=expression.strip())

    def only(self) -> Kind | None:
        found = self._attributes.get("only")
        if found is not None and found not in set(Kind):
            self._wrong(f"only: {shown(found)} is not a kind of fleet")
            return None
        return None if found is None else Kind(found)

    def sets(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in filter(None, self._attributes.get("sets", "").split(";")):
            name, _, expression = (word.strip() for word in part.partition("="))
            if not _NAME.fullmatch(name) or name in FIXED_VARIABLES:
                self._wrong(f"sets: {shown(name)} cannot be set; names are like RL_NODE")
            self._check("sets", expression)
            found[name] = expression
        return found

    def _check(self, key: str, expression: str) -> None:
        if wrong := jmespath.why_invalid(expression):
            self._wrong(f"{key}: {wrong}")

    def _wrong(self, text: str) -> None:
        self._mistakes.add(self._line, text)


def _mistakes_in(step: Step) -> list[str]:
    """What is wrong with a step's command."""
    try:
        arguments = words(step.command)[1:]
    except ValueError as failure:
        return [f"the command cannot be split into words: {failure}"]
    wrong = []
    if arguments[:1] and arguments[0].startswith("-"):
        wrong.append("write the command's name first, then its options")
    if arguments[:1] and arguments[0] in _PRINTS_SECRETS:
        wrong.append("this command prints secrets, which the transcript would keep")
    if not step.mutates and not _only_reads(arguments):
        wrong.append("this command changes something, but has risk=read")
    if step.mutates and not _AGREEING_OPTIONS & set(arguments):
        wrong.append("a page cannot ask the operator: the command needs --yes, or --confirm if data can be lost")
    if ("--confirm" in arguments) != (step.risk is Risk.DANGER):
        wrong.append("risk=danger needs --confirm, and other risks must not have --confirm")
    if (step.expect or step.sets) and not _is_json(arguments):
        wrong.append("expect and sets read JSON: the command needs -o json")
    return wrong


def _only_reads(arguments: list[str]) -> bool:
    plain = [word for word in arguments if not word.startswith("-")]
    return bool(_READ_ONLY_OPTIONS & set(arguments)) or bool(
        {" ".join(plain[:2]), " ".join(plain[:1])} & _READ_COMMANDS
    )


def _is_json(arguments: list[str]) -> bool:
    return any(pair == ("-o", "json") for pair in pairwise(arguments))
