"""The usage of a key that is valid, broken, or cannot be read by its script."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from rlctl.limiter.core.calls import Call
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.rules import key_usage as module
from rlctl.rules.key_usage import key_usage
from rlctl.system.redis import CommandFailed, LinkFailure
from tests.unit.rules.documents import EVERY, rule_set

NOW_US = 1_790_000_000_000_000
SPEC = SimpleNamespace(name="node-2", address="here.example", port=1)
FREE = [1, 100, 40, 0, 60_000, 0]
FULL = [1, 5, 0, 0, 60_000, 0]
STATE = CommandFailed("RLCTL_STATE not a count: k")
WRONG = CommandFailed("WRONGTYPE no")
OOM = CommandFailed("OOM command not allowed")


@dataclass
class Server:
    """Answers a peek and the other commands."""

    look: Any
    answers: dict[str, Any] = field(default_factory=dict)

    def pipeline(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        if isinstance(self.look, LinkFailure):
            raise self.look
        return [self.look, *({"TYPE": "string", "PTTL": 7}[words[0]] for words in commands[1:])]

    def call(self, verb: str, *_words: Any) -> Any:
        answer = self.answers.get(verb, [NOW_US // 1_000_000, NOW_US % 1_000_000])
        if isinstance(answer, Exception):
            raise answer
        return answer


def look(monkeypatch: pytest.MonkeyPatch, rule_id: str, server: Server, spec: Any = SPEC) -> dict[str, Any]:
    monkeypatch.setattr(module, "primary_for_key", lambda *_words: spec)
    rule = rule_set(EVERY).rule(rule_id)
    assert rule is not None
    connector = SimpleNamespace(link=lambda _spec: server)
    now: Any = SimpleNamespace(fleet=SimpleNamespace(connector=connector), observed=None)
    algorithm = ALGORITHMS[rule.definition.algorithm](**rule.arguments[None, False])
    found = key_usage(now, Call(rule.script, algorithm, rule.id), rule, "k")
    return {name: found[name] for name in ("limit", "count", "remaining", "allowed", "reason")}


@pytest.mark.parametrize("rule_id", ["bucket", "meter", "fixed", "counter", "log", "ring", "jobs"])
@pytest.mark.parametrize("said", [STATE, WRONG])
def test_of_a_broken_key_nothing_is_made_up(monkeypatch: pytest.MonkeyPatch, rule_id: str, said: CommandFailed) -> None:
    found = look(monkeypatch, rule_id, Server(said, {"GET": "hello", "BITFIELD_RO": [1, 2, 3, 4], "ZCOUNT": 3}))
    assert found == dict.fromkeys(("limit", "count", "remaining", "allowed")) | {"reason": str(said)}


@pytest.mark.parametrize(
    ("held", "count"), [(f"2{NOW_US // 3_600_000_000:013d}", 2), ("hello", None), (WRONG, None)], ids=str
)
def test_where_no_script_may_run_the_key_is_read(monkeypatch: pytest.MonkeyPatch, held: Any, count: int | None) -> None:
    found = look(monkeypatch, "fixed", Server(OOM, {"GET": held}))
    assert (found["count"], found["reason"]) == (count, str(OOM))


def test_more_is_counted_than_a_lowered_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, "fixed", Server(FULL, {"GET": f"9{NOW_US // 3_600_000_000:013d}"}))
    assert (found["limit"], found["count"], found["remaining"], found["reason"]) == (5, 9, 0, "over_limit")
    assert look(monkeypatch, "fixed", Server(FULL, {"GET": WRONG}))["count"] == 5


@pytest.mark.parametrize(
    ("newest", "reason"),
    [
        (["1", str(NOW_US - 9_000)], "min_interval"),
        (["1", str(NOW_US + 5)], "min_interval"),
        (["1", str(NOW_US - 10_000)], "ok"),
        ([], "ok"),
    ],
    ids=str,
)
def test_the_next_call_may_come_too_soon(monkeypatch: pytest.MonkeyPatch, newest: list[str], reason: str) -> None:
    found = look(monkeypatch, "log", Server(FREE, {"ZRANGE": newest}))
    assert (found["count"], found["allowed"], found["reason"]) == (60, reason == "ok", reason)


def test_no_node_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = LinkFailure("closed", "gone")
    for server, spec in ((Server(gone), SPEC), (Server(FREE), None), (Server(FREE, {"ZRANGE": gone}), SPEC)):
        assert look(monkeypatch, "log", server, spec)["reason"] == "unavailable"
