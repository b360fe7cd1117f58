"""What the memory layouts of all server families have in common. Pure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import assert_never

from rlctl.capacity.layout.allocator import rounded
from rlctl.capacity.layout.listpack import HEADER_BYTES, Form, text_entry
from rlctl.capacity.layout.shapes import EntryStream, Fields, LeaseHash, Number, Queue, Shape, SortedSet, Text
from rlctl.capacity.layout.tables import Spread
from rlctl.capacity.request import Question, Server

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
    """A string with its header and final zero."""
    header = 1 if length < 32 else 3 if length < 256 else 5 if length < 65_536 else 9
    return header + length + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBytes:
    """What a key costs before its value, on average over all keys of the server."""

    key: float
    ttl: float
    tables: float
    cluster: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(ABC):
    """One server family with one set of size classes."""

    question: Question

    def class_of(self, size_bytes: int) -> int:
        """What the allocator gives."""
        return rounded(size_bytes, self.question.allocator)

    @abstractmethod
    def key(self, spread: Spread) -> KeyBytes:
        """The key object, the entry for its end, and its share of the tables."""

    @abstractmethod
    def value(self, shape: Shape) -> float:
        """Everything behind the key."""

    @abstractmethod
    def name_request(self) -> int:
        """The allocation that holds the key's name."""

    @abstractmethod
    def text_request(self, shape: Text) -> int:
        """The allocation that holds a text."""

    def body_request(self, shape: Shape) -> int | None:
        """The value's one large allocation; None where there is none that grows by bytes."""
        match shape:
            case Number() | EntryStream():
                return None
            case Text():
                return self.text_request(shape)
            case Fields(entry_bytes=entry_bytes):
                return HEADER_BYTES + entry_bytes
            case SortedSet(count=count, member=member, score=score):
                size = HEADER_BYTES + entry_bytes_of(member, count) + count * self.score_entry(score)
                return size if self.is_listpack(shape) else None
            case Queue(count=count, member=member):
                size = HEADER_BYTES + entry_bytes_of(member, count)
                return size if size <= NODE_LISTPACK else None
            case LeaseHash(count=count, member=member):
                size = HEADER_BYTES + entry_bytes_of(member, count) + count * text_entry_ms()
                return size if self.is_listpack(shape) else None
            case _:
                assert_never(shape)

    def is_listpack(self, shape: SortedSet | LeaseHash) -> bool:
        """Whether the server keeps it packed."""
        most = HASH_LISTPACK_ENTRIES if isinstance(shape, LeaseHash) else self.question.zset_max_listpack_entries
        return shape.count <= most and longest_text(shape) <= LISTPACK_TEXT

    def score_entry(self, score: Form) -> int:
        """A score in a listpack; 7.0 writes every double with 17 digits, the others write the shortest."""
        if score.name == "float":
            return text_entry(score.text_length + (1 if self.question.server is Server.REDIS_7_0 else 0))
        return score.spans(1)[0].entry_bytes

    def skiplist_nodes(self, shape: SortedSet) -> float:
        """Nodes of one level or more, each with its member's text, and the skip list itself."""
        nodes = shape.count * self._mean_node()
        texts = sum(span.count * self.class_of(sds(span.length)) for span in shape.member.spans(shape.count))
        return self.class_of(16) + _SKIPLIST + self.class_of(_SKIPLIST_HEAD) + nodes + texts

    def list_nodes(self, entry_bytes: int) -> float:
        """A list of listpacks: full ones, and the last one as large as it must be."""
        full, rest = divmod(entry_bytes, NODE_LISTPACK - HEADER_BYTES)
        node = self.class_of(_LIST_NODE)
        return full * (node + NODE_LISTPACK) + node + self.class_of(HEADER_BYTES + rest)

    def stream(self, count: int) -> float:
        """Blocks of a hundred entries in a radix tree; the last one has room for more."""
        return _STREAM + self.class_of(_RADIX_TREE) + _STREAM_BLOCK * (-(-count // _STREAM_ENTRIES) - 1)

    def _mean_node(self) -> float:
        """Each further level has a quarter of the nodes of the one below."""
        return sum(0.75 * 0.25 ** (level - 1) * self.class_of(24 + 16 * level) for level in range(1, 33))


def entry_bytes_of(form: Form, count: int) -> int:
    """The listpack entries of so many members."""
    return sum(span.count * span.entry_bytes for span in form.spans(count))


def longest_text(shape: SortedSet | LeaseHash) -> int:
    """The longest member as text."""
    return max(span.length for span in shape.member.spans(shape.count))


def text_entry_ms() -> int:
    """An instant in milliseconds as a listpack entry."""
    return Form(name="ms").spans(1)[0].entry_bytes
