"""The sample of canary identities that a ramp measures, on the keys of every service."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import pytest

from rlctl.limits.bucket import bucket
from rlctl.rules import signals
from tests.unit.rules.documents import EXAMPLE, rule_set

END = "}:api-per-key:sliding_counter:1:60000"
INSIDE = [who for who in (f"user-{number}" for number in range(1000)) if bucket("api-per-key", who) < 1000]
OUTSIDE = next(who for who in (f"user-{number}" for number in range(1000)) if bucket("api-per-key", who) >= 1000)


class Primary:
    """A primary with some keys, on each of which nothing is left."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self.looked_at: list[str] = []

    def call(self, *words: Any) -> list[Any]:
        assert words[:3] == ("SCAN", "0", "MATCH")
        # In the server's patterns braces are literal, as in fnmatch.
        return ["0", [key for key in self.keys if fnmatchcase(key, words[3])]]

    def pipeline(self, commands: Sequence[tuple[Any, ...]]) -> list[list[int]]:
        self.looked_at += [command[3] for command in commands]
        return [[0, 800, 0, 1, 1, 1] for _ in commands]


def test_the_sample_takes_in_the_keys_of_services(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, service = f"rl:{{apikey:{INSIDE[0]}{END}", f"rl:checkout:{{apikey:{INSIDE[1]}{END}"
    others = (f"rl:{{apikey:{OUTSIDE}{END}", f"rl:a:b:{{apikey:{INSIDE[2]}{END}", f"rlctl:{{apikey:{INSIDE[3]}{END}")
    primary = Primary(plain, service, *others)
    monkeypatch.setattr(signals, "_primaries", lambda _now: [primary])
    [rule] = rule_set(EXAMPLE).rules
    assert signals.denied_share(None, rule) == 1.0  # type: ignore[arg-type]
    assert primary.looked_at == [plain, service]
