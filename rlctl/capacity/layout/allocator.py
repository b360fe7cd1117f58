"""The size classes of jemalloc: the bytes that an allocation takes. Pure."""

from enum import StrEnum


class Allocator(StrEnum):
    """The jemalloc of a server: the system library on Debian, or one with finer classes in upstream releases."""

    DEBIAN = "debian"
    UPSTREAM = "upstream"

    @property
    def quantum(self) -> int:
        """The smallest distance between two classes above 8 bytes."""
        return 16 if self is Allocator.DEBIAN else 8


def rounded(size_bytes: int, allocator: Allocator) -> int:
    """Round up to a size class. The classes are multiples of the quantum, then four for each doubling of the size."""
    if size_bytes <= 8:
        return 8
    doubling = (size_bytes - 1).bit_length() - 1
    step = max(allocator.quantum, 1 << max(doubling - 2, 0))
    return -(-size_bytes // step) * step


def classes_of(malloc_stats: str) -> Allocator | None:
    """Detect the allocator from MEMORY MALLOC-STATS. Only upstream has a bin of 24 bytes. None if there are no bins."""
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
