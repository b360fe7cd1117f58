"""Plans the memory of a fleet from its rules and their users, with all shards and after the loss of one. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil

from rlctl.capacity.layout.encodings import state_of
from rlctl.capacity.predict import Prediction, predict
from rlctl.capacity.request import SLOTS, MemoryRequest, ServerVersion
from rlctl.capacity.warnings import CapacityWarning
from rlctl.topology.model import MIB

MOST_SHARDS = 1_000
_LOG_REWRITTEN, _COUNTER_REWRITTEN = 1.0, 0.25
# Bytes of an empty server with the scripts loaded, standalone and in a cluster.
_BASELINE = {
    ServerVersion.REDIS_7_0: (1_130_000, 1_910_000),
    ServerVersion.REDIS_8_0: (950_000, 2_290_000),
    ServerVersion.VALKEY_8_1: (1_150_000, 3_000_000),
}
_REPLICA_BUFFER = 256 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Assumptions about the memory that a server needs in addition to its data."""

    replicas: int = 1
    fragmentation: float = 1.1
    stale: float = 0.0
    backlog_bytes: int = MIB
    clients: int = 1_000
    client_bytes: int = 40 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The rules of a fleet, each with its number of users in the whole fleet."""

    requests: tuple[MemoryRequest, ...]
    states: Mapping[str, int]

    @property
    def users(self) -> int:
        return sum(request.users for request in self.requests)

    @property
    def has_slots(self) -> bool:
        """Whether the servers form a cluster."""
        return any(request.slots is not None for request in self.requests)

    def with_users(self, users: int) -> "Mix":
        """Return a mix with the same proportions of rules and `users` users in total."""
        whole = self.users
        requests = (replace(one, users=max(1, one.users * users // whole)) for one in self.requests)
        return replace(self, requests=tuple(requests))

    def items(self, shards: int) -> tuple[Prediction, ...]:
        """Predict the memory of each rule for all its users, spread over `shards` shards."""
        slots = ceil(SLOTS / shards) if self.has_slots else None
        asked = [replace(one, slots=slots, users=ceil(one.users / shards)) for one in self.requests]
        keys = sum(ceil(one.users * state_of(one, self.states).keys_per_user) for one in asked)
        found = [predict(one, self.states, keys_on_primary=keys) for one in asked]
        whole = zip(self.requests, found, strict=True)
        return tuple(replace(one, request=replace(one.request, users=fleet.users)) for fleet, one in whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMemory:
    """Bytes that one primary and its machine need, by use."""

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
        """The maxmemory setting in bytes: the total without fragmentation and copy-on-write, in whole megabytes."""
        return ceil((self.total - self.fragmentation - self.copy_on_write) / MIB) * MIB

    def to_json(self) -> dict[str, int]:
        """The field `per_shard` of `rlctl capacity plan -o json`."""
        return asdict(self) | {"total": self.total}


def shard_memory(mix: Mix, reserve: Reserve, shards: int, items: Sequence[Prediction]) -> ShardMemory:
    """The memory of one primary when the fleet has `shards` shards."""
    data = [(one, _data(one, shards, reserve)) for one in items]
    first = mix.requests[0]
    doubling = sum(2 * one.parts.tables * one.request.users / shards for one in items)
    slots = sum(one.parts.cluster * one.request.users / shards for one in items)
    backlog = reserve.backlog_bytes if reserve.replicas else 0
    clients = reserve.clients * reserve.client_bytes
    baseline = _BASELINE[first.server][1 if mix.has_slots else 0]
    used = sum(size for _one, size in data) + doubling + slots + backlog + clients + baseline
    rewritten = sum(size * (_LOG_REWRITTEN if _is_log(one) else _COUNTER_REWRITTEN) for one, size in data)
    return ShardMemory(
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
class CapacityPlan:
    """The memory of a fleet with `shards` shards, compared with `given_ram` (bytes of each server) if it is set."""

    mix: Mix
    reserve: Reserve
    shards: int
    given_ram: int | None

    @cached_property
    def items(self) -> tuple[Prediction, ...]:
        """The prediction for each rule."""
        return self.mix.items(self.shards)

    @cached_property
    def per_shard(self) -> ShardMemory:
        """The memory of a primary while all shards are up."""
        return shard_memory(self.mix, self.reserve, self.shards, self.items)

    @cached_property
    def after_losing_one(self) -> ShardMemory | None:
        """The memory of a primary after the loss of a shard; None for a fleet of one shard."""
        if self.shards == 1:
            return None
        return shard_memory(self.mix, self.reserve, self.shards - 1, self.mix.items(self.shards - 1))

    @property
    def worst(self) -> ShardMemory:
        """The most memory that a primary needs: after the loss of a shard, if the fleet has several."""
        return self.after_losing_one or self.per_shard

    @property
    def ram(self) -> int:
        """The RAM of a server in bytes: the given RAM, else the needed RAM in whole megabytes."""
        return self.given_ram or ceil(self.worst.total / MIB) * MIB

    @property
    def fits(self) -> bool | None:
        """Whether the worst case fits into the given RAM; None if no RAM was given."""
        return None if self.given_ram is None else self.worst.total <= self.given_ram

    @property
    def servers(self) -> int:
        """The number of primaries and replicas."""
        return self.shards * (1 + self.reserve.replicas)

    @cached_property
    def users_that_fit(self) -> int | None:
        """The most users of this mix that fit into the given RAM; None if no RAM was given."""
        return None if self.given_ram is None else _users_that_fit(self, self.given_ram)

    @property
    def changes(self) -> tuple[str, ...]:
        """Alternative changes, each of which makes the plan fit; empty if it fits or if no RAM was given."""
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
    def warnings(self) -> tuple[CapacityWarning, ...]:
        """Warnings about memory outside the plan, and about thresholds that the rules are close to."""
        buffers = (
            f"the output buffer of a replica may take {_REPLICA_BUFFER // MIB} MB more before the server disconnects it"
        )
        own = [CapacityWarning(code="replica-buffers", message=buffers)] if self.reserve.replicas else []
        return tuple(dict.fromkeys([*own, *(warn for item in self.items for warn in item.warnings)]))

    def to_json(self) -> dict[str, object]:
        """The output of `rlctl capacity plan -o json`."""
        first = self.mix.requests[0]
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


def plan(mix: Mix, reserve: Reserve, *, shards: int | None, ram: int | None, least_shards: int = 1) -> CapacityPlan:
    """Plan for `shards`, else for the fewest shards that fit into `ram`, else for `least_shards`."""
    chosen = shards or (shards_for(mix, reserve, ram, least=least_shards) if ram else None) or least_shards
    return CapacityPlan(mix=mix, reserve=reserve, shards=chosen, given_ram=ram)


def on_shards(found: CapacityPlan, shards: int) -> tuple[str, ...]:
    """Describe the memory of the same users on `shards` shards. If it exceeds the given RAM, add the users that fit."""
    needed, there = replace(found, shards=shards, given_ram=None), replace(found, shards=shards)
    memory = f"maxmemory {needed.worst.maxmemory // MIB}mb on servers of {needed.ram // MIB}mb"
    whole = f"--shards {shards} holds these {found.mix.users} users with {memory}"
    if there.fits is not False:
        return (whole,)
    return whole, f"{shards} shards on servers of {there.ram // MIB}mb hold {there.users_that_fit} users"


def shards_for(mix: Mix, reserve: Reserve, ram: int, *, least: int) -> int | None:
    """The fewest shards that fit after the loss of one; None if even `MOST_SHARDS` shards do not fit."""
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
    return bool(CapacityPlan(mix=mix, reserve=reserve, shards=shards, given_ram=ram).fits)


def _users_that_fit(found: CapacityPlan, ram: int) -> int:
    # Memory grows in steps, because tables double. Bisection finds the last step that fits; a formula cannot.
    low, high = 0, 1
    while _fits(found.mix.with_users(high), found.reserve, found.shards, ram):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(found.mix.with_users(middle), found.reserve, found.shards, ram):
            low = middle
        else:
            high = middle
    return low


def _data(item: Prediction, shards: int, reserve: Reserve) -> float:
    each = item.parts.total - item.parts.cluster
    return each * item.request.users / shards * (1 + reserve.stale)


def _is_log(item: Prediction) -> bool:
    return item.request.algorithm.is_log
