"""A sampled key: its MEMORY USAGE, its real bytes, and its predicted bytes. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from rlctl.capacity.layout.allocator import Allocator, rounded
from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.layout.shapes import Number, Shape, SortedSet, Text, UserState
from rlctl.capacity.layout.tables import Spread, filled_slots
from rlctl.capacity.predict import layout_of, predict_state
from rlctl.capacity.request import SCRIPT, Algorithm, MemoryRequest, ServerVersion
from rlctl.limits.slots import key_slot
from rlctl.services import split_key
from rlctl.topology.model import EvictionPolicy

_ENTRY, _OBJECT = 24, 16
_SHARED_INTEGERS = 10_000
_SKIPLIST = "skiplist"
_KEPT_PACKED = 2**31 - 1
# At most nine digits: the runtime user may write any key that starts with `rl:`, and int() raises ValueError for a
# number of thousands of digits.
_STATE = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleName:
    """The rule, algorithm and state format in the name of a key; all are None for a key without a rule."""

    rule: str | None = None
    algorithm: str | None = None
    state: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledKey:
    """The details of a key; `size` is the length of a string or the number of entries of a log."""

    key_length: int
    name: RuleName
    memory_usage: int
    encoding: str
    has_ttl: bool
    size: int | None
    member_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledServer:
    """The server on which keys were sampled."""

    version: ServerVersion | None
    allocator: Allocator | None
    policy: EvictionPolicy | None
    keys: int
    slots: int | None
    states: Mapping[str, int]
    filled_slots: int | None = None

    @property
    def spread(self) -> Spread:
        return Spread(keys=max(1, self.keys), slots=self.slots or 1, seen_filled=self.filled_slots)


def name_of(key: str) -> RuleName:
    """Parse `rl:[service:]{identity}:rule:algorithm:state[:window]`; braces and colons in identities are encoded."""
    apart = split_key(key)
    if apart is None:
        return RuleName()
    words = apart[1].partition("}:")[2].split(":")
    is_ours = len(words) in {3, 4} and words[1] in {one.value for one in Algorithm} and _STATE.fullmatch(words[2])
    return RuleName(rule=words[0], algorithm=words[1], state=int(words[2])) if is_ours else RuleName()


def slots_filled(keys: Collection[str], server: SampledServer) -> int | None:
    """Estimate the number of slots that hold a key. All keys of an identity share a slot.

    SCAN reads slot by slot, so the slots in a sample of names represent all slots. The sample may end within a slot.
    """
    if server.slots is None or not keys:
        return None
    seen = len({key_slot(key) for key in keys})
    most = filled_slots(max(1, server.keys), server.slots)
    return max(1, round(min(most, seen * server.keys / len(keys))))


def true_bytes(one: SampledKey, server: SampledServer) -> float | None:
    """MEMORY USAGE plus the bytes that it does not count; None for a server without formulas."""
    request = _request(one, server)
    if request is None:
        return None
    key = layout_of(request).key(server.spread)
    if request.server is ServerVersion.VALKEY_8_1:
        return one.memory_usage + key.tables + key.cluster + _valkey_object(one, request)
    rounding = rounded(_ENTRY, request.allocator) - _ENTRY
    entries = 1 + (one.size or 0 if one.encoding == _SKIPLIST else 0)
    cluster = key.cluster if request.server is ServerVersion.REDIS_8_0 else 0
    return one.memory_usage + entries * rounding + key.ttl + key.tables + cluster - _shared(one, request)


def predicted_bytes(one: SampledKey, server: SampledServer) -> float | None:
    """Predicted bytes of a key with the same length and number of entries; None if there is no formula."""
    request, shape = _request(one, server), _shape(one, server)
    if request is None or shape is None:
        return None
    cap = 0 if one.encoding == _SKIPLIST else _KEPT_PACKED
    asked = replace(request, zset_max_listpack_entries=cap)
    return predict_state(asked, UserState(shapes=(shape,)), server.spread).bytes_per_user


def _request(one: SampledKey, server: SampledServer) -> MemoryRequest | None:
    if server.version is None or server.allocator is None:
        return None
    return MemoryRequest(
        algorithm=Algorithm(one.name.algorithm) if one.name.algorithm else Algorithm.GCRA,
        encoding=SCRIPT,
        key_length=one.key_length,
        has_ttl=one.has_ttl,
        server=server.version,
        allocator=server.allocator,
        policy=server.policy or EvictionPolicy.NOEVICTION,
        slots=server.slots,
    )


def _shape(one: SampledKey, server: SampledServer) -> Shape | None:
    """The value that the script of the release stores; None for a key in another state format."""
    if one.name.algorithm is None or one.size is None or server.states.get(one.name.algorithm) != one.name.state:
        return None
    match Algorithm(one.name.algorithm):
        case Algorithm.GCRA | Algorithm.FIXED_WINDOW if one.encoding == "int":
            return Number(value=2**53)
        case Algorithm.ROLLING_WINDOW:
            return SortedSet(count=one.size, member=Form(name="us"), score=Form(name="us"))
        case Algorithm.CONCURRENT:
            if one.member_length is None:
                return None
            return SortedSet(count=one.size, member=Form(name=f"text:{one.member_length}"), score=Form(name="us"))
        case Algorithm.ROLLING_RING:
            return Text(length=one.size, written_into=True)
        case _:
            return Text(length=one.size)


def _valkey_object(one: SampledKey, request: MemoryRequest) -> int:
    """Bytes of the object beyond the 16 bytes that MEMORY USAGE counts; 0 if the value is embedded."""
    if one.encoding == "embstr":
        return 0
    return rounded(layout_of(request).name_size(), request.allocator) - _OBJECT


def _shared(one: SampledKey, request: MemoryRequest) -> int:
    """Bytes that MEMORY USAGE counts for a shared integer (below 10000). The scripts write larger integers."""
    digits = len(str(_SHARED_INTEGERS)) - 1
    is_shared = one.encoding == "int" and one.size is not None and one.size <= digits and request.shares_integers
    return _OBJECT if is_shared else 0
