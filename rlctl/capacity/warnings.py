"""Cliffs that are near: where a little more of something costs much more memory. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from rlctl.capacity.layout.allocator import rounded
from rlctl.capacity.layout.common import HASH_LISTPACK_ENTRIES, LISTPACK_TEXT, Layout, longest_text
from rlctl.capacity.layout.shapes import LeaseHash, Number, Shape, SortedSet, UserState
from rlctl.capacity.layout.tables import buckets_7_0, buckets_8_0, valkey_capacity
from rlctl.capacity.request import Question, Server

NEAR_CAP = 0.9
NEAR_DOUBLING = 0.95
_SMALL_INTEGER = 10_000
_EDGE_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn:
    """One cliff, or one thing that no formula covers."""

    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        """The contract of predict's warnings."""
        return {"code": self.code, "message": self.message}


def warnings_of(question: Question, state: UserState, layout: Layout, keys: int, cluster_share: float) -> list[Warn]:
    """All that apply, in a fixed order."""
    found = [one for shape in dict.fromkeys(state.shapes) for one in _shape_warnings(question, layout, shape)]
    found += _name_edge(layout)
    found += _doubling(question, keys)
    if cluster_share > 0.5:
        text = f"{cluster_share:.0%} of the bytes are what {question.server} keeps for each slot, not for users"
        found.append(Warn(code="slots-dominate", message=text))
    return list(dict.fromkeys(found))


def _shape_warnings(question: Question, layout: Layout, shape: Shape) -> Iterator[Warn]:
    if isinstance(shape, Number) and shape.value < _SMALL_INTEGER and not question.shares_integers:
        if question.server is not Server.VALKEY_8_1:
            text = f"with {question.policy} and maxmemory each small integer takes 16 bytes of its own"
            yield Warn(code="no-shared-integers", message=text)
    elif isinstance(shape, SortedSet | LeaseHash):
        yield from _packed_warnings(question, layout, shape)
    yield from _body_edge(layout, shape)


def _packed_warnings(question: Question, layout: Layout, shape: SortedSet | LeaseHash) -> Iterator[Warn]:
    is_set = isinstance(shape, SortedSet)
    cap = question.zset_max_listpack_entries if is_set else HASH_LISTPACK_ENTRIES
    setting = "zset-max-listpack-entries" if is_set else "hash-max-listpack-entries"
    table = "skip list" if is_set else "hash table"
    longest = longest_text(shape)
    if longest > LISTPACK_TEXT:
        text = f"a member of {longest} bytes is over {LISTPACK_TEXT}: one is enough to make the whole key a {table}"
        yield Warn(code="member-too-long", message=text)
    if shape.count > cap:
        text = f"{shape.count} entries are over {setting} {cap}: a {table}, and it stays one until it is deleted"
        yield Warn(code="listpack-cap-passed", message=text)
    elif shape.count > NEAR_CAP * cap:
        text = f"{cap - shape.count} entries below {setting} {cap}; one more makes it a {table}, several times as large"
        yield Warn(code="listpack-cap-near", message=text)
    if not is_set and not layout.is_listpack(shape):
        yield Warn(code="not-measured", message="a hash that is no listpack: calculated, measured at a few sizes only")


def _body_edge(layout: Layout, shape: Shape) -> Iterator[Warn]:
    size = layout.body_request(shape)
    if size is None:
        return
    count = getattr(shape, "count", 0)
    reach = max(_EDGE_BYTES, size // count) if count else _EDGE_BYTES
    yield from _edge("the value", size, reach, layout)


def _name_edge(layout: Layout) -> Iterator[Warn]:
    yield from _edge("the key's name", layout.name_request(), _EDGE_BYTES, layout)


def _edge(what: str, size: int, reach: int, layout: Layout) -> Iterator[Warn]:
    """A size that has just passed a class, or is about to."""
    allocator = layout.question.allocator
    now, less, more = (rounded(max(1, n), allocator) for n in (size, size - reach, size + 1))
    if less < now:
        text = f"{what} has just passed a size class: up to {reach} bytes less would save {now - less}"
        yield Warn(code="size-class-edge", message=text)
    elif more > now:
        text = f"{what} fills its size class: one byte more takes {more - now}"
        yield Warn(code="size-class-edge", message=text)


def _doubling(question: Question, keys: int) -> Iterator[Warn]:
    match question.server:
        case Server.REDIS_7_0:
            most = buckets_7_0(keys)
        case Server.REDIS_8_0:
            most = buckets_8_0(keys) - 1
        case Server.VALKEY_8_1:
            most = valkey_capacity(keys)
        case _:
            assert_never(question.server)
    has_one_table = question.slots is None or question.server is Server.REDIS_7_0
    if has_one_table and keys > NEAR_DOUBLING * most:
        text = f"{keys} keys of {most} before the tables double; while they move, old and new are both there"
        yield Warn(code="table-doubling-near", message=text)
