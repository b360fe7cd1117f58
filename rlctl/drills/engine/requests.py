"""Encodes the batches of a drill's client, and reads the outcomes from the answers. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from rlctl.drills.record.ledger import ID_DIGITS
from rlctl.drills.record.ops import HOT, WAITED, OpOutcome, outcome_of_error
from rlctl.limits.resp import bulk, command

# One answer: a decision (its first number is the verdict), a plain number, a status or an error.
_ANSWER = re.compile(rb"\*6\r\n:([01])\r\n(?::-?\d+\r\n){5}|:(\d+)\r\n|([-+])([^\r\n]*)\r\n")
HOT_EVERY = 4
_ID = b"$%d\r\n" % ID_DIGITS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWork:
    """The operations that a client sends.

    With `clock_us`, the client passes the time to the script, because a test cannot change a server's clock. This time
    is `clock_us` plus the monotonic clock; for every node but the first, `skew_us` is added.
    """

    mode: str  # limiter | bits
    sha1: str
    hot_key: str
    cold_keys: tuple[str, ...]
    ledger_key: str
    hot_args: tuple[str, ...]
    cold_args: tuple[str, ...]
    wait_replicas: int = 0
    wait_ms: int = 100
    clock_us: int | None = None
    skew_us: int = 0

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "ClientWork":
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})  # type: ignore[arg-type]


class BatchBuilder:
    """Builds batches from parts that are encoded once. Only the time and the operation's number are added later."""

    def __init__(self, work: ClientWork) -> None:
        self._work = work
        self._cold = [self._call(key, work.cold_args) for key in work.cold_keys]
        self._hot = self._call(work.hot_key, work.hot_args)
        self._wait = command(b"WAIT", b"%d" % work.wait_replicas, b"%d" % work.wait_ms) if work.wait_replicas else b""

    def batch(self, first: int, count: int, *, burst: bool, clock_us: int | None = None) -> tuple[bytes, bytes]:
        """Return the bytes of `count` operations from `first` on, and a flag byte for each (HOT or 0).

        Without `clock_us`, servers use their own clock.
        """
        if self._work.mode == "bits":
            parts = [self._set_bit(number) for number in range(first, first + count)]
            return b"".join(parts) + self._wait, bytes(count)
        parts, flags = [], bytearray(count)
        now = bulk(b"" if clock_us is None else b"%d" % clock_us)
        for place in range(count):
            number = first + place
            if burst and number % HOT_EVERY == 0:
                flags[place] = HOT
                parts.append(b"%b%b%b%09d\r\n" % (self._hot, now, _ID, number))
            else:
                parts.append(b"%b%b%b%09d\r\n" % (self._cold[number % len(self._cold)], now, _ID, number))
        return b"".join(parts) + self._wait, bytes(flags)

    @property
    def replies_to_wait(self) -> int:
        """Number of answers to WAIT, which follow the answers to the operations."""
        return 1 if self._wait else 0

    def _call(self, key: str, args: tuple[str, ...]) -> bytes:
        work = self._work
        words = ["EVALSHA", work.sha1, "2", key, work.ledger_key, *args]
        # `batch` appends the time and the operation's number.
        return b"*%d\r\n" % (len(words) + 2) + b"".join(bulk(word.encode()) for word in words)

    def _set_bit(self, number: int) -> bytes:
        return command(b"SETBIT", self._work.ledger_key.encode(), b"%d" % number, b"1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The outcome code of each operation, and the errors."""

    codes: bytes
    errors: tuple[str, ...]
    complete: bool


def read_answers(data: bytes, flags: bytes, requests: BatchBuilder, wait_replicas: int) -> Answers:
    """Classify a batch by its answers; operations without an answer are indeterminate."""
    found = list(_answers(data))
    codes = bytearray(flag | OpOutcome.INDETERMINATE for flag in flags)
    errors = []
    for place, answer in enumerate(found[: len(flags)]):
        if answer[3] == b"-":
            text = answer[4].decode("utf-8", "replace")
            errors.append(text)
            codes[place] = flags[place] | outcome_of_error(text)
        else:
            denied = answer[1] == b"0"
            codes[place] = flags[place] | (OpOutcome.DENIED if denied else OpOutcome.ADMITTED)
    expected = len(flags) + requests.replies_to_wait
    complete = len(found) >= expected
    if complete and wait_replicas and int(found[len(flags)][2] or 0) >= wait_replicas:
        codes = bytearray(code | WAITED for code in codes)
    return Answers(codes=bytes(codes), errors=tuple(errors), complete=complete)


def _answers(data: bytes) -> Iterator[re.Match[bytes]]:
    """The complete answers at the start of the data."""
    at = 0
    while (answer := _ANSWER.match(data, at)) is not None:
        yield answer
        at = answer.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """The node that serves a slot, as MOVED reports it."""

    host: str
    port: int


def redirect(error: str) -> Redirect | None:
    """Read a MOVED error; None for other errors."""
    words = error.split(" ")
    if words[0] != "MOVED" or len(words) != 3 or ":" not in words[2]:
        return None
    host, _, port = words[2].rpartition(":")
    return Redirect(host=host, port=int(port))
