"""The types of values that limiters store, as the server sees them. Pure."""

from dataclasses import dataclass

from rlctl.capacity.layout.listpack import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A string that is a 64-bit integer."""

    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string of `length` bytes. After SETRANGE or APPEND (`written_into`) the server stores it outside the object."""

    length: int
    written_into: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallHash:
    """A hash in a listpack; `entry_bytes` is the size of all field names and values."""

    entry_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedSet:
    """A sorted set that stores a log or leases."""

    count: int
    member: Form
    score: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryList:
    """A list that stores a log."""

    count: int
    member: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHash:
    """A hash that stores the name of each lease and its expiry in milliseconds."""

    count: int
    member: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStream:
    """A stream that stores a log, with one short field in each entry."""

    count: int


Shape = Number | Text | SmallHash | SortedSet | EntryList | LeaseHash | EntryStream


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState:
    """The values of all keys of a user, or the value of a key that `users_per_key` users share."""

    shapes: tuple[Shape, ...]
    users_per_key: int = 1

    @property
    def keys_per_user(self) -> float:
        return len(self.shapes) / self.users_per_key
