"""jemalloc's size classes: what an allocation of so many bytes really takes. Pure."""

from enum import StrEnum


class Allocator(StrEnum):
    """Debian links the system's jemalloc; upstream releases and official images bundle one with finer classes."""

    DEBIAN = "debian"
    UPSTREAM = "upstream"

    @property
    def quantum(self) -> int:
        """The least distance between two classes above 8 bytes."""
        return 16 if self is Allocator.DEBIAN else 8


def rounded(size_bytes: int, allocator: Allocator) -> int:
    """The class of an allocation: multiples of the quantum, then four classes for each doubling."""
    if size_bytes <= 8:
        return 8
    doubling = (size_bytes - 1).bit_length() - 1
    step = max(allocator.quantum, 1 << max(doubling - 2, 0))
    return -(-size_bytes // step) * step


def classes_of(malloc_stats: str) -> Allocator | None:
    """Which classes a server's MEMORY MALLOC-STATS shows: a bin of 24 bytes exists or does not; None without bins."""
    sizes = set()
    inside = False
    for line in malloc_stats.splitlines():
        words = line.split()
        if words[:2] == ["bins:", "size"]:
            inside = True
        elif inside and words and words[0].isdigit():
            sizes.add(int(words[0]))
        elif inside and words[:1] == ["large:"]:
            break
    if not sizes:
        return None
    return Allocator.UPSTREAM if 24 in sizes else Allocator.DEBIAN
