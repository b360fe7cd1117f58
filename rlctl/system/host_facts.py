"""Facts of one machine, and parsers of the kernel's text files."""

from dataclasses import dataclass
from typing import Final, Literal

Platform = Literal["linux", "darwin"]
PortRange = tuple[int, int]

UNLIMITED: Final = 2**63 - 1
_KIB: Final = 1024
_LONGEST_NUMBER: Final = 20  # digits of the largest 64-bit number
_HIGHEST_PORT: Final = 65_535
_CLOCK_UNSYNCHRONISED: Final = 0x40  # STA_UNSYNC of <sys/timex.h>
_CLOCK_ERROR: Final = 5  # TIME_ERROR, which adjtimex returns while the clock is not synchronised


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Facts of a machine on which servers run. A fact that could not be read is None."""

    platform: Platform | None = None
    overcommit_memory: int | None = None
    thp_mode: str | None = None
    open_files_soft: int | None = None
    open_files_hard: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    somaxconn: int | None = None
    ephemeral_ports: PortRange | None = None
    reserved_ports: tuple[PortRange, ...] | None = None
    clock_synchronised: bool | None = None
    clock_offset_s: float | None = None
    state_folder: str | None = None
    disk_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    cpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None


def parse_platform(text: str) -> Platform | None:
    """The platform for a value of `sys.platform`; None if rlctl does not support it."""
    if text.startswith("linux"):
        return "linux"
    return "darwin" if text == "darwin" else None


def parse_count(text: str) -> int | None:
    """Parse a text that is one number; None for any other text and for a negative number."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= _LONGEST_NUMBER else None


def parse_thp_mode(text: str) -> str | None:
    """The huge page mode in brackets, such as `madvise` in `always [madvise] never`."""
    chosen = [word[1:-1] for word in text.split() if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(chosen) == 1 and chosen[0] else None


def parse_port_range(text: str) -> PortRange | None:
    """First and last port of `ip_local_port_range`; None if the text is invalid."""
    ports = [parse_count(word) for word in text.split()]
    if len(ports) != 2:
        return None
    low, high = ports
    if low is None or high is None or not 0 <= low <= high <= _HIGHEST_PORT:
        return None
    return low, high


def parse_reserved_ports(text: str) -> tuple[PortRange, ...] | None:
    """The port ranges in `ip_local_reserved_ports`, such as `8080,17000-17005`; None if the text is invalid."""
    if not text.strip():
        return ()
    words = [part.strip().split("-") for part in text.split(",")]
    ranges = [parse_port_range(f"{word[0]} {word[-1]}") if len(word) <= 2 else None for word in words]
    known = tuple(ports for ports in ranges if ports is not None)
    return known if len(known) == len(ranges) else None


def parse_meminfo(text: str) -> MemoryFacts:
    """Memory and swap of `/proc/meminfo`, in bytes; a value is None if its line is missing."""
    lines = (line.partition(":") for line in text.splitlines())
    found = {label.strip(): _kib_to_bytes(value) for label, _, value in lines}
    swap_total, swap_free = found.get("SwapTotal"), found.get("SwapFree")
    return MemoryFacts(
        total_bytes=found.get("MemTotal"),
        available_bytes=found.get("MemAvailable"),
        swap_total_bytes=swap_total,
        swap_used_bytes=None if swap_total is None or swap_free is None else max(0, swap_total - swap_free),
    )


def _kib_to_bytes(text: str) -> int | None:
    words = text.split()
    if len(words) != 2 or words[1] != "kB":
        return None
    count = parse_count(words[0])
    return None if count is None else count * _KIB


def parse_clock(returned: int, status: int) -> bool | None:
    """Whether the clock is synchronised, by the return value and status word of `adjtimex`; None if the call failed."""
    if returned < 0:
        return None
    return returned != _CLOCK_ERROR and not status & _CLOCK_UNSYNCHRONISED


def parse_limit(value: int, infinity: int) -> int:
    """A resource limit as a number that can be compared; `UNLIMITED` if the resource has no limit."""
    return UNLIMITED if value == infinity or value < 0 else value
