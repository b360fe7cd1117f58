"""Arbitrary bytes, slot maps and revisions: each gives a named failure, bounded in size and time."""

import copy
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.limiter import Cause, InvalidLimit, Limiter
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.deciding import Core
from rlctl.limiter.core.lookup import Lookup, look_up
from rlctl.limiter.core.routes import SLOTS, FleetMap, Routes, read_slots, redirection
from rlctl.limiter.core.rulebook import RuleBook
from rlctl.limiter.core.settings import Endpoint, read_settings
from rlctl.limits.failures import ErrorReply, Failure
from rlctl.limits.resp import Incomplete, Reply, command, decision_numbers, parse
from rlctl.limits.rule import Revision, RuleSet, Version, _rule, read_revision
from tests.unit.rules.documents import EVERY, EXAMPLE, RELEASE, revision

HERE = Endpoint("10.0.0.1", 7000)
YES = [1, 10, 9, 0, 1000, 0]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or one of the failures that it may raise."""
    try:
        return call()
    except (Failure, Incomplete) as failure:
        return failure


# --- RESP -------------------------------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        *(
            b"*1\r\n",
            b"*2\r\n",
            b"*-1\r\n",
            b"*6\r\n",
            b"*999999999\r\n",
            b"$-1\r\n",
            b"$3\r\nabc\r\n",
            b"$3\r\nabcd\r\n",
        ),
        *(b"$99999999999\r\n", b":1\r\n", b":-1\r\n", b":x\r\n", b":\r\n", b":1_0\r\n", b":" + b"9" * 30 + b"\r\n"),
        *(
            b"+OK\r\n",
            b"-ERR no\r\n",
            b"-MOVED 1 :0\r\n",
            b"\r\n",
            b"\n",
            b"\r",
            b"HTTP/1.1 400\r\n",
            b"%1\r\n",
            b",1.5\r\n",
        ),
    ]
)
STREAMS = st.one_of(st.binary(max_size=200), st.lists(LINES, max_size=30).map(b"".join))


@given(STREAMS)
def test_any_bytes_are_a_reply_or_incomplete_or_a_failure(data: bytes) -> None:
    found = outcome(lambda: parse(data))
    if isinstance(found, tuple):
        assert 0 < found[1] <= len(data)
    elif isinstance(found, Failure):
        assert found.cause is Cause.ERROR
        assert len(found.evidence) < 300


@given(STREAMS)
def test_what_looks_like_a_decision_is_six_integers(data: bytes) -> None:
    numbers = decision_numbers(b"*6\r\n" + data)
    assert numbers is None or (len(numbers) == 6 and all(type(number) is int for number in numbers))


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_every_beginning_of_a_reply_is_incomplete(words: list[bytes]) -> None:
    whole = command(*words)
    assert parse(whole) == (words, len(whole))
    for size in range(len(whole)):
        with pytest.raises(Incomplete):
            parse(whole[:size])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"*1\r\n" * 200_000, id="deep"),
        pytest.param(b"$2000000000\r\n", id="huge bulk"),
        pytest.param(b"*2000000000\r\n", id="huge array"),
        pytest.param((b"*1000\r\n" * 7 + b":1\r\n" * 1000) * 2, id="many small arrays"),
        pytest.param(b"+" + b"x" * 100_000, id="endless line"),
        pytest.param(b":" + b"9" * 5000 + b"\r\n", id="digits"),
        pytest.param(":²\r\n".encode(), id="a digit of another script"),
        pytest.param(b": 1\r\n", id="a blank before a number"),
        pytest.param(b"$3\r\nabcdef", id="no end after a bulk"),
    ],
)
def test_too_much_of_a_reply_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(Failure, match="not a reply of Redis"):
        parse(data)


def test_a_stream_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlctl.limits.resp._LARGEST", 1000)
    with pytest.raises(Incomplete):
        parse(b"*500\r\n" + b"+\r\n" * 300)
    with pytest.raises(Failure):
        parse(b"*500\r\n" + b"+\r\n" * 400)


# --- who is in charge -------------------------------------------------------------------------------------------

WORDS = st.one_of(
    st.none(),
    st.integers(-5, 20_000),
    st.integers(),
    st.binary(max_size=12),
    st.sampled_from([b"", b"?", b"10.0.0.1", b"role", b"master", b"cluster_state:ok", b"x..y", b"a" * 300, b"\0"]),
    st.builds(ErrorReply, st.sampled_from(["ERR x", "MOVED 1 h:1", "ASK 99999 h:99999", "NOAUTH", "LOADING"])),
)
SERVERS = st.tuples(WORDS, WORDS, WORDS).map(list)
RANGES = st.tuples(WORDS, WORDS, SERVERS, SERVERS).map(list)
REPLIES: st.SearchStrategy[Reply] = st.recursive(
    st.one_of(WORDS, RANGES), lambda inner: st.lists(inner, max_size=6), max_leaves=20
)
KINDS = pytest.mark.parametrize(
    "settings",
    [
        {"kind": "cluster", "nodes": ["10.0.0.1:7000"]},
        {"kind": "sentinel", "sentinels": ["10.0.0.1:8000"], "master_name": "limiter"},
        {"host": "10.0.0.1", "port": 7000},
    ],
    ids=["cluster", "sentinel", "single"],
)


@KINDS
@given(answers=st.lists(st.lists(REPLIES, min_size=1, max_size=2), min_size=1, max_size=8))
def test_any_answer_to_a_look_up_is_a_map_or_a_failure(settings: dict[str, Any], answers: list[list[Reply]]) -> None:
    known = read_settings(settings)
    found = outcome(lambda: driven(look_up(known, Routes(known).candidates()), answers))
    if isinstance(found, FleetMap):
        assert_usable(found)
    else:
        assert found is None or found.evidence


def driven(lookup: Lookup, answers: list[list[Reply]]) -> FleetMap | None:
    """The map from these replies; None if the look-up has more queries."""
    try:
        next(lookup)
        for answer in answers:
            lookup.send(answer)
    except StopIteration as done:
        found: FleetMap = done.value
        return found
    return None


def assert_usable(found: FleetMap) -> None:
    assert set(found.owners) <= set(range(SLOTS))
    for endpoint in {*found.owners.values(), *found.nodes}:
        assert 0 < endpoint.port < 65536
        assert endpoint.host.encode("idna")


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([[0, 99_999_999_999, [b"h", 1]]], id="beyond the last slot"),
        pytest.param([[-1, 5, [b"h", 1]]], id="before the first"),
        pytest.param([[0, 16383, [b"h", 1]]] * 50_000, id="all slots many times"),
        pytest.param([[n, n, *([b"h%d" % n, port] for port in range(1, 100))] for n in range(100)], id="many nodes"),
        pytest.param([[0, 1, [b"a" * 64 + b".example", 1]]], id="a name that idna refuses"),
        pytest.param([[0, 1, [b"a\0b", 1]]], id="a zero byte"),
        pytest.param([[0, 1, [b"h", 65536]]], id="a port that is none"),
    ],
)
def test_a_slot_map_that_cannot_be_is_refused(entries: list[Any]) -> None:
    with pytest.raises(Failure):
        read_slots(entries, HERE)


@given(st.text(max_size=30))
def test_any_redirection_is_usable_or_none(rest: str) -> None:
    for text in (f"MOVED {rest}", f"MOVED 5 {rest}", f"ASK 5 h:{rest}"):
        where = redirection(ErrorReply(text), HERE)
        assert where is None or (0 <= where.slot < SLOTS and 0 < where.endpoint.port < 65536)


def test_nodes_of_a_false_map_never_displace_those_of_the_settings() -> None:
    routes = Routes(read_settings({"kind": "cluster", "nodes": ["10.0.0.1:7000"]}))
    routes.learn(FleetMap(owners={0: HERE}, nodes=tuple(Endpoint(f"false-{number}", 1) for number in range(900))))
    for _ in range(20):
        asked = routes.candidates()
        assert HERE in asked
        assert len(asked) <= 9


# --- replies of scripts -----------------------------------------------------------------------------------------


@given(st.lists(st.one_of(WORDS, st.integers(-1, 5), st.lists(WORDS, max_size=2)), max_size=8))
def test_any_list_is_a_decision_of_numbers_or_a_failure(reply: list[Any]) -> None:
    book = RuleBook(Counters())
    book.learn(revision(EXAMPLE).version, revision(EXAMPLE).to_text().encode())
    core = Core(RELEASE, "open", Counters(), book)
    bound = core.bind("api-per-key", "u", "default", None, None)
    found = outcome(lambda: core.count_reply(bound, reply))  # type: ignore[arg-type]
    assert isinstance(found, Failure) or found.headers() is not None


# --- revisions --------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["*", "{user}"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """A path into a document."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(place for key in keys for place in places(value[key], (*path, key)))]


DOCUMENT = json.loads(revision(EVERY).to_text())
PLACES = [place for place in places(DOCUMENT) if len(place) > 1]


def digest_of(document: dict[str, Any]) -> str:
    """The digest that belongs to this document."""
    try:
        return RuleSet(rules=tuple(map(_rule, document["rules"])), release=str(document["release"])).digest
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
        return ""


class Answering:
    """A backend that admits everything."""

    def execute(self, _message: bytes, _tag: bytes, _sha1: str) -> list[int]:
        return list(YES)


@given(st.sampled_from(PLACES), JSON)
def test_any_change_of_a_revision_is_decided_by_or_refused(place: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    document["digest"] = digest_of(document)
    counters = Counters()
    book = RuleBook(counters)
    book.learn(Version(revision=1, digest="x"), json.dumps(document).encode())
    assert book.is_empty is (counters.snapshot().errors == {Cause.NO_RULE: 1})
    subject = Limiter(Core(RELEASE, "closed", counters, book), Answering())  # type: ignore[arg-type]
    for rule in () if book.is_empty else book.costed_rules():
        for tier in (None, "free"):
            with suppress(InvalidLimit):
                subject.decide(rule, {"user": "u", "endpoint": "/a", "api_key": "k"}, tier=tier)


@given(st.one_of(st.binary(max_size=50), st.text(alphabet='[{"0:,}] ', max_size=30).map(str.encode)))
def test_any_text_is_a_revision_or_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_revision(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"a":' * 100_000, id="deep mappings"),
        pytest.param(b"9" * 5000, id="digits"),
        pytest.param(b'{"format":1,"revision":Infinity}', id="infinity"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_a_corrupt_revision_is_counted_each_time_and_logged_once(text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    counters = Counters()
    book = RuleBook(counters)
    good = revision(EXAMPLE)
    book.learn(good.version, good.to_text().encode())
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            book.learn(Version(revision=2, digest="x"), text)
    assert counters.snapshot().errors == {Cause.NO_RULE: 3}
    assert len(caplog.records) == 1
    assert book.rule("api-per-key") is not None
    assert counters.snapshot().rules_revision == 1


def test_the_next_good_revision_is_decided_by_and_trouble_after_it_is_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = Counters()
    book = RuleBook(counters)
    good: Revision = revision(EXAMPLE, 3)
    bad = Version(revision=2, digest="x")
    with caplog.at_level(logging.ERROR):
        book.learn(bad, b"[" * 100_000)
        book.learn(good.version, good.to_text().encode())
        assert counters.snapshot().rules_revision == 3
        book.learn(bad, None)
    assert len(caplog.records) == 2
