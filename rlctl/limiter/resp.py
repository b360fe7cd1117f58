"""The few words of RESP2 that a limiter needs: commands out, replies in. Pure."""

from typing import Any

from rlctl.limiter.failures import Cause, ErrorReply, Failure

Reply = int | bytes | None | ErrorReply | list[Any]
Numbers = list[int]

# Nothing a limiter asks for comes near this; whatever claims more speaks another protocol.
_LARGEST = 64 * 1024 * 1024
_DEEPEST = 8
_DECISION = b"*6\r\n:"
_NUMBERS = 6


def bulk(word: bytes) -> bytes:
    """One word of a command."""
    return b"$%d\r\n%b\r\n" % (len(word), word)


def command(*words: bytes) -> bytes:
    """A whole command."""
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


ASKING = command(b"ASKING")


def decision_numbers(data: bytes) -> list[int] | None:
    """The usual reply, six integers and nothing else, without the general parser; None for all others."""
    if data.startswith(_DECISION) and data.endswith(b"\r\n"):
        words = data[5:-2].split(b"\r\n:")
        if len(words) == _NUMBERS:
            try:
                return list(map(int, words))
            except ValueError:
                return None
    return None


class Incomplete(Exception):
    """The reply goes on in what has not arrived yet."""


def parse(data: bytes, at: int = 0, depth: int = 0) -> tuple[Reply, int]:
    """The reply that starts at `at`, and where the next one starts; Failure on what is no RESP2."""
    end = data.find(b"\r\n", at)
    if end < 0:
        if len(data) - at > _LARGEST:
            raise _foreign(data, at)
        raise Incomplete
    kind, line, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"+":
        return line, after
    if kind == b"-":
        return ErrorReply(line.decode("utf-8", "replace")), after
    if kind == b":":
        return _number(line, data, at), after
    if kind == b"$" or (kind == b"*" and depth < _DEEPEST):
        return _sized(data, after, _number(line, data, at), depth if kind == b"*" else None)
    raise _foreign(data, at)


def _sized(data: bytes, after: int, size: int, depth: int | None) -> tuple[Reply, int]:
    if size < 0:
        return None, after
    if size > _LARGEST:
        raise _foreign(data, after)
    return _text(data, after, size) if depth is None else _items(data, after, size, depth)


def _text(data: bytes, start: int, size: int) -> tuple[Reply, int]:
    if len(data) < start + size + 2:
        raise Incomplete
    return data[start : start + size], start + size + 2


def _items(data: bytes, at: int, count: int, depth: int) -> tuple[Reply, int]:
    items: list[Reply] = []
    for _ in range(count):
        item, at = parse(data, at, depth + 1)
        items.append(item)
    return items, at


def _number(line: bytes, data: bytes, at: int) -> int:
    try:
        return int(line)
    except ValueError:
        raise _foreign(data, at) from None


def _foreign(data: bytes, at: int) -> Failure:
    return Failure(Cause.ERROR, f"not a reply of Redis: {data[at : at + 40]!r}")
