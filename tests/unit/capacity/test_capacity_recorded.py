"""Predictions, plans and costs as they were when the measurements were last compared with them, to the byte.

The comparison with measurements allows a margin; this one notices a formula that changes inside it. After a change on
purpose: `python -m tests.unit.capacity.test_capacity_recorded` writes the file anew; look at its diff.
"""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rlctl.capacity.costs import cost_of
from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.layout.encodings import encodings_of
from rlctl.capacity.plan import Mix, Reserve, plan
from rlctl.capacity.request import Algorithm, ServerVersion
from tests.unit.capacity.asked import STATES, answer, ask

FILE = Path(__file__).parents[2] / "data" / "capacity-recorded.jsonl"
Document = dict[str, Any]
# Around the limits that were measured.
LIMITS = (1, 49, 50, 99, 100, 101, 127, 128, 129, 199, 200, 201, 999, 1_000, 1_001)
COUNTERS: Document = {"algorithm": "sliding_counter", "users": 3_000_000}
LOGS: Document = {"algorithm": "rolling_window", "users": 70_000, "limit": 100}


def requests() -> Iterator[Document]:
    for algorithm, server in product(Algorithm, ServerVersion):
        for number, encoding in enumerate(encodings_of(algorithm)):
            allocator = list(Allocator)[number % 2].value
            yield {
                "algorithm": algorithm.value,
                "encoding": encoding,
                "server": server.value,
                "allocator": allocator,
                "limit": (7, 100, 200)[number % 3],
                "users": 990_000,
                "cluster": number % 2 == 1,
            }
    for server, key_length, users in product(ServerVersion, (11, 44, 45, 300), (1, 1_000, 60_000, 1_048_576)):
        yield {"algorithm": "gcra", "server": server.value, "key_length": key_length, "users": users, "no_ttl": True}
    for server, member, limit in product(ServerVersion, ("us", "float", "seq", "text:8", "text:65"), (20, 129, 513)):
        for encoding in ("script", "hash"):
            more = {"server": server.value, "member": member, "limit": limit, "encoding": encoding, "users": 5_000}
            yield {"algorithm": "concurrent", **more}
    for server, limit, policy in product(ServerVersion, (9_999, 10_000), ("allkeys-lru", "volatile-ttl")):
        more = {"server": server.value, "limit": limit, "policy": policy}
        yield {"algorithm": "fixed_window", "encoding": "string", **more}
    for server, slots in product(ServerVersion, (1, 5, 16_384)):
        yield {"algorithm": "gcra", "server": server.value, "cluster": True, "slots": slots, "users": 40_000}


def plans() -> Iterator[tuple[list[Document], Document, Document]]:
    """Requests, reserves, and machines."""
    for server, shards in product(ServerVersion, (1, 3, 4)):
        machines = {"shards": shards, "ram": 2**30}
        yield [{**one, "server": server.value} for one in (COUNTERS, LOGS)], {}, machines
        yield [{**COUNTERS, "server": server.value, "cluster": True}], {"clients": 500, "replicas": 2}, machines


def predicted(given: Document) -> Document:
    return answer(**given).to_json()


def planned(given: list[Document], reserve: Document, machines: Document) -> Document:
    mix = Mix(requests=tuple(ask(**one) for one in given), states=STATES)
    return plan(mix, Reserve(**reserve), **machines).to_json()


def costs() -> Iterator[tuple[str, Document]]:
    """What was measured of each encoding at round limits; most of them were not measured."""
    for algorithm, server in product(Algorithm, ServerVersion):
        for encoding, limit in product(encodings_of(algorithm), LIMITS):
            request = {"algorithm": algorithm.value, "encoding": encoding, "server": server.value, "limit": limit}
            if (cost := cost_of(ask(**request))) is not None:
                yield json.dumps(request), {"admit": cost.admit, "reject": cost.reject}


def documents() -> Iterator[tuple[str, Document]]:
    for request in requests():
        yield json.dumps(request), predicted(request)
    for given in plans():
        yield json.dumps(given), planned(*given)
    yield from costs()


def recorded() -> list[Document]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def rounded(value: Any) -> Any:
    """Libraries of mathematics differ in the last digits."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-9)
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def test_predictions_and_plans_are_those_that_were_recorded() -> None:
    lines = recorded()
    found = list(documents())
    assert [asked for asked, _found in found] == [line["asked"] for line in lines]
    for line, (asked, document) in zip(lines, found, strict=True):
        assert document == rounded(line["answer"]), asked


if __name__ == "__main__":
    LINES = [json.dumps({"asked": asked, "answer": found}) for asked, found in documents()]
    FILE.write_text("\n".join([*LINES, ""]), encoding="utf-8")
