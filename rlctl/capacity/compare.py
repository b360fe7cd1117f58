"""All encodings of one algorithm, side by side: bytes, time, and what each gives up. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlctl.capacity.costs import Cost, cost_of
from rlctl.capacity.layout.encodings import encodings_of
from rlctl.capacity.predict import Prediction, predict
from rlctl.capacity.request import SCRIPT, Algorithm, Question

_GIVES_UP: dict[tuple[Algorithm, str], tuple[str, ...]] = {
    (Algorithm.TOKEN_BUCKET, SCRIPT): ("two short fields would be readable; this is three packed doubles",),
    (Algorithm.TOKEN_BUCKET, "hash-float"): ("fractions drift: text of a double is not the double",),
    (Algorithm.TOKEN_BUCKET, "hash-int"): ("the rest below a thousandth of a token",),
    (Algorithm.TOKEN_BUCKET, "hash-short"): ("the rest below a thousandth of a token", "names that say what they are"),
    (Algorithm.TOKEN_BUCKET, "packed"): ("readable values", "the scale: another rate rounds what is there"),
    (Algorithm.TOKEN_BUCKET, "strings"): ("one key a user: both must share a hash slot and an end",),
    (Algorithm.TOKEN_BUCKET, "strings-float"): (
        "one key a user: both must share a hash slot and an end",
        "fractions drift: text of a double is not the double",
    ),
    (Algorithm.GCRA, SCRIPT): (),
    (Algorithm.GCRA, "int"): (),
    (Algorithm.GCRA, "text"): ("whole numbers: text of a double is not the double",),
    (Algorithm.GCRA, "hash-100"): (
        "an end for each user: the hash has one for a hundred",
        "DEL, TTL and SCAN by user",
        "spread: a hundred users share a slot",
    ),
    (Algorithm.FIXED_WINDOW, SCRIPT): ("shared integers: the value also holds the window's number",),
    (Algorithm.FIXED_WINDOW, "string"): ("the window's number: a late end of the key prolongs the window",),
    (Algorithm.FIXED_WINDOW, "hash"): ("a value in the key's own object",),
    (Algorithm.SLIDING_COUNTER, SCRIPT): ("readable values",),
    (Algorithm.SLIDING_COUNTER, "strings"): ("one key a user, and the atomic step unless a script makes it",),
    (Algorithm.SLIDING_COUNTER, "hash"): ("INCR: both counts change in a script",),
    (Algorithm.SLIDING_COUNTER, "hash-long"): ("INCR: both counts change in a script",),
    (Algorithm.SLIDING_COUNTER, "packed"): ("readable values", "counts above 2^32"),
    (Algorithm.SLIDING_COUNTER, "int64"): ("readable values", "counts above about 2^20 each"),
    (Algorithm.CONCURRENT, SCRIPT): ("a packed form above the cap of the server's listpacks",),
    (Algorithm.CONCURRENT, "zset"): ("a packed form above the cap of the server's listpacks",),
    (Algorithm.CONCURRENT, "hash"): ("order by time: ended leases are found by reading them all",),
}
_ROLLING: dict[str, tuple[str, ...]] = {
    "zset": ("a packed form above the cap of the server's listpacks",),
    "list": ("removal from the middle, and ranges by time",),
    "stream": ("memory at small limits: one entry takes a block of 4 KB",),
    "packed8": ("readable values", "another limit without writing the value anew"),
    "packed4": ("readable values", "another limit without writing the value anew", "windows of 49 days and longer"),
}
_SCRIPT_OF: dict[Algorithm, str] = {Algorithm.ROLLING_WINDOW: "zset", Algorithm.ROLLING_RING: "packed4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One encoding."""

    prediction: Prediction
    cost: Cost | None
    gives_up: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """As `compare` shows it."""
        question = self.prediction.question
        return {
            "encoding": question.encoding,
            "member": question.member.name,
            "score": question.score.name,
            "bytes_per_user": self.prediction.bytes_per_user,
            "total_bytes": self.prediction.total_bytes,
            "ratio": self.prediction.ratio,
            "us_per_op": self.cost.to_json() if self.cost else None,
            "gives_up": list(self.gives_up),
            "own": question.encoding == SCRIPT,
        }


def compare(question: Question, states: Mapping[str, int]) -> tuple[Row, ...]:
    """Every encoding of the question's algorithm, cheapest first."""
    asked = (replace(question, encoding=name) for name in encodings_of(question.algorithm))
    rows = [Row(prediction=predict(one, states), cost=cost_of(one), gives_up=gives_up(one)) for one in asked]
    return tuple(sorted(rows, key=lambda row: row.prediction.bytes_per_user))


def gives_up(question: Question) -> tuple[str, ...]:
    """What the encoding costs beside memory and time."""
    algorithm, encoding = question.algorithm, question.encoding
    if algorithm in _SCRIPT_OF:
        return _ROLLING[_SCRIPT_OF[algorithm] if encoding == SCRIPT else encoding]
    return _GIVES_UP[algorithm, encoding]
