"""Reads memory requests from JSON lines, with one object on each line, and answers them. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlctl.capacity.parse_request import RequestParser
from rlctl.capacity.predict import Prediction, predict
from rlctl.capacity.request import MemoryRequest
from rlctl.errors import InvalidFile, RlctlError, UsageFault

_HINT = 'each line is an object such as {"id": "a1", "algorithm": "gcra", "users": 50000, "key_length": 20}'


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswer:
    """The answer to one line: a prediction or an error."""

    has_id: bool
    id: object
    answer: Prediction | RlctlError

    def to_json(self) -> dict[str, object]:
        if isinstance(self.answer, RlctlError):
            fault = self.answer
            return {"id": self.id, "error": {"code": fault.code, "message": fault.message, "hint": fault.hint}}
        own = {"id": self.id} if self.has_id else {}
        return own | self.answer.to_json()


def answer_lines(text: str, parser: RequestParser, given: Mapping[str, object]) -> Iterator[BatchAnswer]:
    """Yield an answer for each line that is not blank. An invalid line does not stop the lines after it."""
    for line in _lines(text):
        entry: dict[str, object] = {}
        try:
            entry = _entry(line)
            request = parser.parse(dict(given) | {name: value for name, value in entry.items() if name != "id"})
            answer: Prediction | RlctlError = predict(request, parser.states)
        except UsageFault as failure:
            answer = failure
        yield BatchAnswer(has_id="id" in entry, id=entry.get("id"), answer=answer)


def read_mix(text: str, path: str, parser: RequestParser, given: Mapping[str, object]) -> tuple[MemoryRequest, ...]:
    """Read the rules of a plan, with one rule on each line. Raises InvalidFile for the first invalid line."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = {name: value for name, value in _entry(line).items() if name != "id"}
            found.append(parser.parse(dict(given) | entry))
        except UsageFault as failure:
            raise InvalidFile(f"{path}:{number}: {failure.message}", hint=failure.hint or _HINT) from failure
    if not found:
        raise InvalidFile(f"{path}:1: the file has no rules", hint=_HINT)
    return tuple(found)


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.split("\n") if line.strip())


def _entry(line: str) -> dict[str, object]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as failure:
        raise UsageFault(f"not JSON: {failure}", hint=_HINT) from failure
    if not isinstance(entry, dict):
        raise UsageFault("not a JSON object", hint=_HINT)
    return entry
