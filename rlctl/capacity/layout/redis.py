"""Redis 7.0 and 8.0: an entry, a name and an object for each key, and another entry for its end. Pure."""

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
from rlctl.capacity.layout.shapes import EntryStream, Fields, LeaseHash, Number, Queue, Shape, SortedSet, Text
from rlctl.capacity.layout.tables import LEAST_BUCKETS, Spread, array_7_0, array_8_0, doubled
from rlctl.capacity.request import Server

_ENTRY = 24
_DICT = 56
_SHARED_INTEGERS = 10_000
_EMBEDDED_TEXT, _EMBEDDED_HEADER = 44, 4
_QUICKLIST = 40
# 7.0 links the keys of a slot through their entries; 8.0 keeps tables for each slot, with histograms of sizes.
_SLOT_LINKS = 16
_SLOT_DICT, _SLOT_ENDS = 2_456, 72


class RedisLayout(Layout):
    """Redis 7.0 and 8.0."""

    def name_request(self) -> int:
        """The name is a string of its own."""
        return sds(self.question.key_length)

    def key(self, spread: Spread) -> KeyBytes:
        """Entry and name, the entry of the end, and an array of buckets for each of both."""
        ends = 1 if self.question.has_ttl else 0
        arrays = array_7_0(spread.keys) if self.question.server is Server.REDIS_7_0 else spread.arrays(array_8_0)
        return KeyBytes(
            key=self.class_of(_ENTRY) + self.class_of(self.name_request()),
            ttl=ends * self.class_of(_ENTRY),
            tables=(1 + ends) * arrays / spread.keys,
            cluster=self._cluster(spread, ends),
        )

    def value(self, shape: Shape) -> float:
        """The object, and what it points to."""
        match shape:
            case Number(value=value):
                return 0 if value < _SHARED_INTEGERS and self.question.shares_integers else OBJECT
            case Text():
                return self._text(shape)
            case Fields(entry_bytes=entry_bytes):
                return OBJECT + self.class_of(HEADER_BYTES + entry_bytes)
            case SortedSet():
                return OBJECT + self._sorted_set(shape)
            case LeaseHash():
                return OBJECT + self._hash(shape)
            case Queue():
                return OBJECT + self._queue(shape)
            case EntryStream(count=count):
                return OBJECT + self.stream(count)
            case _:
                assert_never(shape)

    def text_request(self, shape: Text) -> int:
        """A short text stands in its object."""
        return OBJECT + _EMBEDDED_HEADER + shape.length if _is_embedded(shape) else sds(shape.length)

    def _text(self, shape: Text) -> float:
        return (0 if _is_embedded(shape) else OBJECT) + self.class_of(self.text_request(shape))

    def _cluster(self, spread: Spread, ends: int) -> float:
        if self.question.slots is None:
            return 0
        if self.question.server is Server.REDIS_7_0:
            return self.class_of(_ENTRY + _SLOT_LINKS) - self.class_of(_ENTRY)
        per_slot = self.class_of(_SLOT_DICT) + ends * self.class_of(_SLOT_ENDS)
        return per_slot * spread.filled / spread.keys

    def _sorted_set(self, shape: SortedSet) -> float:
        packed = self.body_request(shape)
        if packed is not None:
            return self.class_of(packed)
        return self.skiplist_nodes(shape) + self.class_of(_DICT) + self._entries(shape.count)

    def _entries(self, count: int) -> float:
        """A hash table's entries and buckets, once it has moved: for a while after a doubling the old ones stay."""
        return count * self.class_of(_ENTRY) + self.class_of(8 * max(LEAST_BUCKETS, doubled(count)))

    def _hash(self, shape: LeaseHash) -> float:
        packed = self.body_request(shape)
        if packed is not None:
            return self.class_of(packed)
        names = sum(span.count * self.class_of(sds(span.length)) for span in shape.member.spans(shape.count))
        values = shape.count * self.class_of(sds(MS_DIGITS))
        return self.class_of(_DICT) + self._entries(shape.count) + names + values

    def _queue(self, shape: Queue) -> float:
        """7.0 always makes a list of listpacks; 8.0 only where one does not do."""
        entries = entry_bytes_of(shape.member, shape.count)
        if HEADER_BYTES + entries <= NODE_LISTPACK and self.question.server is not Server.REDIS_7_0:
            return self.class_of(HEADER_BYTES + entries)
        return self.class_of(_QUICKLIST) + self.list_nodes(entries)


def _is_embedded(shape: Text) -> bool:
    return shape.length <= _EMBEDDED_TEXT and not shape.written_into
