"""Compares the encodings of an algorithm: bytes, time, and drawbacks. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlctl.capacity.costs import Cost, cost_of
from rlctl.capacity.layout.encodings import encodings_of
from rlctl.capacity.predict import Prediction, predict
from rlctl.capacity.request import SCRIPT, Algorithm, MemoryRequest

_GIVES_UP: dict[tuple[Algorithm, str], tuple[str, ...]] = {
    (Algorithm.TOKEN_BUCKET, SCRIPT): ("readable values: the state is three packed doubles",),
    (Algorithm.TOKEN_BUCKET, "hash-float"): ("exact fractions: a double changes when it is written as text",),
    (Algorithm.TOKEN_BUCKET, "hash-int"): ("fractions below a thousandth of a token",),
    (Algorithm.TOKEN_BUCKET, "hash-short"): ("fractions below a thousandth of a token", "readable field names"),
    (Algorithm.TOKEN_BUCKET, "packed"): ("readable values", "precision: a change of the rate rounds the stored value"),
    (Algorithm.TOKEN_BUCKET, "strings"): ("one key a user: both keys must share a hash slot and an expiry",),
    (Algorithm.TOKEN_BUCKET, "strings-float"): (
        "one key a user: both keys must share a hash slot and an expiry",
        "exact fractions: a double changes when it is written as text",
    ),
    (Algorithm.GCRA, SCRIPT): (),
    (Algorithm.GCRA, "int"): (),
    (Algorithm.GCRA, "text"): ("exact values: a double changes when it is written as text",),
    (Algorithm.GCRA, "hash-100"): (
        "an expiry for each user: a hundred users share that of the hash",
        "DEL, TTL and SCAN by user",
        "an even spread: a hundred users share a slot",
    ),
    (Algorithm.FIXED_WINDOW, SCRIPT): ("shared integers: the value contains the number of the window",),
    (Algorithm.FIXED_WINDOW, "string"): ("the number of the window: a key that expires late prolongs the window",),
    (Algorithm.FIXED_WINDOW, "hash"): ("an embedded value: the hash is an object of its own",),
    (Algorithm.SLIDING_COUNTER, SCRIPT): ("readable values",),
    (Algorithm.SLIDING_COUNTER, "strings"): ("one key a user, and atomic decisions without a script",),
    (Algorithm.SLIDING_COUNTER, "hash"): ("INCR: a script must change both counts",),
    (Algorithm.SLIDING_COUNTER, "hash-long"): ("INCR: a script must change both counts",),
    (Algorithm.SLIDING_COUNTER, "packed"): ("readable values", "counts above 2^32"),
    (Algorithm.SLIDING_COUNTER, "int64"): ("readable values", "counts above about 2^20 each"),
    (Algorithm.CONCURRENT, SCRIPT): ("a listpack for limits above zset-max-listpack-entries",),
    (Algorithm.CONCURRENT, "zset"): ("a listpack for limits above zset-max-listpack-entries",),
    (Algorithm.CONCURRENT, "hash"): ("order by time: finding expired leases reads all of them",),
}
_ROLLING: dict[str, tuple[str, ...]] = {
    "zset": ("a listpack for limits above zset-max-listpack-entries",),
    "list": ("removal from the middle, and ranges by time",),
    "stream": ("memory for small limits: one entry takes a block of 4 KB",),
    "packed8": ("readable values", "a change of the limit without rewriting the value"),
    "packed4": (
        "readable values",
        "a change of the limit without rewriting the value",
        "windows of 49 days and longer",
    ),
}
_SCRIPT_OF: dict[Algorithm, str] = {Algorithm.ROLLING_WINDOW: "zset", Algorithm.ROLLING_RING: "packed4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingComparison:
    """One encoding with its memory, its cost and its drawbacks."""

    prediction: Prediction
    cost: Cost | None
    gives_up: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        request = self.prediction.request
        return {
            "encoding": request.encoding,
            "member": request.member.name,
            "score": request.score.name,
            "bytes_per_user": self.prediction.bytes_per_user,
            "total_bytes": self.prediction.total_bytes,
            "ratio": self.prediction.ratio,
            "us_per_op": self.cost.to_json() if self.cost else None,
            "gives_up": list(self.gives_up),
            "own": request.encoding == SCRIPT,
        }


def compare(request: MemoryRequest, states: Mapping[str, int]) -> tuple[EncodingComparison, ...]:
    """Compare all encodings of the algorithm, sorted by bytes for each user, smallest first."""
    asked = (replace(request, encoding=name) for name in encodings_of(request.algorithm))
    rows = [
        EncodingComparison(prediction=predict(one, states), cost=cost_of(one), gives_up=gives_up(one)) for one in asked
    ]
    return tuple(sorted(rows, key=lambda row: row.prediction.bytes_per_user))


def gives_up(request: MemoryRequest) -> tuple[str, ...]:
    """The drawbacks of an encoding, apart from memory and time."""
    algorithm, encoding = request.algorithm, request.encoding
    if algorithm in _SCRIPT_OF:
        return _ROLLING[_SCRIPT_OF[algorithm] if encoding == SCRIPT else encoding]
    return _GIVES_UP[algorithm, encoding]
