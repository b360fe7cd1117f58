"""The rules of a plan from a rules file: of each its algorithm, its numbers and how long its keys are. Pure."""

import re
from collections.abc import Mapping

from rlctl.capacity.parse_request import Asking
from rlctl.capacity.request import Question
from rlctl.errors import NotFound, UsageFault
from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.units import format_duration
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.limits.keys import key_end
from rlctl.limits.match import PLACE
from rlctl.limits.rule import Definition
from rlctl.rules.load import RulesFile, load_rules

# How many bytes a value in a key template is taken to have: an address, an API key's id.
ASSUMED_VALUE_BYTES = 16
# The options of `capacity predict` that say what a script's parameters say.
_OPTIONS = {
    "capacity": "limit",
    "burst": "limit",
    "limit": "limit",
    "rate": "rate",
    "period_ms": "period",
    "window_ms": "window",
    "lease_ms": "window",
}


def parse_users(words: tuple[str, ...]) -> dict[str, int]:
    """`RULE=N`, several times."""
    found = {}
    for word in words:
        rule, _, number = word.rpartition("=")
        if not rule or not re.fullmatch(r"[1-9][0-9]{0,12}", number):
            raise UsageFault(f"--users: {shown(word)} is not RULE=N", hint="such as --users api-per-key=1000000")
        found[rule] = int(number)
    return found


def read_rules(
    text: bytes, path: str, users: Mapping[str, int], asking: Asking, given: Mapping[str, object]
) -> tuple[Question, ...]:
    """A question for each rule that users are named for; InvalidFile and NotFound say what is wrong."""
    file = load_rules(text, path)
    known = [definition.id for definition in file.definitions]
    if missing := [name for name in users if name not in known]:
        raise NotFound(f"{path}: no rule {', '.join(missing)}", hint=f"there are {', '.join(known)}")
    if unnamed := [name for name in known if name not in users]:
        raise UsageFault(f"how many users has {unnamed[0]}?", hint=f"--users {unnamed[0]}=N")
    return tuple(_question(rule, file, users[rule.id], asking, given) for rule in file.definitions)


def _question(rule: Definition, file: RulesFile, users: int, asking: Asking, given: Mapping[str, object]) -> Question:
    values: dict[str, object] = {
        "algorithm": rule.algorithm,
        "users": users,
        "key_length": _key_length(rule, asking.states[rule.algorithm]),
    }
    for name, value in rule.parameters.items():
        if name in _OPTIONS:
            values[_OPTIONS[name]] = format_duration(value) if name.endswith("_ms") else value
    try:
        return asking.question(dict(given) | values)
    except UsageFault as failure:
        Mistakes(file.path).stop(file.lines[rule.id], f"rule {shown(rule.id)}: {failure.message}")


def _key_length(rule: Definition, state: int) -> int:
    """With the longest template where there are several."""
    longest = max(len(PLACE.sub("x" * ASSUMED_VALUE_BYTES, text).encode()) for text in rule.keys)
    return len("rl:{") + longest + len(key_end(ALGORITHMS[rule.algorithm](**rule.parameters), rule.id, state))
