"""The encodings of each algorithm, and a user's state at the full limit in each encoding. Pure."""

from collections.abc import Callable, Mapping

from rlctl.capacity.layout.listpack import Form, integer_entry, text_entry
from rlctl.capacity.layout.shapes import (
    EntryList,
    EntryStream,
    LeaseHash,
    Number,
    Shape,
    SmallHash,
    SortedSet,
    Text,
    UserState,
)
from rlctl.capacity.request import SCRIPT, Algorithm, MemoryRequest

_INT64 = 2**63
# 2026-10-09T00:00Z in microseconds, milliseconds and minutes. Only the number of digits matters.
_NOW_US = 1_791_504_000_000_000
_NOW_MS = _NOW_US // 1_000
_WINDOW_ID = 29_858_400
_TOKENS_TEXT, _INSTANT_TEXT = 18, 17
_USERS_PER_HASH = 100
_US = Form(name="us")

_Build = Callable[[MemoryRequest], UserState]


def encodings_of(algorithm: Algorithm) -> tuple[str, ...]:
    """The names of the encodings of an algorithm. The encoding of the script is the first."""
    return (SCRIPT, *_PUBLISHED[algorithm])


def state_of(request: MemoryRequest, states: Mapping[str, int]) -> UserState:
    """The state of one user. Raises LookupError if the encoding or the state format in `states` has no formula."""
    if request.encoding != SCRIPT:
        return _PUBLISHED[request.algorithm][request.encoding](request)
    return _SCRIPTS[request.algorithm, states[request.algorithm]](request)


def known_states() -> frozenset[tuple[str, int]]:
    """The state formats that have a formula, as pairs of script name and format number."""
    return frozenset((algorithm.value, state) for algorithm, state in _SCRIPTS)


def _one(shape: Shape) -> UserState:
    return UserState(shapes=(shape,))


def _fields(*pairs: tuple[str, int]) -> UserState:
    """A small hash, made from the name of each field and the listpack bytes of its value."""
    return _one(SmallHash(entry_bytes=sum(text_entry(len(name)) + value for name, value in pairs)))


def _own_fixed_window(request: MemoryRequest) -> UserState:
    """An integer: the count, followed by the number of the window in 13 digits."""
    value = request.limit * 10**13 + _NOW_US // (request.window_ms * 1_000)
    return _one(Number(value=value) if value < _INT64 else Text(length=len(str(value))))


def _counter_hash(request: MemoryRequest) -> UserState:
    count = integer_entry(request.limit)
    return _fields(("c", count), ("p", count), ("w", integer_entry(_WINDOW_ID)))


def _long_counter_hash(request: MemoryRequest) -> UserState:
    count = integer_entry(request.limit)
    window = integer_entry(_WINDOW_ID)
    return _fields(("current", count), ("previous", count), ("window", window), ("limit", count))


def _thousandths(request: MemoryRequest) -> int:
    return request.limit * 1_000


def _log(request: MemoryRequest) -> UserState:
    return _one(SortedSet(count=request.limit, member=request.member, score=request.score))


_ROLLING: dict[str, _Build] = {
    "zset": _log,
    "list": lambda request: _one(EntryList(count=request.limit, member=request.member)),
    "stream": lambda request: _one(EntryStream(count=request.limit)),
    "packed8": lambda request: _one(Text(length=8 * request.limit + 8)),
    "packed4": lambda request: _one(Text(length=4 * request.limit + 12)),
}

_PUBLISHED: dict[Algorithm, dict[str, _Build]] = {
    Algorithm.TOKEN_BUCKET: {
        "hash-float": lambda _request: _fields(
            ("tokens", text_entry(_TOKENS_TEXT)), ("last_refill", text_entry(_INSTANT_TEXT))
        ),
        "hash-int": lambda request: _fields(
            ("tokens", integer_entry(_thousandths(request))), ("last_refill", integer_entry(_NOW_MS))
        ),
        "hash-short": lambda request: _fields(
            ("t", integer_entry(_thousandths(request))), ("l", integer_entry(_NOW_MS))
        ),
        "packed": lambda _request: _one(Text(length=16)),
        "strings": lambda request: UserState(shapes=(Number(value=_thousandths(request)), Number(value=_NOW_MS))),
        "strings-float": lambda _request: UserState(shapes=(Text(length=_TOKENS_TEXT), Text(length=_INSTANT_TEXT))),
    },
    Algorithm.GCRA: {
        "int": lambda _request: _one(Number(value=_NOW_US)),
        "text": lambda _request: _one(Text(length=_INSTANT_TEXT)),
        "hash-100": lambda _request: UserState(
            shapes=(
                SmallHash(
                    entry_bytes=sum(integer_entry(user) + integer_entry(_NOW_US) for user in range(_USERS_PER_HASH))
                ),
            ),
            users_per_key=_USERS_PER_HASH,
        ),
    },
    Algorithm.FIXED_WINDOW: {
        "string": lambda request: _one(Number(value=request.limit)),
        "hash": lambda request: _fields(("count", integer_entry(request.limit)), ("start", integer_entry(_NOW_MS))),
    },
    Algorithm.SLIDING_COUNTER: {
        "strings": lambda request: UserState(shapes=(Number(value=request.limit),) * 2),
        "hash": _counter_hash,
        "hash-long": _long_counter_hash,
        "packed": lambda _request: _one(Text(length=12)),
        "int64": lambda _request: _one(Number(value=_INT64 // 2)),
    },
    Algorithm.ROLLING_WINDOW: _ROLLING,
    Algorithm.ROLLING_RING: _ROLLING,
    Algorithm.CONCURRENT: {
        "zset": _log,
        "hash": lambda request: _one(LeaseHash(count=request.limit, member=request.member)),
    },
}

# A script that changes its state format gets a higher number in the manifest and a new line here.
_SCRIPTS: dict[tuple[Algorithm, int], _Build] = {
    (Algorithm.TOKEN_BUCKET, 1): lambda _request: _one(Text(length=24)),
    (Algorithm.GCRA, 1): lambda _request: _one(Number(value=_NOW_US)),
    (Algorithm.FIXED_WINDOW, 1): _own_fixed_window,
    (Algorithm.SLIDING_COUNTER, 1): lambda _request: _one(Text(length=24)),
    (Algorithm.ROLLING_WINDOW, 1): lambda request: _one(SortedSet(count=request.limit, member=_US, score=_US)),
    (Algorithm.ROLLING_RING, 1): lambda request: _one(Text(length=24 + 4 * request.limit, written_into=True)),
    (Algorithm.CONCURRENT, 1): lambda request: _one(SortedSet(count=request.limit, member=request.member, score=_US)),
}
