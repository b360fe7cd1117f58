"""Sizes and rules that the memory layouts of all servers share. Pure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import assert_never

from rlctl.capacity.layout.allocator import rounded
from rlctl.capacity.layout.listpack import HEADER_BYTES, Form, text_entry
from rlctl.capacity.layout.shapes import EntryList, EntryStream, LeaseHash, Number, Shape, SmallHash, SortedSet, Text
from rlctl.capacity.layout.tables import Spread
from rlctl.capacity.request import MemoryRequest, ServerVersion

OBJECT = 16
LISTPACK_TEXT = 64
HASH_LISTPACK_ENTRIES = 512
NODE_LISTPACK = 8_192
_LIST_NODE = 40
_STREAM, _RADIX_TREE, _STREAM_BLOCK, _STREAM_ENTRIES = 4_224, 24, 1_360, 100
_SKIPLIST = 32
_SKIPLIST_HEAD = 24 + 32 * 16
MS_DIGITS = 13


def sds(length: int) -> int:
    """Bytes of a simple dynamic string (SDS) with its header and final zero."""
    header = 1 if length < 32 else 3 if length < 256 else 5 if length < 65_536 else 9
    return header + length + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBytes:
    """Bytes of a key without its value, on average over all keys of the server."""

    key: float
    ttl: float
    tables: float
    cluster: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(ABC):
    """The memory layout of one server for one request."""

    request: MemoryRequest

    def class_of(self, size_bytes: int) -> int:
        """The bytes that the allocator uses for `size_bytes`."""
        return rounded(size_bytes, self.request.allocator)

    @abstractmethod
    def key(self, spread: Spread) -> KeyBytes:
        """Bytes of the key, of the entry for its expiry, and of its share of the tables."""

    @abstractmethod
    def value(self, shape: Shape) -> float:
        """Bytes of the value."""

    @abstractmethod
    def name_size(self) -> int:
        """Requested bytes of the allocation that holds the name of the key."""

    @abstractmethod
    def text_size(self, shape: Text) -> int:
        """Requested bytes of the allocation that holds a text."""

    def body_size(self, shape: Shape) -> int | None:
        """Requested bytes of the one allocation that holds a value's content; None if there is no such allocation."""
        match shape:
            case Number() | EntryStream():
                return None
            case Text():
                return self.text_size(shape)
            case SmallHash(entry_bytes=entry_bytes):
                return HEADER_BYTES + entry_bytes
            case SortedSet(count=count, member=member, score=score):
                size = HEADER_BYTES + entry_bytes_of(member, count) + count * self.score_entry(score)
                return size if self.is_listpack(shape) else None
            case EntryList(count=count, member=member):
                size = HEADER_BYTES + entry_bytes_of(member, count)
                return size if size <= NODE_LISTPACK else None
            case LeaseHash(count=count, member=member):
                size = HEADER_BYTES + entry_bytes_of(member, count) + count * text_entry_ms()
                return size if self.is_listpack(shape) else None
            case _:
                assert_never(shape)

    def is_listpack(self, shape: SortedSet | LeaseHash) -> bool:
        """Whether the server stores the value as a listpack."""
        most = HASH_LISTPACK_ENTRIES if isinstance(shape, LeaseHash) else self.request.zset_max_listpack_entries
        return shape.count <= most and longest_text(shape) <= LISTPACK_TEXT

    def score_entry(self, score: Form) -> int:
        """Bytes of a score in a listpack. Redis 7.0 writes doubles with 17 digits, other servers with fewer."""
        if score.name == "float":
            return text_entry(score.text_length + (1 if self.request.server is ServerVersion.REDIS_7_0 else 0))
        return score.runs(1)[0].entry_bytes

    def skiplist_nodes(self, shape: SortedSet) -> float:
        """Bytes of a skip list: its header, its nodes, and the text of each member."""
        nodes = shape.count * self._mean_node()
        texts = sum(run.count * self.class_of(sds(run.length)) for run in shape.member.runs(shape.count))
        return self.class_of(16) + _SKIPLIST + self.class_of(_SKIPLIST_HEAD) + nodes + texts

    def list_nodes(self, entry_bytes: int) -> float:
        """Bytes of a list of listpacks: full listpacks, and a last listpack with the remaining entries."""
        full, rest = divmod(entry_bytes, NODE_LISTPACK - HEADER_BYTES)
        node = self.class_of(_LIST_NODE)
        return full * (node + NODE_LISTPACK) + node + self.class_of(HEADER_BYTES + rest)

    def stream(self, count: int) -> float:
        """Bytes of a stream: a radix tree of blocks with a hundred entries each."""
        return _STREAM + self.class_of(_RADIX_TREE) + _STREAM_BLOCK * (-(-count // _STREAM_ENTRIES) - 1)

    def _mean_node(self) -> float:
        """Mean bytes of a skip list node: each level has a quarter of the nodes of the level below."""
        return sum(0.75 * 0.25 ** (level - 1) * self.class_of(24 + 16 * level) for level in range(1, 33))


def entry_bytes_of(form: Form, count: int) -> int:
    """Bytes of `count` members as listpack entries."""
    return sum(run.count * run.entry_bytes for run in form.runs(count))


def longest_text(shape: SortedSet | LeaseHash) -> int:
    """The length of the longest member as text."""
    return max(run.length for run in shape.member.runs(shape.count))


def text_entry_ms() -> int:
    """Bytes of a Unix time in milliseconds as a listpack entry."""
    return Form(name="ms").runs(1)[0].entry_bytes
