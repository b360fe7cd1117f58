"""Redis 7.0 and 8.0: each key has an entry, a name and an object, and a second entry for its expiry. Pure."""

from typing import assert_never

from rlctl.capacity.layout.common import (
    MS_DIGITS,
    NODE_LISTPACK,
    OBJECT,
    KeyBytes,
    Layout,
    entry_bytes_of,
    sds,
)
from rlctl.capacity.layout.listpack import HEADER_BYTES
from rlctl.capacity.layout.shapes import EntryList, EntryStream, LeaseHash, Number, Shape, SmallHash, SortedSet, Text
from rlctl.capacity.layout.tables import LEAST_BUCKETS, Spread, array_7_0, array_8_0, doubled
from rlctl.capacity.request import ServerVersion

_ENTRY = 24
_DICT = 56
_SHARED_INTEGERS = 10_000
_EMBEDDED_TEXT, _EMBEDDED_HEADER = 44, 4
_QUICKLIST = 40
# 7.0 links the keys of a slot through their entries; 8.0 has a table and a histogram of sizes for each slot.
_SLOT_LINKS = 16
_SLOT_DICT, _SLOT_ENDS = 2_456, 72


class RedisLayout(Layout):
    """The memory layout of Redis 7.0 and 8.0."""

    def name_size(self) -> int:
        return sds(self.request.key_length)

    def key(self, spread: Spread) -> KeyBytes:
        ends = 1 if self.request.has_ttl else 0
        arrays = array_7_0(spread.keys) if self.request.server is ServerVersion.REDIS_7_0 else spread.arrays(array_8_0)
        return KeyBytes(
            key=self.class_of(_ENTRY) + self.class_of(self.name_size()),
            ttl=ends * self.class_of(_ENTRY),
            tables=(1 + ends) * arrays / spread.keys,
            cluster=self._cluster(spread, ends),
        )

    def value(self, shape: Shape) -> float:
        match shape:
            case Number(value=value):
                return 0 if value < _SHARED_INTEGERS and self.request.shares_integers else OBJECT
            case Text():
                return self._text(shape)
            case SmallHash(entry_bytes=entry_bytes):
                return OBJECT + self.class_of(HEADER_BYTES + entry_bytes)
            case SortedSet():
                return OBJECT + self._sorted_set(shape)
            case LeaseHash():
                return OBJECT + self._hash(shape)
            case EntryList():
                return OBJECT + self._list(shape)
            case EntryStream(count=count):
                return OBJECT + self.stream(count)
            case _:
                assert_never(shape)

    def text_size(self, shape: Text) -> int:
        return OBJECT + _EMBEDDED_HEADER + shape.length if _is_embedded(shape) else sds(shape.length)

    def _text(self, shape: Text) -> float:
        return (0 if _is_embedded(shape) else OBJECT) + self.class_of(self.text_size(shape))

    def _cluster(self, spread: Spread, ends: int) -> float:
        if self.request.slots is None:
            return 0
        if self.request.server is ServerVersion.REDIS_7_0:
            return self.class_of(_ENTRY + _SLOT_LINKS) - self.class_of(_ENTRY)
        per_slot = self.class_of(_SLOT_DICT) + ends * self.class_of(_SLOT_ENDS)
        return per_slot * spread.filled / spread.keys

    def _sorted_set(self, shape: SortedSet) -> float:
        packed = self.body_size(shape)
        if packed is not None:
            return self.class_of(packed)
        return self.skiplist_nodes(shape) + self.class_of(_DICT) + self._entries(shape.count)

    def _entries(self, count: int) -> float:
        # After a doubling, the server keeps the old buckets until all entries are moved. This sum leaves them out.
        return count * self.class_of(_ENTRY) + self.class_of(8 * max(LEAST_BUCKETS, doubled(count)))

    def _hash(self, shape: LeaseHash) -> float:
        packed = self.body_size(shape)
        if packed is not None:
            return self.class_of(packed)
        names = sum(run.count * self.class_of(sds(run.length)) for run in shape.member.runs(shape.count))
        values = shape.count * self.class_of(sds(MS_DIGITS))
        return self.class_of(_DICT) + self._entries(shape.count) + names + values

    def _list(self, shape: EntryList) -> float:
        """Bytes of a list. Redis 7.0 always uses a list of listpacks; 8.0 uses a single listpack if the entries fit."""
        entries = entry_bytes_of(shape.member, shape.count)
        if HEADER_BYTES + entries <= NODE_LISTPACK and self.request.server is not ServerVersion.REDIS_7_0:
            return self.class_of(HEADER_BYTES + entries)
        return self.class_of(_QUICKLIST) + self.list_nodes(entries)


def _is_embedded(shape: Text) -> bool:
    return shape.length <= _EMBEDDED_TEXT and not shape.written_into
