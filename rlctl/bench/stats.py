"""Statistics from raw replies and server counters. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from rlctl.limits.failures import ErrorReply, failure_of
from rlctl.limits.resp import Incomplete, parse
from rlctl.observe.info import ServerInfo

# The reply of a script, a list of six integers, has seven lines. The reply of INCR, one integer, has one line.
_DECISION_LINES = 7
_ADMITTED = b"*6\r\n:1\r\n"
_END = b"\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCost:
    """The calls of a command, and the microseconds that the server spent on them."""

    calls: int
    usec: int

    def __add__(self, other: "CommandCost") -> "CommandCost":
        return CommandCost(calls=self.calls + other.calls, usec=self.usec + other.usec)

    def __sub__(self, other: "CommandCost") -> "CommandCost":
        return CommandCost(calls=self.calls - other.calls, usec=self.usec - other.usec)

    @property
    def us_per_call(self) -> float | None:
        """Microseconds for each call; None without calls."""
        return self.usec / self.calls if self.calls else None


NO_COST = CommandCost(calls=0, usec=0)


def command_cost(info: ServerInfo, command: str) -> CommandCost:
    """The cost of a command since the start of the server or the last CONFIG RESETSTAT."""
    stats = info.command(command)
    return CommandCost(calls=stats.calls, usec=stats.usec)


def is_whole(data: bytes, replies: int, *, decisions: bool) -> bool:
    """Whether `replies` replies have arrived; raises Failure for an error reply.

    Counts lines instead of parsing, because a parser would dominate the measured time.
    """
    if data[:1] == b"-" or b"\r\n-" in data:
        _raise_first_error(data, replies)
    return data.count(_END) >= replies * (_DECISION_LINES if decisions else 1)


def admitted(data: bytes) -> int:
    """The number of decisions that admit."""
    return data.count(_ADMITTED)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The nearest-rank percentile; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]


def middle(values: Iterable[float | None]) -> float | None:
    """The median of the values that are not None; None if there are no such values."""
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
