"""Makes memory requests from a rules file: algorithm, parameters and key length of each rule. Pure."""

import re
from collections.abc import Mapping

from rlctl.capacity.parse_request import RequestParser
from rlctl.capacity.request import MemoryRequest
from rlctl.errors import NotFound, UsageFault
from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.units import format_duration
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.limits.keys import key_end
from rlctl.limits.match import PLACE
from rlctl.limits.rule import Definition
from rlctl.rules.load import RulesFile, load_rules

# The assumed length of a value in a key template, such as an address or the id of an API key.
ASSUMED_VALUE_BYTES = 16
# The option of `capacity predict` for each parameter of a script.
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
    """Parse words of the form `RULE=N` into the number of users of each rule."""
    found = {}
    for word in words:
        rule, _, number = word.rpartition("=")
        if not rule or not re.fullmatch(r"[1-9][0-9]{0,12}", number):
            raise UsageFault(f"--users: {shown(word)} is not RULE=N", hint="such as --users api-per-key=1000000")
        found[rule] = int(number)
    return found


def read_rules(
    text: bytes, path: str, users: Mapping[str, int], parser: RequestParser, given: Mapping[str, object]
) -> tuple[MemoryRequest, ...]:
    """Make a request for each rule of the file; `users` must have exactly these rules."""
    file = load_rules(text, path)
    known = [definition.id for definition in file.definitions]
    if missing := [name for name in users if name not in known]:
        raise NotFound(f"{path}: the file has no rule {', '.join(missing)}", hint=f"its rules are {', '.join(known)}")
    if unnamed := [name for name in known if name not in users]:
        raise UsageFault(f"--users is missing for rule {unnamed[0]}", hint=f"--users {unnamed[0]}=N")
    return tuple(_request(rule, file, users[rule.id], parser, given) for rule in file.definitions)


def _request(
    rule: Definition, file: RulesFile, users: int, parser: RequestParser, given: Mapping[str, object]
) -> MemoryRequest:
    values: dict[str, object] = {
        "algorithm": rule.algorithm,
        "users": users,
        "key_length": _key_length(rule, parser.states[rule.algorithm]),
    }
    for name, value in rule.parameters.items():
        if name in _OPTIONS:
            values[_OPTIONS[name]] = format_duration(value) if name.endswith("_ms") else value
    try:
        return parser.parse(dict(given) | values)
    except UsageFault as failure:
        Mistakes(file.path).stop(file.lines[rule.id], f"rule {shown(rule.id)}: {failure.message}")


def _key_length(rule: Definition, state: int) -> int:
    """The length in bytes of a key of the rule. If the rule has several templates, the longest counts."""
    longest = max(len(PLACE.sub("x" * ASSUMED_VALUE_BYTES, text).encode()) for text in rule.keys)
    return len("rl:{") + longest + len(key_end(ALGORITHMS[rule.algorithm](**rule.parameters), rule.id, state))
