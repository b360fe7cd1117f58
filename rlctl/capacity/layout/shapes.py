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
    """A hash that is a listpack; `entry_bytes` counts all names and values."""

    entry_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedSet:
    """A log or a set of leases, ordered by score."""

    count: int
    member: Form
    score: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryList:
    """A log as a list."""

    count: int
    member: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHash:
    """Leases as a hash, each with its expiry in milliseconds."""

    count: int
    member: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStream:
    """A log as a stream with one short field in each entry."""

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
