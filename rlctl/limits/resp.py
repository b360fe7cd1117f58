"""The part of RESP2 that a limiter needs: encoding commands and parsing replies. Pure."""

from typing import Any

from rlctl.limits.failures import Cause, ErrorReply, Failure

Reply = int | bytes | None | ErrorReply | list[Any]

# Replies to a limiter are far smaller. A larger size means that the server is not Redis.
_LARGEST = 64 * 1024 * 1024
_LONGEST_LINE = 65536
_MOST_ITEMS = 262_144
_DEEPEST = 8
# A minus sign and the 19 digits of 2^63.
_LONGEST_NUMBER = 20
_ENDS = (b"\r\n", b"\r", b"")
_DECISION = b"*6\r\n:"
_NUMBERS = 6
_LONGEST_DECISION = 4 + _NUMBERS * (_LONGEST_NUMBER + 3)


def bulk(word: bytes) -> bytes:
    """Encode a word of a command as a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(word), word)


def command(*words: bytes) -> bytes:
    """Encode a command."""
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


ASKING = command(b"ASKING")


def decision_numbers(data: bytes) -> list[int] | None:
    """Parse the reply of a script, exactly six integers, faster than `parse`; None for any other data."""
    if data.startswith(_DECISION) and data.endswith(b"\r\n") and len(data) <= _LONGEST_DECISION:
        words = data[5:-2].split(b"\r\n:")
        if len(words) == _NUMBERS:
            try:
                return list(map(int, words))
            except ValueError:
                return None
    return None


class Incomplete(Exception):
    """The data ends before the reply does."""


def parse(data: bytes, at: int = 0) -> tuple[Reply, int]:
    """Parse the reply that begins at offset `at`; return the reply and the offset of its end.

    Raises Incomplete if the data ends before the reply, and Failure if the data is not RESP2 or is too large.
    """
    try:
        return _Parser(data).reply(at, _DEEPEST)
    except Incomplete:
        if len(data) - at > _LARGEST:
            raise _foreign(data, at) from None
        raise


class _Parser:
    """Parses one reply; `_room` is the number of array items that the reply may still contain."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._room = _MOST_ITEMS

    def reply(self, at: int, depth: int) -> tuple[Reply, int]:
        end = self._data.find(b"\r\n", at, at + _LONGEST_LINE)
        if end < 0:
            if len(self._data) - at >= _LONGEST_LINE:
                raise _foreign(self._data, at)
            raise Incomplete
        kind, line, after = self._data[at : at + 1], self._data[at + 1 : end], end + 2
        match kind:
            case b"+":
                return line, after
            case b"-":
                return ErrorReply(line.decode("utf-8", "replace")), after
            case b":":
                return self._number(line, at), after
            case b"$":
                return self._text(after, self._number(line, at))
            case b"*" if depth:
                return self._items(after, self._number(line, at), depth - 1)
            case _:
                raise _foreign(self._data, at)

    def _text(self, start: int, size: int) -> tuple[Reply, int]:
        if size < 0:
            return None, start
        end = start + size
        if size > _LARGEST or self._data[end : end + 2] not in _ENDS:
            raise _foreign(self._data, start)
        if len(self._data) < end + 2:
            raise Incomplete
        return self._data[start:end], end + 2

    def _items(self, at: int, count: int, depth: int) -> tuple[Reply, int]:
        if count < 0:
            return None, at
        self._room -= count
        if self._room < 0:
            raise _foreign(self._data, at)
        items: list[Reply] = []
        for _ in range(count):
            item, at = self.reply(at, depth)
            items.append(item)
        return items, at

    def _number(self, line: bytes, at: int) -> int:
        # int() would also accept blanks, underscores and thousands of digits.
        if len(line) > _LONGEST_NUMBER or not line.removeprefix(b"-").isdigit():
            raise _foreign(self._data, at)
        return int(line)


def _foreign(data: bytes, at: int) -> Failure:
    return Failure(Cause.ERROR, f"not a reply of Redis: {data[at : at + 40]!r}")
