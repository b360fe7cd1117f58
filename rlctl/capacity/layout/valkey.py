"""Valkey 8.1: one object holds a key's name, its expiry and a short value. Tables consist of cache lines. Pure."""

from typing import assert_never

from rlctl.capacity.layout.common import (
    MS_DIGITS,
    NODE_LISTPACK,
    KeyBytes,
    Layout,
    entry_bytes_of,
    sds,
)
from rlctl.capacity.layout.listpack import HEADER_BYTES
from rlctl.capacity.layout.shapes import EntryList, EntryStream, LeaseHash, Number, Shape, SmallHash, SortedSet, Text
from rlctl.capacity.layout.tables import Spread, valkey_array
from rlctl.capacity.request import SCRIPT

_OBJECT_AND_LENGTH, _POINTER_AND_LENGTH = 17, 9
_END = 8
_LARGEST_EMBEDDING = 64
_TEXT_HEADER = 4
_TABLE, _SLOT_TABLE = 72, 88
_QUICKLIST = 40


class ValkeyLayout(Layout):
    """The memory layout of Valkey 8.1."""

    def name_size(self) -> int:
        """Bytes of the object with the name and the expiry.

        PERSIST does not free the bytes of the expiry, so a key that a script wrote has them even without a TTL.
        """
        return self._object(has_ttl=self.request.has_ttl or self.request.encoding == SCRIPT)

    def key(self, spread: Spread) -> KeyBytes:
        ends = 1 if self.request.has_ttl else 0
        bare = self.class_of(self._object(has_ttl=False))
        filled = 0 if self.request.slots is None else spread.filled
        return KeyBytes(
            key=bare,
            ttl=self.class_of(self.name_size()) - bare,
            tables=(1 + ends) * spread.arrays(valkey_array) / spread.keys,
            cluster=(1 + ends) * self.class_of(_SLOT_TABLE) * filled / spread.keys,
        )

    def value(self, shape: Shape) -> float:
        """Bytes of a value outside the object of its key."""
        match shape:
            case Number():
                return 0
            case Text():
                return self._text(shape)
            case SmallHash(entry_bytes=entry_bytes):
                return self.class_of(HEADER_BYTES + entry_bytes)
            case SortedSet():
                return self._sorted_set(shape)
            case LeaseHash():
                return self._hash(shape)
            case EntryList():
                return self._list(shape)
            case EntryStream(count=count):
                return self.stream(count)
            case _:
                assert_never(shape)

    def _object(self, *, has_ttl: bool) -> int:
        return _OBJECT_AND_LENGTH + (_END if has_ttl else 0) + sds(self.request.key_length)

    def text_size(self, shape: Text) -> int:
        return sds(shape.length)

    def _text(self, shape: Text) -> float:
        own = self.name_size()
        whole = own + _TEXT_HEADER + shape.length
        if whole <= _LARGEST_EMBEDDING and not shape.written_into:
            return self.class_of(whole) - self.class_of(own)
        return self.class_of(self.text_size(shape))

    def _sorted_set(self, shape: SortedSet) -> float:
        packed = self.body_size(shape)
        if packed is not None:
            return self.class_of(packed)
        return self.skiplist_nodes(shape) + self.class_of(_TABLE) + valkey_array(shape.count)

    def _hash(self, shape: LeaseHash) -> float:
        packed = self.body_size(shape)
        if packed is not None:
            return self.class_of(packed)
        entries = sum(run.count * self._field(run.length) for run in shape.member.runs(shape.count))
        return self.class_of(_TABLE) + valkey_array(shape.count) + entries

    def _field(self, length: int) -> int:
        """Bytes of a hash field whose value is a Unix time. A short name and the value share one allocation."""
        whole = sds(length) + _TEXT_HEADER + MS_DIGITS
        if whole <= _LARGEST_EMBEDDING:
            return self.class_of(whole)
        return self.class_of(_POINTER_AND_LENGTH + sds(length)) + self.class_of(sds(MS_DIGITS))

    def _list(self, shape: EntryList) -> float:
        entries = entry_bytes_of(shape.member, shape.count)
        if HEADER_BYTES + entries <= NODE_LISTPACK:
            return self.class_of(HEADER_BYTES + entries)
        return self.class_of(_QUICKLIST) + self.list_nodes(entries)
