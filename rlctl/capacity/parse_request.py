"""Parses command-line options, or a JSON object with the same names, into a memory request. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.layout.encodings import encodings_of, known_states, state_of
from rlctl.capacity.layout.listpack import MOST_TEXT, parse_form
from rlctl.capacity.layout.shapes import Text
from rlctl.capacity.request import SCRIPT, SLOTS, Algorithm, MemoryRequest, ServerVersion
from rlctl.errors import UsageFault
from rlctl.files.mistakes import shown
from rlctl.files.units import parse_duration
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.topology.model import EvictionPolicy

MOST_LIMIT = 1_000_000_000
MOST_USERS = 1_000_000_000_000
MOST_CAP = 2_147_483_647
_LONGEST_STRING = 512 * 1024 * 1024
_DIGITS = re.compile(r"-?[0-9]{1,30}")
Reader = Callable[[object], Any]
# Maps the parameters of each algorithm's script to the attributes of a request.
_ARGUMENTS: dict[Algorithm, Mapping[str, str]] = {
    Algorithm.TOKEN_BUCKET: {"capacity": "limit", "rate": "rate", "period_ms": "period_ms"},
    Algorithm.GCRA: {"burst": "limit", "rate": "rate", "period_ms": "period_ms"},
    Algorithm.FIXED_WINDOW: {"limit": "limit", "window_ms": "window_ms"},
    Algorithm.SLIDING_COUNTER: {"limit": "limit", "window_ms": "window_ms"},
    Algorithm.ROLLING_WINDOW: {"limit": "limit", "window_ms": "window_ms"},
    Algorithm.ROLLING_RING: {"limit": "limit", "window_ms": "window_ms"},
    Algorithm.CONCURRENT: {"limit": "limit", "lease_ms": "window_ms"},
}


def _whole(least: int, most: int) -> Reader:
    def read(value: object) -> int:
        number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise ValueError(f"{shown(str(value))} is not a whole number from {least} to {most}")
        return number

    return read


def _one_of(kind: type[StrEnum]) -> Reader:
    words = [member.value for member in kind]

    def read(value: object) -> StrEnum:
        if value not in words:
            raise ValueError(f"{shown(str(value))} is not one of {', '.join(words)}")
        return kind(str(value))

    return read


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{shown(str(value))} is neither true nor false")  # noqa: TRY004  an invalid value to the user, not a wrong type
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(str(value))} is not text")  # noqa: TRY004  likewise
    return value


READERS: dict[str, Reader] = {
    "algorithm": _one_of(Algorithm),
    "encoding": _text,
    "limit": _whole(1, MOST_LIMIT),
    "users": _whole(1, MOST_USERS),
    "key_length": _whole(1, MOST_TEXT),
    "member": lambda value: parse_form(_text(value)),
    "score": lambda value: parse_form(_text(value), score=True),
    "rate": _whole(1, MOST_LIMIT),
    "period": lambda value: parse_duration(_text(value)),
    "window": lambda value: parse_duration(_text(value)),
    "no_ttl": _flag,
    "server": _one_of(ServerVersion),
    "allocator": _one_of(Allocator),
    "policy": _one_of(EvictionPolicy),
    "zset_max_listpack_entries": _whole(0, MOST_CAP),
    "cluster": _flag,
    "slots": _whole(1, SLOTS),
}
_ATTRIBUTES = {"period": "period_ms", "window": "window_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParser:
    """Parses requests for one release of the scripts."""

    # The state format of each script, by script name.
    states: Mapping[str, int]

    def parse(self, given: Mapping[str, object]) -> MemoryRequest:
        """Parse options, named with underscores such as `key_length`. Raises UsageFault for an invalid option."""
        read = {name: _read(name, value) for name, value in given.items()}
        if "algorithm" not in read:
            words = ", ".join(algorithm.value for algorithm in Algorithm)
            raise UsageFault("--algorithm is missing", hint=f"one of {words}")
        algorithm = read["algorithm"]
        if read.get("slots") is not None and not read.get("cluster"):
            raise UsageFault("--slots needs --cluster", hint="add --cluster")
        values = {_ATTRIBUTES.get(name, name): value for name, value in read.items()}
        values["slots"] = values.get("slots", SLOTS) if values.pop("cluster", False) else None
        values["has_ttl"] = not values.pop("no_ttl", False)
        if algorithm is Algorithm.CONCURRENT:
            values = {"limit": 50, "member": parse_form("text:36")} | values
        request = MemoryRequest(**{"rate": values.get("limit", 100)} | values)
        self._check(request)
        return request

    def _check(self, request: MemoryRequest) -> None:
        words = encodings_of(request.algorithm)
        if request.encoding not in words:
            raise UsageFault(
                f"--encoding: {shown(request.encoding)} is not an encoding of {request.algorithm}",
                hint=f"one of {', '.join(words)}",
            )
        if request.encoding == SCRIPT:
            self._check_script(request)
        state = state_of(request, self.states)
        if any(isinstance(shape, Text) and shape.length > _LONGEST_STRING for shape in state.shapes):
            raise UsageFault(
                f"--limit: {request.limit} needs a value over 512mb, too large for a server", hint="use a lower --limit"
            )

    def _check_script(self, request: MemoryRequest) -> None:
        name = request.algorithm.value
        if (name, self.states.get(name)) not in known_states():
            raise UsageFault(
                f"this release stores {name} in state format {self.states.get(name)}, and rlctl has no formula for it",
                hint="use another --encoding, or the release that rlctl ships",
            )
        # Raises InvalidLimit, which is a usage fault, for values that the script would refuse.
        ALGORITHMS[name](
            **{name: getattr(request, attribute) for name, attribute in _ARGUMENTS[request.algorithm].items()}
        )


def _read(name: str, value: object) -> Any:  # noqa: ANN401  each option has a type of its own
    option = f"--{name.replace('_', '-')}"
    if name not in READERS:
        raise UsageFault(f"unknown option {shown(name)}", hint=f"known options: {', '.join(READERS)}")
    try:
        return READERS[name](value)
    except ValueError as failure:
        raise UsageFault(f"{option}: {failure}", hint="see `rlctl capacity predict --help`") from failure
