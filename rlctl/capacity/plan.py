"""From users and rules to memory: a shard, the fleet, and what is left after losing one. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil

from rlctl.capacity.layout.encodings import state_of
from rlctl.capacity.predict import Prediction, predict
from rlctl.capacity.request import SLOTS, Question, Server
from rlctl.capacity.warnings import Warn
from rlctl.topology.model import MIB

MOST_SHARDS = 1_000
_LOG_REWRITTEN, _COUNTER_REWRITTEN = 1.0, 0.25
# An empty server with the scripts loaded, alone and as a member of a cluster.
_BASELINE = {
    Server.REDIS_7_0: (1_130_000, 1_910_000),
    Server.REDIS_8_0: (950_000, 2_290_000),
    Server.VALKEY_8_1: (1_150_000, 3_000_000),
}
_REPLICA_BUFFER = 256 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """What stands around the data."""

    replicas: int = 1
    fragmentation: float = 1.1
    stale: float = 0.0
    backlog_bytes: int = MIB
    clients: int = 1_000
    client_bytes: int = 40 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """All rules, with the users that each has in the whole fleet."""

    questions: tuple[Question, ...]
    states: Mapping[str, int]

    @property
    def users(self) -> int:
        """Of all rules."""
        return sum(question.users for question in self.questions)

    @property
    def has_slots(self) -> bool:
        """Whether the servers are members of a cluster."""
        return any(question.slots is not None for question in self.questions)

    def of_users(self, users: int) -> "Mix":
        """The same rules with so many users in all."""
        whole = self.users
        questions = (replace(one, users=max(1, one.users * users // whole)) for one in self.questions)
        return replace(self, questions=tuple(questions))

    def items(self, shards: int) -> tuple[Prediction, ...]:
        """Each rule at its users in the fleet, with the tables as full as one of so many shards has them."""
        slots = ceil(SLOTS / shards) if self.has_slots else None
        asked = [replace(one, slots=slots, users=ceil(one.users / shards)) for one in self.questions]
        keys = sum(ceil(one.users * state_of(one, self.states).keys_per_user) for one in asked)
        found = [predict(one, self.states, keys_on_primary=keys) for one in asked]
        whole = zip(self.questions, found, strict=True)
        return tuple(replace(one, question=replace(one.question, users=fleet.users)) for fleet, one in whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Bytes of one primary, and what its machine needs beside them."""

    users: int
    data: int
    table_doubling: int
    fragmentation: int
    copy_on_write: int
    replication_backlog: int
    client_buffers: int
    cluster_slots: int
    baseline: int

    @property
    def total(self) -> int:
        """The RAM that one server needs."""
        return sum(value for name, value in asdict(self).items() if name != "users")

    @property
    def maxmemory(self) -> int:
        """What the server may fill: all but fragmentation and copy-on-write, in whole megabytes."""
        return ceil((self.total - self.fragmentation - self.copy_on_write) / MIB) * MIB

    def to_json(self) -> dict[str, int]:
        """The contract's P."""
        return asdict(self) | {"total": self.total}


def shard_of(mix: Mix, reserve: Reserve, shards: int, items: Sequence[Prediction]) -> Shard:
    """One of so many shards."""
    data = [(one, _data(one, shards, reserve)) for one in items]
    first = mix.questions[0]
    doubling = sum(2 * one.parts.tables * one.question.users / shards for one in items)
    slots = sum(one.parts.cluster * one.question.users / shards for one in items)
    backlog = reserve.backlog_bytes if reserve.replicas else 0
    clients = reserve.clients * reserve.client_bytes
    baseline = _BASELINE[first.server][1 if mix.has_slots else 0]
    used = sum(size for _one, size in data) + doubling + slots + backlog + clients + baseline
    rewritten = sum(size * (_LOG_REWRITTEN if _is_log(one) else _COUNTER_REWRITTEN) for one, size in data)
    return Shard(
        users=ceil(mix.users / shards),
        data=round(sum(size for _one, size in data)),
        table_doubling=round(doubling),
        fragmentation=round(used * (reserve.fragmentation - 1)),
        copy_on_write=round(rewritten),
        replication_backlog=backlog,
        client_buffers=clients,
        cluster_slots=round(slots),
        baseline=baseline,
    )


@dataclass(frozen=True)
class Plan:
    """The answer for a number of shards, with or without a given RAM."""

    mix: Mix
    reserve: Reserve
    shards: int
    given_ram: int | None

    @cached_property
    def items(self) -> tuple[Prediction, ...]:
        """Each rule, as a shard holds it."""
        return self.mix.items(self.shards)

    @cached_property
    def per_shard(self) -> Shard:
        """With all shards there."""
        return shard_of(self.mix, self.reserve, self.shards, self.items)

    @cached_property
    def after_losing_one(self) -> Shard | None:
        """The same users on one shard fewer; one shard cannot be lost."""
        if self.shards == 1:
            return None
        return shard_of(self.mix, self.reserve, self.shards - 1, self.mix.items(self.shards - 1))

    @property
    def worst(self) -> Shard:
        """What must fit."""
        return self.after_losing_one or self.per_shard

    @property
    def ram(self) -> int:
        """As given, else what is needed, in whole megabytes."""
        return self.given_ram or ceil(self.worst.total / MIB) * MIB

    @property
    def fits(self) -> bool | None:
        """Whether the worst case fits into the given RAM; None where none was given."""
        return None if self.given_ram is None else self.worst.total <= self.given_ram

    @property
    def servers(self) -> int:
        """Primaries and replicas."""
        return self.shards * (1 + self.reserve.replicas)

    @cached_property
    def users_that_fit(self) -> int | None:
        """The most users of this mix; None without a given RAM."""
        return None if self.given_ram is None else _users_that_fit(self, self.given_ram)

    @property
    def changes(self) -> tuple[str, ...]:
        """What would make it fit, each by itself; nothing when it fits."""
        if self.fits is not False:
            return ()
        assert self.given_ram is not None
        more = shards_for(self.mix, self.reserve, self.given_ram, least=self.shards)
        found = [f"--shards {more}"] if more else []
        found.append(f"--ram {ceil(self.worst.total / MIB)}mb")
        if self.users_that_fit:
            found.append(f"{self.users_that_fit} users instead of {self.mix.users}")
        return tuple(found)

    @property
    def warnings(self) -> tuple[Warn, ...]:
        """What the figures leave out, and the cliffs of the rules."""
        buffers = f"a replica's output buffer may take {_REPLICA_BUFFER // MIB} MB more before the server cuts it off"
        own = [Warn(code="replica-buffers", message=buffers)] if self.reserve.replicas else []
        return tuple(dict.fromkeys([*own, *(warn for item in self.items for warn in item.warnings)]))

    def to_json(self) -> dict[str, object]:
        """The contract of `capacity plan`."""
        first = self.mix.questions[0]
        lost = self.after_losing_one
        return {
            "schema": "rlctl.capacity-plan/1",
            "server": first.server.value,
            "allocator": first.allocator.value,
            "shards": self.shards,
            "servers": self.servers,
            "ram": self.ram,
            "fits": self.fits,
            "items": [item.to_json() for item in self.items],
            "per_shard": self.per_shard.to_json(),
            "after_losing_one": lost.to_json() if lost else None,
            "maxmemory": self.worst.maxmemory,
            "users_that_fit": self.users_that_fit,
            "changes": list(self.changes),
            "warnings": [warn.to_json() for warn in self.warnings],
        }


def plan(mix: Mix, reserve: Reserve, *, shards: int | None, ram: int | None, least_shards: int = 1) -> Plan:
    """For the given shards, else for as few as the RAM allows; where no number does, for one, which does not fit."""
    chosen = shards or (shards_for(mix, reserve, ram, least=least_shards) if ram else None) or least_shards
    return Plan(mix=mix, reserve=reserve, shards=chosen, given_ram=ram)


def on_shards(found: Plan, shards: int) -> tuple[str, ...]:
    """What the same users need on this number of shards, and how many users fit there into the given RAM."""
    needed, there = replace(found, shards=shards, given_ram=None), replace(found, shards=shards)
    memory = f"maxmemory {needed.worst.maxmemory // MIB}mb on servers of {needed.ram // MIB}mb"
    whole = f"--shards {shards} holds these {found.mix.users} users with {memory}"
    if there.fits is not False:
        return (whole,)
    return whole, f"{shards} shards on servers of {there.ram // MIB}mb hold {there.users_that_fit} users"


def shards_for(mix: Mix, reserve: Reserve, ram: int, *, least: int) -> int | None:
    """The fewest shards of which one may be lost; None where more of them do not help."""
    low, high = least, MOST_SHARDS
    if not _fits(mix, reserve, high, ram):
        return None
    while low < high:
        middle = (low + high) // 2
        if _fits(mix, reserve, middle, ram):
            high = middle
        else:
            low = middle + 1
    return high


def _fits(mix: Mix, reserve: Reserve, shards: int, ram: int) -> bool:
    return bool(Plan(mix=mix, reserve=reserve, shards=shards, given_ram=ram).fits)


def _users_that_fit(found: Plan, ram: int) -> int:
    """Bisected: tables double at a few numbers of users, so the need grows in steps."""
    low, high = 0, 1
    while _fits(found.mix.of_users(high), found.reserve, found.shards, ram):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(found.mix.of_users(middle), found.reserve, found.shards, ram):
            low = middle
        else:
            high = middle
    return low


def _data(item: Prediction, shards: int, reserve: Reserve) -> float:
    each = item.parts.total - item.parts.cluster
    return each * item.question.users / shards * (1 + reserve.stale)


def _is_log(item: Prediction) -> bool:
    return item.question.algorithm.is_log
