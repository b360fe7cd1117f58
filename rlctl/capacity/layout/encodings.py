"""The encodings of each algorithm, and what a user at the full limit has stored in them. Pure."""

from collections.abc import Callable, Mapping

from rlctl.capacity.layout.listpack import Form, integer_entry, text_entry
from rlctl.capacity.layout.shapes import (
    EntryStream,
    Fields,
    LeaseHash,
    Number,
    Queue,
    Shape,
    SortedSet,
    Text,
    UserState,
)
from rlctl.capacity.request import SCRIPT, Algorithm, Question

_INT64 = 2**63
# 2026-10-09 in the units that states hold; only how many digits they have matters.
_NOW_US = 1_791_504_000_000_000
_NOW_MS = _NOW_US // 1_000
_WINDOW_ID = 29_858_400
_TOKENS_TEXT, _INSTANT_TEXT = 18, 17
_USERS_PER_HASH = 100
_US = Form(name="us")

_Build = Callable[[Question], UserState]


def encodings_of(algorithm: Algorithm) -> tuple[str, ...]:
    """The names there are, the script's own first."""
    return (SCRIPT, *_PUBLISHED[algorithm])


def state_of(question: Question, states: Mapping[str, int]) -> UserState:
    """What one user stores; `states` is the manifest's state format of each script. LookupError where unknown."""
    if question.encoding != SCRIPT:
        return _PUBLISHED[question.algorithm][question.encoding](question)
    return _SCRIPTS[question.algorithm, states[question.algorithm]](question)


def known_states() -> frozenset[tuple[str, int]]:
    """Which script states have a formula here."""
    return frozenset((algorithm.value, state) for algorithm, state in _SCRIPTS)


def _one(shape: Shape) -> UserState:
    return UserState(shapes=(shape,))


def _fields(*pairs: tuple[str, int]) -> UserState:
    """A hash; each field by its name and the bytes of its value's entry."""
    return _one(Fields(entry_bytes=sum(text_entry(len(name)) + value for name, value in pairs)))


def _own_fixed_window(question: Question) -> UserState:
    """The count, then 13 digits of window number."""
    value = question.limit * 10**13 + _NOW_US // (question.window_ms * 1_000)
    return _one(Number(value=value) if value < _INT64 else Text(length=len(str(value))))


def _counter_hash(question: Question) -> UserState:
    count = integer_entry(question.limit)
    return _fields(("c", count), ("p", count), ("w", integer_entry(_WINDOW_ID)))


def _long_counter_hash(question: Question) -> UserState:
    count = integer_entry(question.limit)
    window = integer_entry(_WINDOW_ID)
    return _fields(("current", count), ("previous", count), ("window", window), ("limit", count))


def _thousandths(question: Question) -> int:
    return question.limit * 1_000


def _log(question: Question) -> UserState:
    return _one(SortedSet(count=question.limit, member=question.member, score=question.score))


_ROLLING: dict[str, _Build] = {
    "zset": _log,
    "list": lambda question: _one(Queue(count=question.limit, member=question.member)),
    "stream": lambda question: _one(EntryStream(count=question.limit)),
    "packed8": lambda question: _one(Text(length=8 * question.limit + 8)),
    "packed4": lambda question: _one(Text(length=4 * question.limit + 12)),
}

_PUBLISHED: dict[Algorithm, dict[str, _Build]] = {
    Algorithm.TOKEN_BUCKET: {
        "hash-float": lambda _question: _fields(
            ("tokens", text_entry(_TOKENS_TEXT)), ("last_refill", text_entry(_INSTANT_TEXT))
        ),
        "hash-int": lambda question: _fields(
            ("tokens", integer_entry(_thousandths(question))), ("last_refill", integer_entry(_NOW_MS))
        ),
        "hash-short": lambda question: _fields(
            ("t", integer_entry(_thousandths(question))), ("l", integer_entry(_NOW_MS))
        ),
        "packed": lambda _question: _one(Text(length=16)),
        "strings": lambda question: UserState(shapes=(Number(value=_thousandths(question)), Number(value=_NOW_MS))),
        "strings-float": lambda _question: UserState(shapes=(Text(length=_TOKENS_TEXT), Text(length=_INSTANT_TEXT))),
    },
    Algorithm.GCRA: {
        "int": lambda _question: _one(Number(value=_NOW_US)),
        "text": lambda _question: _one(Text(length=_INSTANT_TEXT)),
        "hash-100": lambda _question: UserState(
            shapes=(
                Fields(
                    entry_bytes=sum(integer_entry(user) + integer_entry(_NOW_US) for user in range(_USERS_PER_HASH))
                ),
            ),
            users_per_key=_USERS_PER_HASH,
        ),
    },
    Algorithm.FIXED_WINDOW: {
        "string": lambda question: _one(Number(value=question.limit)),
        "hash": lambda question: _fields(("count", integer_entry(question.limit)), ("start", integer_entry(_NOW_MS))),
    },
    Algorithm.SLIDING_COUNTER: {
        "strings": lambda question: UserState(shapes=(Number(value=question.limit),) * 2),
        "hash": _counter_hash,
        "hash-long": _long_counter_hash,
        "packed": lambda _question: _one(Text(length=12)),
        "int64": lambda _question: _one(Number(value=_INT64 // 2)),
    },
    Algorithm.ROLLING_WINDOW: _ROLLING,
    Algorithm.ROLLING_RING: _ROLLING,
    Algorithm.CONCURRENT: {
        "zset": _log,
        "hash": lambda question: _one(LeaseHash(count=question.limit, member=question.member)),
    },
}

# A script that stores another state gets a higher number in the manifest, and a line here.
_SCRIPTS: dict[tuple[Algorithm, int], _Build] = {
    (Algorithm.TOKEN_BUCKET, 1): lambda _question: _one(Text(length=24)),
    (Algorithm.GCRA, 1): lambda _question: _one(Number(value=_NOW_US)),
    (Algorithm.FIXED_WINDOW, 1): _own_fixed_window,
    (Algorithm.SLIDING_COUNTER, 1): lambda _question: _one(Text(length=24)),
    (Algorithm.ROLLING_WINDOW, 1): lambda question: _one(SortedSet(count=question.limit, member=_US, score=_US)),
    (Algorithm.ROLLING_RING, 1): lambda question: _one(Text(length=24 + 4 * question.limit, written_into=True)),
    (Algorithm.CONCURRENT, 1): lambda question: _one(
        SortedSet(count=question.limit, member=question.member, score=_US)
    ),
}
