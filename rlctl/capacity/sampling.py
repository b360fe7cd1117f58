"""Samples one server: reads only, bounded in keys and in time, and paced so that its main thread hardly notices."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlctl.capacity.estimate import ShardSample
from rlctl.capacity.question import Algorithm
from rlctl.capacity.sampled import Place, RuleName, Sampled, name_of
from rlctl.observe.model import SlotRange
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, NodeLink, Reply

# A name costs the server a twentieth of what a key's details cost: more of them make counts exact.
NAMES_PER_KEY = 20
_SCAN_COUNT = 100
_DETAILS = 20
# The server works for a part of each round trip; so many times as long it is left alone.
REST = 20
_SLOT_BITS = 14
_LOGS = {Algorithm.ROLLING_WINDOW.value, Algorithm.CONCURRENT.value}
_NO_END = -1
_GONE = -2


@dataclass(slots=True, kw_only=True)
class Sampler:
    """One server's sampling under way."""

    link: NodeLink
    clock: Clock
    sample: int
    ends_s: float

    def run(self, place: Place, slots: Sequence[SlotRange]) -> ShardSample:
        """Look at names, then at some keys of each rule; what the time allows."""
        names = self._names(place.keys, slots)
        by_rule: defaultdict[RuleName, list[str]] = defaultdict(list)
        for key in sorted(names):
            by_rule[name_of(key)].append(key)
        counts = Counter({name: len(keys) for name, keys in by_rule.items()})
        return ShardSample(place=place, names=counts, keys=self._details(_in_turn(by_rule, self.sample)))

    @property
    def _has_time(self) -> bool:
        return self.clock.monotonic() < self.ends_s

    def _ask(self, commands: Sequence[Sequence[object]]) -> list[Reply | CommandFailed]:
        """One round trip, and the rest that the server has after it."""
        started_s = self.clock.monotonic()
        replies = self.link.pipeline(commands)
        took_s = self.clock.monotonic() - started_s
        self.clock.sleep(min(took_s * REST, max(0.0, self.ends_s - self.clock.monotonic())))
        return replies

    def _names(self, keys: int, slots: Sequence[SlotRange]) -> set[str]:
        """All names where there are few; else what lies behind cursors at random, which knows no order of names."""
        wanted = self.sample * NAMES_PER_KEY
        cursors = _random_cursors(slots) if keys > wanted else None
        found: set[str] = set()
        cursor = "0" if cursors is None else next(cursors)
        while self._has_time and len(found) < wanted:
            [reply] = self._ask([("SCAN", cursor, "COUNT", _SCAN_COUNT)])
            if isinstance(reply, CommandFailed):
                raise reply
            after, names = reply
            found.update(names)
            cursor = str(after) if cursors is None else next(cursors)
            if cursor == "0":
                break
        return found

    def _details(self, keys: Sequence[str]) -> tuple[Sampled, ...]:
        found: list[Sampled] = []
        for start in range(0, len(keys), _DETAILS):
            if not self._has_time:
                break
            chosen = keys[start : start + _DETAILS]
            asked = [_questions(key) for key in chosen]
            replies = iter(self._ask([command for commands in asked for command in commands]))
            for key, commands in zip(chosen, asked, strict=True):
                one = _sampled(key, [next(replies) for _ in commands])
                if one is not None:
                    found.append(one)
        return tuple(found)


def _random_cursors(slots: Sequence[SlotRange]) -> Iterator[str]:
    """Newer members of a cluster keep the slot in a cursor's lowest bits; the others take it as any number."""
    pick = random.Random()  # noqa: S311  chooses a sample, guards nothing
    owned = [slot for first, last in slots for slot in range(first, last + 1)]
    while True:
        bits = pick.getrandbits(32)
        yield str(bits << _SLOT_BITS | pick.choice(owned) if owned else bits)


def _in_turn(by_rule: Mapping[RuleName, Sequence[str]], most: int) -> list[str]:
    """As many keys of each rule, so that a rare one is known as well as a common one."""
    pick = random.Random()  # noqa: S311  likewise
    waiting = [pick.sample(keys, len(keys)) for keys in by_rule.values()]
    chosen: list[str] = []
    while waiting and len(chosen) < most:
        chosen += [keys.pop() for keys in waiting]
        waiting = [keys for keys in waiting if keys]
    return chosen[:most]


def _questions(key: str) -> list[tuple[object, ...]]:
    """Reads that touch nothing; a lease's name tells how long names are."""
    algorithm = name_of(key).algorithm
    size = "ZCARD" if algorithm in _LOGS else "STRLEN"
    asked: list[tuple[object, ...]] = [
        ("MEMORY", "USAGE", key),
        ("OBJECT", "ENCODING", key),
        ("PTTL", key),
        (size, key),
    ]
    if algorithm == Algorithm.CONCURRENT:
        asked.append(("ZRANGE", key, 0, 0))
    return asked


def _sampled(key: str, replies: Sequence[Reply | CommandFailed]) -> Sampled | None:
    """The key, unless it ended meanwhile."""
    usage, encoding, end_ms, size, *members = replies
    if not isinstance(usage, int) or not isinstance(encoding, str) or end_ms == _GONE:
        return None
    member = members[0][0] if members and isinstance(members[0], list) and members[0] else None
    return Sampled(
        key_length=len(key.encode("utf-8", "surrogateescape")),
        name=name_of(key),
        memory_usage=usage,
        encoding=encoding,
        has_ttl=end_ms != _NO_END,
        size=size if isinstance(size, int) else None,
        member_length=None if member is None else len(str(member).encode()),
    )
