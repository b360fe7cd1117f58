"""What one user stores under each encoding, to the byte: a size class would hide a byte more or less."""

import pytest

from rlctl.capacity.costs import cost_of
from rlctl.capacity.layout.encodings import encodings_of, state_of
from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.layout.shapes import EntryList, EntryStream, LeaseHash, Number, Shape, SmallHash, SortedSet, Text
from rlctl.capacity.request import Algorithm
from tests.unit.capacity.asked import STATES, ask

MS, US, NAME = Form(name="ms"), Form(name="us"), Form(name="text:36")
NOW_US, WINDOW = 1_791_504_000_000_000, 29_858_400
LOG = {
    "zset": [SortedSet(count=100, member=MS, score=MS)],
    "list": [EntryList(count=100, member=MS)],
    "stream": [EntryStream(count=100)],
    "packed8": [Text(length=808)],
    "packed4": [Text(length=412)],
}
SHAPES: dict[str, dict[str, list[Shape]]] = {
    "token_bucket": {
        "script": [Text(length=24)],
        "hash-float": [SmallHash(entry_bytes=60)],
        "hash-int": [SmallHash(entry_bytes=36)],
        "hash-short": [SmallHash(entry_bytes=21)],
        "packed": [Text(length=16)],
        "strings": [Number(value=100_000), Number(value=NOW_US // 1000)],
        "strings-float": [Text(length=18), Text(length=17)],
    },
    "gcra": {
        "script": [Number(value=NOW_US)],
        "int": [Number(value=NOW_US)],
        "text": [Text(length=17)],
        "hash-100": [SmallHash(entry_bytes=100 * (2 + 10))],
    },
    "fixed_window": {
        "script": [Number(value=100 * 10**13 + WINDOW)],
        "string": [Number(value=100)],
        "hash": [SmallHash(entry_bytes=26)],
    },
    "sliding_counter": {
        "script": [Text(length=24)],
        "strings": [Number(value=100), Number(value=100)],
        "hash": [SmallHash(entry_bytes=19)],
        "hash-long": [SmallHash(entry_bytes=46)],
        "packed": [Text(length=12)],
        "int64": [Number(value=2**62)],
    },
    "rolling_window": {"script": [SortedSet(count=100, member=US, score=US)], **LOG},
    "rolling_ring": {"script": [Text(length=424, written_into=True)], **LOG},
    "concurrent": {
        "script": [SortedSet(count=100, member=NAME, score=US)],
        "zset": [SortedSet(count=100, member=NAME, score=MS)],
        "hash": [LeaseHash(count=100, member=NAME)],
    },
}


@pytest.mark.parametrize("algorithm", SHAPES)
def test_what_a_user_stores(algorithm: str) -> None:
    names = encodings_of(Algorithm(algorithm))
    found = {name: state_of(ask(algorithm=algorithm, encoding=name, limit=100), STATES) for name in names}
    assert {name: list(state.shapes) for name, state in found.items()} == SHAPES[algorithm]
    assert {name: state.users_per_key for name, state in found.items() if state.users_per_key != 1} == (
        {"hash-100": 100} if algorithm == "gcra" else {}
    )


@pytest.mark.parametrize(
    ("limit", "shape"),
    [
        (922_336, Number(value=922_336 * 10**13 + WINDOW)),
        (922_337, Number(value=922_337 * 10**13 + WINDOW)),
        (922_338, Text(length=19)),
    ],
)
def test_a_window_whose_number_has_no_64_bits_is_a_text(limit: int, shape: Shape) -> None:
    assert state_of(ask(algorithm="fixed_window", limit=limit), STATES).shapes == (shape,)


def test_a_ring_under_another_encoding_costs_what_a_log_costs() -> None:
    log, ring, leases = (
        cost_of(ask(algorithm=algorithm, encoding="zset", limit=100))
        for algorithm in ("rolling_window", "rolling_ring", "concurrent")
    )
    assert log is not None
    assert ring == log
    assert leases != log
    assert cost_of(ask(algorithm="rolling_ring", limit=100)) != cost_of(ask(algorithm="rolling_window", limit=100))
