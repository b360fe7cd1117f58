"""Samples the keys of a server with read commands. Limits on keys and time, and pauses, keep the load low."""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev

from rlctl.capacity.measure.estimate import ShardSample
from rlctl.capacity.measure.sampled import RuleName, SampledKey, SampledServer, name_of, slots_filled
from rlctl.capacity.request import Algorithm
from rlctl.observe.model import SlotRange
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, NodeLink, Reply

# Names to read for each key whose details are read. A name costs the server far less than the details of a key, and
# more names make counts more exact.
NAMES_PER_KEY = 30
# One third of the sample is taken evenly from all rules. This part shows which rules need more keys.
PILOT_PART = 3
_SCAN_COUNT = 200
# The share of the time limit that may be spent on reading names.
_NAMES_PART = 0.6
_DETAILS = 20
# The pause after a round trip, as a multiple of its duration.
REST = 80
_SLOT_BITS = 14
_LOGS = {Algorithm.ROLLING_WINDOW.value, Algorithm.CONCURRENT.value}
_NO_END = -1
_GONE = -2


@dataclass(slots=True, kw_only=True)
class KeySampler:
    """Samples the keys of one server until `ends_s` on the clock."""

    link: NodeLink
    clock: Clock
    sample: int
    ends_s: float

    def run(self, server: SampledServer, slots: Sequence[SlotRange]) -> ShardSample:
        """Read key names, then the details of some keys of each rule, until the time is over."""
        names = self._names(server.keys, slots)
        by_rule: defaultdict[RuleName, list[str]] = defaultdict(list)
        for key in sorted(names):
            by_rule[name_of(key)].append(key)
        counts = {name: len(keys) for name, keys in by_rule.items()}
        seen = replace(server, filled_slots=slots_filled(names, server))
        return ShardSample(server=seen, names=counts, keys=self._keys(by_rule))

    def _keys(self, by_rule: Mapping[RuleName, Sequence[str]]) -> tuple[SampledKey, ...]:
        """Sample some keys of each rule, then more keys of the rules whose sizes differ most."""
        pick = random.Random()  # noqa: S311  chooses a sample, guards nothing
        pools = {name: pick.sample(keys, len(keys)) for name, keys in by_rule.items()}
        first = self._details(draw(pools, dict.fromkeys(pools, 1.0), self.sample // PILOT_PART))
        second = draw(pools, spreads(pools, first), self.sample - self.sample // PILOT_PART)
        return first + self._details(second)

    def _ask(self, commands: Sequence[Sequence[object]]) -> list[Reply | CommandFailed]:
        """Make one round trip, then pause."""
        started_s = self.clock.monotonic()
        replies = self.link.pipeline(commands)
        took_s = self.clock.monotonic() - started_s
        self.clock.sleep(min(took_s * REST, max(0.0, self.ends_s - self.clock.monotonic())))
        return replies

    def _names(self, keys: int, slots: Sequence[SlotRange]) -> set[str]:
        """Read all key names if there are few, else the names at random SCAN cursors."""
        wanted = self.sample * NAMES_PER_KEY
        cursors = _random_cursors(slots) if keys > wanted else None
        found: set[str] = set()
        started_s = self.clock.monotonic()
        ends_s = started_s + (self.ends_s - started_s) * _NAMES_PART
        cursor = "0" if cursors is None else next(cursors)
        while self.clock.monotonic() < ends_s and len(found) < wanted:
            [reply] = self._ask([("SCAN", cursor, "COUNT", _SCAN_COUNT)])
            if isinstance(reply, CommandFailed):
                raise reply
            after, names = reply
            found.update(names)
            cursor = str(after) if cursors is None else next(cursors)
            if cursor == "0":
                break
        return found

    def _details(self, keys: Sequence[str]) -> tuple[SampledKey, ...]:
        found: list[SampledKey] = []
        for start in range(0, len(keys), _DETAILS):
            if self.clock.monotonic() >= self.ends_s:
                break
            chosen = keys[start : start + _DETAILS]
            asked = [_commands(key) for key in chosen]
            replies = iter(self._ask([command for commands in asked for command in commands]))
            for key, commands in zip(chosen, asked, strict=True):
                one = _sampled(key, [next(replies) for _ in commands])
                if one is not None:
                    found.append(one)
        return tuple(found)


def _random_cursors(slots: Sequence[SlotRange]) -> Iterator[str]:
    """Random SCAN cursors.

    Newer cluster nodes read a slot from the lowest bits of a cursor, so these bits contain a slot that the node owns.
    Other servers accept any number.
    """
    pick = random.Random()  # noqa: S311  chooses a sample, guards nothing
    owned = [slot for first, last in slots for slot in range(first, last + 1)]
    while True:
        bits = pick.getrandbits(32)
        yield str(bits << _SLOT_BITS | pick.choice(owned) if owned else bits)


def spreads(rules: Iterable[RuleName], seen: Sequence[SampledKey]) -> dict[RuleName, float]:
    """The coefficient of variation of the key sizes of each rule."""
    sizes = {name: [one.memory_usage for one in seen if one.name == name] for name in rules}
    return {name: pstdev(found) / fmean(found) if found else 1.0 for name, found in sizes.items()}


def draw(pools: Mapping[RuleName, list[str]], weights: Mapping[RuleName, float], most: int) -> list[str]:
    """Take up to `most` keys out of the pools: first by weight, then the remainder from each pool in turn."""
    whole = sum(weights.values())
    chosen: list[str] = []
    for name, pool in pools.items():
        share = int(most * weights[name] / whole) if whole else 0
        chosen += [pool.pop() for _ in range(min(share, len(pool)))]
    while len(chosen) < most and any(pools.values()):
        chosen += [pool.pop() for pool in pools.values() if pool]
    return chosen[:most]


def _commands(key: str) -> list[tuple[object, ...]]:
    """Commands that read the details of a key. The name of the first lease shows the length of lease names."""
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


def _sampled(key: str, replies: Sequence[Reply | CommandFailed]) -> SampledKey | None:
    """Make a sampled key from replies; None if the key has expired."""
    usage, encoding, end_ms, size, *members = replies
    if not isinstance(usage, int) or not isinstance(encoding, str) or end_ms == _GONE:
        return None
    member = members[0][0] if members and isinstance(members[0], list) and members[0] else None
    return SampledKey(
        key_length=len(key.encode("utf-8", "surrogateescape")),
        name=name_of(key),
        memory_usage=usage,
        encoding=encoding,
        has_ttl=end_ms != _NO_END,
        size=size if isinstance(size, int) else None,
        member_length=None if member is None else len(str(member).encode()),
    )
