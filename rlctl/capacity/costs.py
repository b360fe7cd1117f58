"""Microseconds that a server needs for one EVALSHA, measured on a machine with two cores, accurate to 20 %. Pure."""

from dataclasses import dataclass

from rlctl.capacity.request import SCRIPT, Algorithm, MemoryRequest, ServerVersion

# The range of limits for an algorithm whose cost does not depend on the limit.
_ANY = range(1, 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Microseconds for a decision; `reject` is None if rejections were not measured."""

    admit: float
    reject: float | None

    def to_json(self) -> dict[str, float | None]:
        return {"admit": self.admit, "reject": self.reject}


@dataclass(frozen=True, slots=True)
class _MeasuredCost:
    """Costs of an encoding for a range of limits, each as figures for Redis 7.0, Redis 8.0 and Valkey 8.1."""

    algorithm: Algorithm
    encoding: str
    limits: range
    admit: tuple[float, float, float]
    reject: tuple[float, float, float] | None = None


def _at(limit: int) -> range:
    return range(limit, limit + 1)


_LOG, _RING = Algorithm.ROLLING_WINDOW, Algorithm.ROLLING_RING
_TABLE = (
    _MeasuredCost(Algorithm.TOKEN_BUCKET, SCRIPT, _ANY, (3.7, 3.9, 3.3), (2.7, 2.9, 2.3)),
    _MeasuredCost(Algorithm.GCRA, SCRIPT, _ANY, (3.8, 3.8, 3.3), (2.5, 2.7, 2.1)),
    _MeasuredCost(Algorithm.GCRA, "int", _ANY, (3.1, 3.1, 2.7)),
    _MeasuredCost(Algorithm.FIXED_WINDOW, SCRIPT, _ANY, (3.6, 3.6, 3.2), (2.4, 2.5, 2.0)),
    _MeasuredCost(Algorithm.SLIDING_COUNTER, SCRIPT, _ANY, (3.4, 3.5, 3.1), (2.3, 2.5, 2.0)),
    _MeasuredCost(_RING, SCRIPT, _ANY, (4.7, 4.8, 4.2), (2.4, 2.6, 2.1)),
    _MeasuredCost(_LOG, SCRIPT, _at(100), (8.4, 8.1, 7.3), (4.5, 4.1, 3.3)),
    _MeasuredCost(_LOG, SCRIPT, _at(128), (9.0, 8.4, 7.5), (4.4, 4.0, 3.3)),
    _MeasuredCost(_LOG, SCRIPT, range(200, 1001), (7.1, 6.5, 5.7), (4.4, 4.1, 3.2)),
    _MeasuredCost(Algorithm.CONCURRENT, SCRIPT, range(50, 201), (6.8, 6.3, 5.6), (6.6, 6.0, 5.3)),
    _MeasuredCost(_LOG, "zset", _at(100), (5.3, 5.3, 4.8), (2.3, 2.4, 2.0)),
    _MeasuredCost(_LOG, "zset", _at(200), (4.8, 4.4, 4.5)),
    _MeasuredCost(_LOG, "zset", _at(1000), (4.3, 4.2, 3.4), (2.2, 2.7, 1.7)),
    _MeasuredCost(_LOG, "list", _at(100), (3.8, 3.8, 3.3)),
    _MeasuredCost(_LOG, "list", _at(1000), (4.3, 4.0, 3.3)),
    _MeasuredCost(_LOG, "stream", _at(100), (5.3, 5.7, 5.5)),
    _MeasuredCost(_LOG, "stream", _at(1000), (6.4, 6.9, 6.7)),
    _MeasuredCost(_LOG, "packed8", _at(100), (4.3, 3.8, 3.2)),
    _MeasuredCost(_LOG, "packed8", _at(1000), (4.4, 3.7, 3.0)),
)
_COLUMN = {ServerVersion.REDIS_7_0: 0, ServerVersion.REDIS_8_0: 1, ServerVersion.VALKEY_8_1: 2}
_DEFAULT_CAP = 128


def cost_of(request: MemoryRequest) -> Cost | None:
    """The measured cost of a request; None if exactly this request was not measured."""
    is_usual = request.zset_max_listpack_entries == _DEFAULT_CAP and request.member.name in {"ms", "text:36"}
    if not is_usual:
        return None
    algorithm = request.algorithm
    if algorithm is _RING and request.encoding != SCRIPT:
        algorithm = _LOG
    for one in _TABLE:
        if (one.algorithm, one.encoding) == (algorithm, request.encoding) and request.limit in one.limits:
            column = _COLUMN[request.server]
            return Cost(admit=one.admit[column], reject=one.reject[column] if one.reject else None)
    return None
