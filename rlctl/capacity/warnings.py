"""Warnings about thresholds beyond which a little more data takes much more memory. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from rlctl.capacity.layout.allocator import rounded
from rlctl.capacity.layout.common import HASH_LISTPACK_ENTRIES, LISTPACK_TEXT, Layout, longest_text
from rlctl.capacity.layout.shapes import LeaseHash, Number, Shape, SortedSet, UserState
from rlctl.capacity.layout.tables import buckets_7_0, buckets_8_0, valkey_capacity
from rlctl.capacity.request import MemoryRequest, ServerVersion

NEAR_CAP = 0.9
NEAR_DOUBLING = 0.95
_SMALL_INTEGER = 10_000
_EDGE_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityWarning:
    """A warning for the user. The code is fixed, such as `listpack-cap-near`."""

    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def warnings_of(
    request: MemoryRequest, state: UserState, layout: Layout, keys: int, cluster_share: float
) -> list[CapacityWarning]:
    """The warnings that apply to a request, in a fixed order."""
    found = [one for shape in dict.fromkeys(state.shapes) for one in _shape_warnings(request, layout, shape)]
    found += _name_edge(layout)
    found += _doubling(request, keys)
    if cluster_share > 0.5:
        text = (
            f"{cluster_share:.0%} of the bytes are tables that {request.server} has for each slot, whatever the users"
        )
        found.append(CapacityWarning(code="slots-dominate", message=text))
    return list(dict.fromkeys(found))


def _shape_warnings(request: MemoryRequest, layout: Layout, shape: Shape) -> Iterator[CapacityWarning]:
    if isinstance(shape, Number) and shape.value < _SMALL_INTEGER and not request.shares_integers:
        if request.server is not ServerVersion.VALKEY_8_1:
            text = f"with {request.policy} and maxmemory, small integers are not shared: each takes 16 bytes"
            yield CapacityWarning(code="no-shared-integers", message=text)
    elif isinstance(shape, SortedSet | LeaseHash):
        yield from _packed_warnings(request, layout, shape)
    yield from _body_edge(layout, shape)


def _packed_warnings(request: MemoryRequest, layout: Layout, shape: SortedSet | LeaseHash) -> Iterator[CapacityWarning]:
    is_set = isinstance(shape, SortedSet)
    cap = request.zset_max_listpack_entries if is_set else HASH_LISTPACK_ENTRIES
    setting = "zset-max-listpack-entries" if is_set else "hash-max-listpack-entries"
    table = "skip list" if is_set else "hash table"
    longest = longest_text(shape)
    if longest > LISTPACK_TEXT:
        text = (
            f"a member of {longest} bytes is longer than {LISTPACK_TEXT}: one such member makes the whole key a {table}"
        )
        yield CapacityWarning(code="member-too-long", message=text)
    if shape.count > cap:
        text = f"{shape.count} entries are more than {setting} {cap}: the key is a {table} until it is deleted"
        yield CapacityWarning(code="listpack-cap-passed", message=text)
    elif shape.count > NEAR_CAP * cap:
        text = (
            f"{cap - shape.count} entries below {setting} {cap}: above it the key is a {table}, several times as large"
        )
        yield CapacityWarning(code="listpack-cap-near", message=text)
    if not is_set and not layout.is_listpack(shape):
        yield CapacityWarning(
            code="not-measured", message="a hash that is not a listpack: the formula was checked against few sizes only"
        )


def _body_edge(layout: Layout, shape: Shape) -> Iterator[CapacityWarning]:
    size = layout.body_size(shape)
    if size is None:
        return
    count = getattr(shape, "count", 0)
    reach = max(_EDGE_BYTES, size // count) if count else _EDGE_BYTES
    yield from _edge("the value", size, reach, layout)


def _name_edge(layout: Layout) -> Iterator[CapacityWarning]:
    yield from _edge("the name of the key", layout.name_size(), _EDGE_BYTES, layout)


def _edge(what: str, size: int, reach: int, layout: Layout) -> Iterator[CapacityWarning]:
    """Warn if a size is slightly larger than a size class of the allocator, or exactly as large."""
    allocator = layout.request.allocator
    now, less, more = (rounded(max(1, n), allocator) for n in (size, size - reach, size + 1))
    if less < now:
        text = f"{what} just exceeds a size class: up to {reach} bytes less would save {now - less} bytes"
        yield CapacityWarning(code="size-class-edge", message=text)
    elif more > now:
        text = f"{what} fills its size class: one more byte takes {more - now} bytes"
        yield CapacityWarning(code="size-class-edge", message=text)


def _doubling(request: MemoryRequest, keys: int) -> Iterator[CapacityWarning]:
    match request.server:
        case ServerVersion.REDIS_7_0:
            most = buckets_7_0(keys)
        case ServerVersion.REDIS_8_0:
            most = buckets_8_0(keys) - 1
        case ServerVersion.VALKEY_8_1:
            most = valkey_capacity(keys)
        case _:
            assert_never(request.server)
    has_one_table = request.slots is None or request.server is ServerVersion.REDIS_7_0
    if has_one_table and keys > NEAR_DOUBLING * most:
        text = (
            f"the tables double at {most} keys, and there are {keys}: old and new tables exist until all keys are moved"
        )
        yield CapacityWarning(code="table-doubling-near", message=text)
