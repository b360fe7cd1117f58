"""From raw replies and server counters to figures. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from rlctl.limits.failures import ErrorReply, failure_of
from rlctl.limits.resp import Incomplete, parse
from rlctl.observe.info import ServerInfo

# A reply of six integers takes seven lines, one integer takes one.
_DECISION_LINES = 7
_ADMITTED = b"*6\r\n:1\r\n"
_END = b"\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a server counted for one command: calls, and microseconds inside the server."""

    calls: int
    usec: int

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(calls=self.calls + other.calls, usec=self.usec + other.usec)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(calls=self.calls - other.calls, usec=self.usec - other.usec)

    @property
    def each_us(self) -> float | None:
        """Microseconds a call; None where nothing was called."""
        return self.usec / self.calls if self.calls else None


NOTHING_SPENT = Spent(calls=0, usec=0)


def command_spent(info: ServerInfo, command: str) -> Spent:
    """What the server has counted for a command since it started, or since CONFIG RESETSTAT."""
    stats = info.command(command)
    return Spent(calls=stats.calls, usec=stats.usec)


def is_whole(data: bytes, replies: int, *, decisions: bool) -> bool:
    """Whether so many replies have arrived; Failure where an error is among them.

    Lines are counted, because parsing every reply would measure the parser.
    """
    if data[:1] == b"-" or b"\r\n-" in data:
        _raise_first_error(data, replies)
    return data.count(_END) >= replies * (_DECISION_LINES if decisions else 1)


def admitted(data: bytes) -> int:
    """How many of these decisions admit."""
    return data.count(_ADMITTED)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that so many percent of all do not exceed; None where there is none."""
    if not values:
        return None
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None where nothing was."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _raise_first_error(data: bytes, replies: int) -> None:
    at = 0
    for _ in range(replies):
        try:
            reply, at = parse(data, at)
        except Incomplete:
            return
        if isinstance(reply, ErrorReply):
            raise failure_of(reply, "a node")
