"""What stands behind a user's key, as the server sees it. Pure."""

from dataclasses import dataclass

from rlctl.capacity.layout.listpack import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A string that holds an integer of 64 bits."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string of so many bytes; one that was written into keeps its text apart from the object, however short."""

    length: int
    written_into: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """A small hash; the bytes of all its names and values as listpack entries."""

    entry_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedSet:
    """A log or a set of leases, by score."""

    count: int
    member: Form
    score: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A list of instants."""

    count: int
    member: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHash:
    """Leases by name, each with the millisecond at which it ends."""

    count: int
    member: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStream:
    """A stream with one short field in each entry."""

    count: int


Shape = Number | Text | Fields | SortedSet | Queue | LeaseHash | EntryStream


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState:
    """All keys of one user, or the key that many users share."""

    shapes: tuple[Shape, ...]
    users_per_key: int = 1

    @property
    def keys_per_user(self) -> float:
        """Two, one, or a hundredth."""
        return len(self.shapes) / self.users_per_key
