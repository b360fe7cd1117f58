"""Torn, cut and overwritten input: parsers accept the valid part and refuse the rest with an error of their own."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlctl.errors import InvalidFile
from rlctl.execute.journal import read
from rlctl.limits.failures import Failure
from rlctl.limits.resp import Incomplete, Reply, command, decision_numbers, parse
from rlctl.observe import parse as observe
from rlctl.observe.info import ServerInfo
from rlctl.plan.planner import make_plan
from rlctl.plan.saved import SavedPlan, to_text
from tests.unit.fleets import cluster, desired_of, fresh

DATA = Path(__file__).parents[1] / "data"
TABLES = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("cluster-nodes-*.txt"))]
INFOS = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*info*.txt"))]
SENTINELS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DATA.glob("sentinel-*.json"))]
PLAN = to_text(make_plan(desired_of(cluster()), fresh(cluster())))
BEGIN = {"event": "begin", "command": "deploy", "user": "ada", "host": "here", "pid": 4711, "argv": ["deploy"]}
STEP = {"event": "step", "text": "node-0: start", "outcome": "done"}
END = {"event": "end", "outcome": "done"}
# Any value that a server can send in RESP2.
WORDS = st.none() | st.integers(-5, 20_000) | st.text(max_size=12)
REPLIES = st.recursive(WORDS, lambda inner: st.lists(inner, max_size=6), max_leaves=20)


def journal_of(operations: int) -> bytes:
    events = [
        {"op": f"op-{number}", "at": "now", **event} for number in range(operations) for event in (BEGIN, STEP, END)
    ]
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


JOURNAL = journal_of(2)


@st.composite
def torn(draw: st.DrawFn, whole: bytes) -> bytes:
    """The text with up to three places deleted, repeated or overwritten, and perhaps without its end."""
    data = whole
    for _ in range(draw(st.integers(0, 3))):
        first, last = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        last = min(last, first + draw(st.sampled_from([0, 1, 2, 8, 1000])))
        middle = draw(st.sampled_from([b"", data[first:last] * 2]) | st.binary(max_size=6))
        data = data[:first] + middle + data[last:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


def torn_text(*wholes: str) -> st.SearchStrategy[str]:
    damaged = st.sampled_from(wholes).flatmap(lambda whole: torn(whole.encode()))
    return damaged.map(lambda data: data.decode("utf-8", "replace"))


@given(torn_text(*TABLES))
def test_a_torn_table_has_only_possible_nodes(table: str) -> None:
    observe.myself(table)
    with suppress(observe.BadReply):
        for peer in observe.table(table):
            assert all(0 <= first <= last < 16_384 for first, last in peer.slots)
            assert 0 <= peer.port <= 65_535


@given(torn_text(*INFOS))
def test_torn_info_is_read_or_refused(text: str) -> None:
    info = ServerInfo(text)
    for name, part in vars(ServerInfo).items():
        if isinstance(part, property):
            with suppress(observe.BadReply):
                getattr(info, name)


@pytest.mark.parametrize(
    "reading",
    [
        *(observe.text, observe.number, observe.port, ServerInfo, observe.own_id, observe.connection_ages),
        *(observe.table, observe.pairs, observe.user),
        lambda reply: observe.authenticates(reply, "hash"),
        lambda reply: observe.flags(reply, len(reply) if isinstance(reply, list) else 1),
        lambda reply: observe.sentinel_view(reply, [], [], quorum_ok=True),
        lambda reply: observe.sentinel_view(SENTINELS[0]["master"], reply, [reply], quorum_ok=True),
    ],
)
@given(reply=REPLIES)
@example(reply=[[]])
def test_any_reply_is_read_or_refused(reading: Callable[[object], object], reply: object) -> None:
    with suppress(observe.BadReply):
        reading(reply)


@given(st.sampled_from(SENTINELS), st.sampled_from(["master", "replicas", "sentinels"]), st.data())
def test_a_torn_sentinel_reply_is_read_or_refused(
    whole: dict[str, list[object]], part: str, data: st.DataObject
) -> None:
    own = list(whole[part])
    own[data.draw(st.integers(0, len(own) - 1))] = data.draw(REPLIES)
    damaged = whole | {part: own[: data.draw(st.integers(0, len(own)))]}
    with suppress(observe.BadReply):
        observe.sentinel_view(damaged["master"], damaged["replicas"], damaged["sentinels"], quorum_ok=True)


def encoded(reply: Reply) -> bytes:
    match reply:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % reply
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(reply), reply)
        case list():
            return b"*%d\r\n" % len(reply) + b"".join(map(encoded, reply))
        case _:
            return b"-%b\r\n" % str(reply).encode()


RESP = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=12,
)


@given(RESP, st.binary(max_size=20))
def test_a_reply_is_read_whole_and_never_before(reply: Reply, more: bytes) -> None:
    data = encoded(reply)
    with suppress(RecursionError):
        assert parse(data + more) == (reply, len(data))
        for end in range(len(data)):
            with pytest.raises(Incomplete):
                parse(data[:end])


@given(RESP.map(encoded).flatmap(torn))
def test_a_torn_reply_is_read_or_refused(data: bytes) -> None:
    with suppress(Incomplete, Failure):
        _reply, after = parse(data)
        assert 0 < after <= len(data)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=7).map(encoded).flatmap(torn))
def test_the_short_way_reads_what_the_parser_reads(data: bytes) -> None:
    found = decision_numbers(data)
    with suppress(Incomplete, Failure):
        reply, after = parse(data)
        assert found is None or (reply, after) == (found, len(data))


@given(torn_text(PLAN))
def test_a_torn_plan_is_read_or_refused(text: str) -> None:
    with suppress(InvalidFile):
        assert isinstance(SavedPlan.from_text(text, "plan.json"), SavedPlan)


def read_bytes(data: bytes) -> Iterator[tuple[str, str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(data)
        for operation in read(path):
            operation.to_json()
            yield operation.id, operation.outcome


@given(torn(JOURNAL))
@example(JOURNAL.replace(b'"text"', b'"texu"'))
@example(JOURNAL.replace(b"4711", b'"47"x'))
@example(JOURNAL.replace(b"4711", b'"many"'))
@example(b"[" * 10_000)
def test_a_torn_journal_keeps_what_is_whole(damaged: bytes) -> None:
    later = journal_of(1).replace(b"op-0", b"whole")
    assert ("whole", "done") in list(read_bytes(damaged + b"\n" + later))


def test_a_command_is_a_reply_of_words() -> None:
    assert parse(command(b"SET", b"a", b""))[0] == [b"SET", b"a", b""]
