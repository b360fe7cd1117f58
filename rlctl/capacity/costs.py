"""Microseconds inside the server for each EVALSHA, as measured on one machine with two cores; +-20 %. Pure."""

from dataclasses import dataclass

from rlctl.capacity.request import SCRIPT, Algorithm, Question, Server

# Where a cost does not grow with the limit, by construction.
_ANY = range(1, 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one decision takes; a rejection where it was measured."""

    admit: float
    reject: float | None

    def to_json(self) -> dict[str, float | None]:
        """As `compare` shows it."""
        return {"admit": self.admit, "reject": self.reject}


@dataclass(frozen=True, slots=True)
class _Measured:
    """One structure at some limits: admitted at the limit and rejected, on Redis 7.0, Redis 8.0 and Valkey 8.1."""

    algorithm: Algorithm
    encoding: str
    limits: range
    admit: tuple[float, float, float]
    reject: tuple[float, float, float] | None = None


def _at(limit: int) -> range:
    return range(limit, limit + 1)


_LOG, _RING = Algorithm.ROLLING_WINDOW, Algorithm.ROLLING_RING
_TABLE = (
    _Measured(Algorithm.TOKEN_BUCKET, SCRIPT, _ANY, (3.7, 3.9, 3.3), (2.7, 2.9, 2.3)),
    _Measured(Algorithm.GCRA, SCRIPT, _ANY, (3.8, 3.8, 3.3), (2.5, 2.7, 2.1)),
    _Measured(Algorithm.GCRA, "int", _ANY, (3.1, 3.1, 2.7)),
    _Measured(Algorithm.FIXED_WINDOW, SCRIPT, _ANY, (3.6, 3.6, 3.2), (2.4, 2.5, 2.0)),
    _Measured(Algorithm.SLIDING_COUNTER, SCRIPT, _ANY, (3.4, 3.5, 3.1), (2.3, 2.5, 2.0)),
    _Measured(_RING, SCRIPT, _ANY, (4.7, 4.8, 4.2), (2.4, 2.6, 2.1)),
    _Measured(_LOG, SCRIPT, _at(100), (8.4, 8.1, 7.3), (4.5, 4.1, 3.3)),
    _Measured(_LOG, SCRIPT, _at(128), (9.0, 8.4, 7.5), (4.4, 4.0, 3.3)),
    _Measured(_LOG, SCRIPT, range(200, 1001), (7.1, 6.5, 5.7), (4.4, 4.1, 3.2)),
    _Measured(Algorithm.CONCURRENT, SCRIPT, range(50, 201), (6.8, 6.3, 5.6), (6.6, 6.0, 5.3)),
    _Measured(_LOG, "zset", _at(100), (5.3, 5.3, 4.8), (2.3, 2.4, 2.0)),
    _Measured(_LOG, "zset", _at(200), (4.8, 4.4, 4.5)),
    _Measured(_LOG, "zset", _at(1000), (4.3, 4.2, 3.4), (2.2, 2.7, 1.7)),
    _Measured(_LOG, "list", _at(100), (3.8, 3.8, 3.3)),
    _Measured(_LOG, "list", _at(1000), (4.3, 4.0, 3.3)),
    _Measured(_LOG, "stream", _at(100), (5.3, 5.7, 5.5)),
    _Measured(_LOG, "stream", _at(1000), (6.4, 6.9, 6.7)),
    _Measured(_LOG, "packed8", _at(100), (4.3, 3.8, 3.2)),
    _Measured(_LOG, "packed8", _at(1000), (4.4, 3.7, 3.0)),
)
_COLUMN = {Server.REDIS_7_0: 0, Server.REDIS_8_0: 1, Server.VALKEY_8_1: 2}
_DEFAULT_CAP = 128


def cost_of(question: Question) -> Cost | None:
    """What was measured for exactly this; None where nobody did."""
    is_usual = question.zset_max_listpack_entries == _DEFAULT_CAP and question.member.name in {"ms", "text:36"}
    if not is_usual:
        return None
    algorithm = question.algorithm
    if algorithm is _RING and question.encoding != SCRIPT:
        algorithm = _LOG
    for one in _TABLE:
        if (one.algorithm, one.encoding) == (algorithm, question.encoding) and question.limit in one.limits:
            column = _COLUMN[question.server]
            return Cost(admit=one.admit[column], reject=one.reject[column] if one.reject else None)
    return None
