"""Replies of real servers (tests/data) and what is read out of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.observe import parse
from rlctl.observe.model import Peer, Role, SentinelView
from rlctl.topology.nodes import NodeId

DATA = Path(__file__).parents[2] / "data"
PRIMARY = "b0bf98310d6920f56508ab72763648bcc8f12f60"
OTHER = "e891628d9278fb5105216bcb43cc0f185b3c2d24"
LAST = "39d28ab9c8111fb1ac15df2b6e1cb2288554443c"
LAST_REPLICA = "5d66d1b3323fdb30479b57e04c510438649fc491"
WIPED = "27238110131f31b86655239ac9b8c2088da316ed"


def read(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def peers(name: str) -> dict[str, Peer]:
    return {peer.id: peer for peer in parse.table(read(name))}


def sentinel(name: str, *, quorum_ok: bool = True) -> SentinelView:
    reply = json.loads(read(name))
    return parse.sentinel_view(reply["master"], reply["replicas"], reply["sentinels"], quorum_ok=quorum_ok)


def test_a_healthy_cluster() -> None:
    table = peers("cluster-nodes-healthy.txt")
    assert len(table) == 6
    assert table[PRIMARY] == Peer(
        id=NodeId(PRIMARY), address="127.0.0.1", port=21_100, role=Role.PRIMARY, slots=((0, 5_460),), epoch=1
    )
    assert table[LAST_REPLICA] == Peer(
        id=NodeId(LAST_REPLICA), address="127.0.0.1", port=21_105, role=Role.REPLICA, follows=NodeId(LAST), epoch=3
    )


def test_a_host_name_is_no_part_of_the_address() -> None:
    assert "21101@31101,node-1.example" in read("cluster-nodes-healthy.txt")
    assert (peers("cluster-nodes-healthy.txt")[OTHER].address, peers("cluster-nodes-healthy.txt")[OTHER].port) == (
        "127.0.0.1",
        21_101,
    )


def test_handshakes_are_no_members_yet() -> None:
    table = peers("cluster-nodes-handshake.txt")
    assert [peer.id for peer in table.values() if not peer.handshake] == [PRIMARY]
    assert table[PRIMARY].linked
    assert not any(peer.linked for peer in table.values() if peer.handshake)


@pytest.mark.parametrize(
    ("file", "node", "failed", "suspected"),
    [
        pytest.param("cluster-nodes-healthy.txt", LAST, False, False, id="well"),
        pytest.param("cluster-nodes-suspected.txt", LAST, False, True, id="suspected"),
        pytest.param("cluster-nodes-failed.txt", LAST, True, False, id="failed"),
        pytest.param("cluster-nodes-failed.txt", PRIMARY, False, False, id="well beside a failed one"),
    ],
)
def test_failure_flags(file: str, node: str, failed: bool, suspected: bool) -> None:  # noqa: FBT001
    peer = peers(file)[node]
    assert (peer.failed, peer.suspected) == (failed, suspected)
    assert peer.linked is not (failed or suspected)


def test_a_failed_primary_keeps_its_slots_until_somebody_takes_them() -> None:
    assert peers("cluster-nodes-failed.txt")[LAST].slots == ((10_923, 16_383),)
    assert peers("cluster-nodes-taken-over.txt")[LAST].slots == ()
    assert peers("cluster-nodes-taken-over.txt")[LAST_REPLICA].slots == ((10_923, 16_383),)
    assert peers("cluster-nodes-taken-over.txt")[LAST_REPLICA].epoch == 7


@pytest.mark.parametrize("file", ["cluster-nodes-migrating.txt", "cluster-nodes-importing.txt"])
def test_a_slot_on_the_move_belongs_to_its_owner(file: str) -> None:
    assert "[93-" in read(file)
    assert peers(file)[PRIMARY].slots == ((0, 5_460),)
    assert peers(file)[OTHER].slots == ((5_461, 10_922),)


def test_a_node_without_an_address() -> None:
    peer = peers("cluster-nodes-noaddr.txt")[WIPED]
    assert (peer.address, peer.port, peer.linked) == ("", 0, False)


@pytest.mark.parametrize(
    ("where", "address"),
    [
        pytest.param("10.0.0.1:7000@17000", ("10.0.0.1", 7_000), id="plain"),
        pytest.param("10.0.0.1:7000@17000,", ("10.0.0.1", 7_000), id="empty host name"),
        pytest.param("10.0.0.1:7000@17000,h,shard-id=ab,tls-port=0", ("10.0.0.1", 7_000), id="more fields"),
        pytest.param("10.0.0.1:7000", ("10.0.0.1", 7_000), id="no bus port"),
        pytest.param(":7000@17000", ("", 7_000), id="before its first greeting"),
        pytest.param("::1:7000@17000", ("::1", 7_000), id="ipv6"),
        pytest.param("fe80::1:2:7000@17000,host", ("fe80::1:2", 7_000), id="longer ipv6"),
        pytest.param(":0@0", ("", 0), id="nothing known"),
        pytest.param("nonsense", ("", 0), id="nonsense"),
    ],
)
def test_address(where: str, address: tuple[str, int]) -> None:
    (peer,) = parse.table(f"{PRIMARY} {where} master - 0 0 1 connected")
    assert (peer.address, peer.port) == address


def test_a_file_of_a_node_that_knows_nobody() -> None:
    text = read("nodes-conf-alone.txt")
    (peer,) = parse.table(text)
    assert (peer.id, peer.role, peer.slots, peer.epoch, peer.linked) == (PRIMARY, Role.PRIMARY, (), 0, True)
    assert parse.myself(text) == PRIMARY


@pytest.mark.parametrize(
    ("file", "own_id"),
    [
        pytest.param("nodes-conf-promoted.txt", LAST_REPLICA, id="promoted"),
        pytest.param("nodes-conf-stale.txt", LAST, id="stale"),
    ],
)
def test_a_file_names_whose_it_is(file: str, own_id: str) -> None:
    text = read(file)
    assert parse.myself(text) == own_id
    assert len(parse.table(text)) == 6
    assert "vars currentEpoch" in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("vars currentEpoch 7 lastVoteEpoch 0", id="only vars"),
        pytest.param(f"{PRIMARY} :0@0 myself,master - 0 0", id="torn"),
        pytest.param("these are eight words of no table line at all", id="prose"),
    ],
)
def test_other_lines_are_passed_over(text: str) -> None:
    assert parse.table(text) == ()
    assert parse.myself(text) is None


@pytest.mark.parametrize(
    ("words", "ranges"),
    [
        pytest.param([], (), id="none"),
        pytest.param(["7"], ((7, 7),), id="one slot"),
        pytest.param(["9-12", "0-3"], ((0, 3), (9, 12)), id="sorted"),
        pytest.param(["0-9", "[3->-abc]", "[93-<-abc]"], ((0, 9),), id="on the move"),
    ],
)
def test_slots(words: list[str], ranges: tuple[tuple[int, int], ...]) -> None:
    assert parse.slot_ranges(words) == ranges
    assert parse.slot_count(ranges) == sum(last - first + 1 for first, last in ranges)


def test_a_sentinel_at_rest() -> None:
    view = sentinel("sentinel-healthy.json")
    assert view.primary == ("127.0.0.1", 21_200)
    assert view.options == {
        "quorum": "2",
        "down-after-milliseconds": "1500",
        "failover-timeout": "10000",
        "parallel-syncs": "1",
    }
    assert view.replicas == (("127.0.0.1", 21_201), ("127.0.0.1", 21_202))
    assert len(view.peers) == 2
    assert (view.down, view.usable_quorum, view.epoch, view.failing_over) == (False, True, 0, False)


def test_a_sentinel_counts_only_whom_it_reaches() -> None:
    view = sentinel("sentinel-primary-down.json", quorum_ok=False)
    assert (view.down, view.usable_quorum) == (True, False)
    assert view.replicas == (("127.0.0.1", 21_201),)
    assert len(view.peers) == 1
    assert view.silent == (("127.0.0.1", 21_202), ("127.0.0.1", 22_202))
    assert not view.failed


def test_a_sentinel_after_a_failover() -> None:
    view = sentinel("sentinel-failed-over.json")
    assert (view.primary, view.epoch, view.down) == (("127.0.0.1", 21_201), 1, False)


def test_a_failover_in_progress_shows() -> None:
    reply = json.loads(read("sentinel-primary-down.json"))
    flags = reply["master"].index("flags") + 1
    reply["master"][flags] += ",o_down,failover_in_progress"
    view = parse.sentinel_view(reply["master"], reply["replicas"], reply["sentinels"], quorum_ok=True)
    assert view.failing_over
    assert view.failed


@pytest.mark.parametrize(
    ("user", "authenticates"),
    [
        pytest.param(None, False, id="no such user"),
        pytest.param(["flags", ["on"], "passwords", ["aa"], "commands", "-@all"], True, id="as deployed"),
        pytest.param(["flags", ["off"], "passwords", ["aa"]], False, id="off"),
        pytest.param(["flags", ["on"], "passwords", ["bb"]], False, id="another password"),
        pytest.param(["flags", ["on"], "passwords", ["bb", "aa"]], True, id="a second password"),
        pytest.param(["flags", ["on", "nopass"], "passwords", []], False, id="open to everybody"),
        pytest.param(["passwords", ["aa"]], False, id="no flags"),
    ],
)
def test_whom_a_server_authenticates(user: list[object] | None, *, authenticates: bool) -> None:
    assert parse.authenticates(user, "aa") is authenticates


@pytest.mark.parametrize(
    ("text", "ages"),
    [
        ("", ()),
        ("id=9 addr=127.0.0.1:5 laddr=127.0.0.1:6 name= age=12 idle=0 flags=S cmd=replconf user=replica\n", (12,)),
        ("id=9 age=0 flags=S\nid=10 age=345 flags=S\n", (0, 345)),
    ],
)
def test_ages_of_connections(text: str, ages: tuple[int, ...]) -> None:
    assert parse.connection_ages(text) == ages


# --- answers of servers that lie ------------------------------------------------------------------------------------

LONG = "9" * 5_000
NONSENSE: list[object] = [None, 7, [], "", [[]], ["a"], [1, 2], "\x00", LONG, "²", "-", [LONG] * 3, {}, ["flags", "on"]]
READERS: dict[str, Callable[[object], object]] = {
    "text": parse.text,
    "number": parse.number,
    "port": parse.port,
    "own_id": parse.own_id,
    "table": parse.table,
    "pairs": parse.pairs,
    "flags": lambda reply: parse.flags(reply, 2),
    "authenticates": lambda reply: parse.authenticates(reply, "ab"),
    "sentinel primary": lambda reply: parse.sentinel_view(reply, [], [], quorum_ok=True),
    "sentinel replicas": lambda reply: parse.sentinel_view(["ip", "h", "port", "1"], reply, [], quorum_ok=True),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("reply", NONSENSE, ids=lambda reply: repr(reply)[:12])
def test_nonsense_is_read_or_named_as_such(reader: Callable[[object], object], reply: object) -> None:
    told = ""
    try:
        reader(reply)
    except parse.BadReply as failure:
        told = str(failure)
    assert len(told) < 200


@given(st.text(alphabet=st.sampled_from("0123456789abf-: ,@>[]\nmastersv\x00²")))
def test_any_text_is_a_table(text: str) -> None:
    for peer in parse.table(text):
        assert 0 <= peer.port <= 65_535
        assert all(0 <= low <= high < 16_384 for low, high in peer.slots)


@pytest.mark.parametrize("slots", ["0-99999999999999", "5-1", "16384", "-1", "1-", "²", LONG])
def test_a_line_with_impossible_slots_is_passed_over(slots: str) -> None:
    line = f"{PRIMARY} 127.0.0.1:1@2 master - 0 0 1 connected {slots}"
    assert parse.table(line) == () or slots == "1-"


def test_a_table_of_too_many_nodes_is_refused() -> None:
    with pytest.raises(parse.BadReply, match="a table of 200000 nodes"):
        parse.table("a b\n" * 200_000)


INSTANCE = ["ip", "10.0.0.1", "port", "7000"]
LIMITS: list[tuple[str, Callable[[int], object], int]] = [
    ("digits of a number", lambda count: parse.number("9" * count), 19),
    ("digits below zero", lambda count: parse.number("-" + "9" * (count - 1)), 19),
    ("a port", lambda number: parse.port(str(number)), 65_535),
    ("characters of a text", lambda count: parse.text("a" * count), 4 * 2**20),
    ("nodes of a table", lambda count: parse.table("a b\n" * count), 2000),
    (
        "replicas of a primary",
        lambda count: parse.sentinel_view(INSTANCE, [INSTANCE] * count, [], quorum_ok=True),
        2000,
    ),
    ("a slot", lambda slot: parse.slot_ranges([f"0-{slot}"]), 16_383),
]


@pytest.mark.parametrize(("read", "most"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_the_most_that_is_read(read: Callable[[int], object], most: int) -> None:
    read(most)
    with pytest.raises(parse.BadReply):
        read(most + 1)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        pytest.param(7, "not a text, or too long: 7", id="a number"),
        pytest.param("a" * 80, f"not a node id: '{'a' * 79}...", id="80 characters and their quotes"),
        pytest.param("a" * 78, f"not a node id: '{'a' * 78}'", id="78 characters"),
        pytest.param("b" * 9_000, f"not a node id: '{'b' * 79}...", id="many"),
    ],
)
def test_a_bad_reply_is_shown_up_to_eighty_characters(found: object, shown: str) -> None:
    read = parse.text if isinstance(found, int) else parse.own_id
    with pytest.raises(parse.BadReply) as failure:
        read(found)
    assert str(failure.value) == shown
