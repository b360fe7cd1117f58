"""The rules of a plan from a rules file: of each its algorithm, its limit and how long its keys are. Pure."""

import re
from collections.abc import Mapping
from typing import NoReturn

from rlctl.capacity.asking import Asking
from rlctl.capacity.question import Algorithm, Question
from rlctl.errors import NotFound, UsageFault
from rlctl.topology.problems import Mistakes, shown
from rlctl.topology.yaml_lines import Mapping as YamlMapping
from rlctl.topology.yaml_lines import Node, Scalar, Sequence, compose

# How many bytes a value in a key template is taken to have: an address, an API key's id.
ASSUMED_VALUE_BYTES = 16
_PLACE = re.compile(r"\{[^{}]*\}")
_LIMITS = ("limit", "capacity", "burst")
_WINDOWS = ("window", "lease")
_HINT = "a rule has at least `id`, `algorithm`, `limit` and `key`"
_KEYED_BY_WINDOW = {
    Algorithm.FIXED_WINDOW,
    Algorithm.SLIDING_COUNTER,
    Algorithm.ROLLING_WINDOW,
    Algorithm.ROLLING_RING,
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
    mistakes = Mistakes(path, hint=_HINT)
    top = compose(text, mistakes)
    mistakes.raise_any()
    rules = top.entries.get("rules")
    if rules is None or not isinstance(rules.value, Sequence) or not rules.value.items:
        mistakes.stop(top.line, "`rules` is a list that holds something")
    by_id = {_word(rule, "id", mistakes): rule for rule in rules.value.items}
    missing = [name for name in users if name not in by_id]
    if missing:
        raise NotFound(f"{path}: no rule {', '.join(missing)}", hint=f"there are {', '.join(by_id)}")
    if unnamed := [name for name in by_id if name not in users]:
        raise UsageFault(f"how many users has {unnamed[0]}?", hint=f"--users {unnamed[0]}=N")
    return tuple(_question(name, rule, users[name], asking, given, mistakes) for name, rule in by_id.items())


def _question(
    name: str, rule: Node, users: int, asking: Asking, given: Mapping[str, object], mistakes: Mistakes
) -> Question:
    algorithm = _word(rule, "algorithm", mistakes)
    if algorithm not in {one.value for one in Algorithm}:
        words = ", ".join(one.value for one in Algorithm)
        _stop(mistakes, rule, f"{shown(algorithm)} is not one of {words}")
    window = _first(rule, _WINDOWS)
    values: dict[str, object] = {
        "algorithm": algorithm,
        "limit": _first(rule, _LIMITS) or _stop(mistakes, rule, f"rule {shown(name)} has no limit"),
        "users": users,
        "key_length": _key_length(name, rule, algorithm, asking, mistakes),
    }
    if window is not None:
        values["window"] = window
    try:
        return asking.question(dict(given) | values)
    except UsageFault as failure:
        return _stop(mistakes, rule, f"rule {shown(name)}: {failure.message}")


def _key_length(name: str, rule: Node, algorithm: str, asking: Asking, mistakes: Mistakes) -> int:
    """`rl:{template}:rule:algorithm:state[:window]`, with the longest template where there are several."""
    assert isinstance(rule, YamlMapping)
    entry = rule.entries.get("key")
    nodes = entry.value.items if entry and isinstance(entry.value, Sequence) else (entry.value,) if entry else ()
    templates = [node.text for node in nodes if isinstance(node, Scalar)]
    if not templates:
        _stop(mistakes, rule, f"rule {shown(name)} has no key")
    longest = max(len(_PLACE.sub("x" * ASSUMED_VALUE_BYTES, text).encode()) for text in templates)
    end = f":{name}:{algorithm}:{asking.states[algorithm]}"
    # A window stands in the key in milliseconds: a minute has five digits, a day eight.
    window = len(":86400000") if algorithm in _KEYED_BY_WINDOW else 0
    return len("rl:{}") + longest + len(end.encode()) + window


def _word(rule: Node, key: str, mistakes: Mistakes) -> str:
    found = rule.entries.get(key) if isinstance(rule, YamlMapping) else None
    if found is None or not isinstance(found.value, Scalar) or found.value.is_null:
        _stop(mistakes, rule, f"`{key}` is missing")
    return found.value.text


def _first(rule: Node, keys: tuple[str, ...]) -> str | None:
    assert isinstance(rule, YamlMapping)
    entries = (rule.entries[key].value for key in keys if key in rule.entries)
    return next((value.text for value in entries if isinstance(value, Scalar)), None)


def _stop(mistakes: Mistakes, node: Node, text: str) -> NoReturn:
    mistakes.stop(node.line, text)
