from collections.abc import Callable
from typing import Any

import pytest

from rlctl.errors import UsageFault
from rlctl.limiter.core.lookup import Lookup, NodeQuery, NodeReplies, find_one, find_primary, find_slots, look_up
from rlctl.limiter.core.routes import FleetMap, Redirection, Routes, read_slots, redirection, says_primary, slot_of
from rlctl.limiter.core.settings import Endpoint, FleetKind, FleetSettings, endpoint, read_settings
from rlctl.limits.failures import Cause, ErrorReply, Failure
from rlctl.limits.resp import parse

A, B, C = (Endpoint("10.0.0.1", port) for port in (7000, 7001, 7002))
DOWN = Failure(Cause.UNREACHABLE, "refused")
OK = b"cluster_state:ok\r\ncluster_slots_assigned:16384"
ENV: dict[str, Any] = {
    "schema": "rlctl.env/1",
    "kind": "cluster",
    "host": "10.0.0.1",
    "port": 7000,
    "username": "limiter",
    "password": "s3cret-s3cret-s3cret",
    "tls": False,
    "ca": None,
    "nodes": ["10.0.0.1:7000", "10.0.0.1:7001"],
    "sentinels": [],
    "master_name": None,
    "sentinel_username": None,
    "sentinel_password": None,
}
SENTINEL = ENV | {
    "kind": "sentinel",
    "sentinels": ["10.0.0.1:8000"],
    "master_name": "limiter",
    "sentinel_username": "limiter",
    "sentinel_password": "other-secret-other",
}


def play(lookup: Lookup, answer: Callable[[NodeQuery], NodeReplies]) -> FleetMap:
    question = next(lookup)
    while True:
        try:
            question = lookup.send(answer(question))
        except StopIteration as done:
            found: FleetMap = done.value
            return found


def slots(owner: Endpoint, host: bytes | None = b"10.0.0.1") -> list[Any]:
    return [[0, 16383, [host, owner.port, b"id"], [b"10.0.0.1", 7009, b"id"]]]


def test_slots_are_those_of_redis() -> None:
    # From the cluster specification and from CLUSTER KEYSLOT.
    assert [slot_of(tag) for tag in (b"123456789", b"foo", b"user1000")] == [12739, 12182, 3443]


def test_settings_of_a_cluster() -> None:
    settings = read_settings(ENV)
    assert settings.nodes == (A, B)
    assert (settings.kind, settings.login.username, settings.login.tls) == (FleetKind.CLUSTER, "limiter", False)
    assert "s3cret" not in repr(settings)
    assert parse(settings.login.hello())[0] == [
        *(b"HELLO", b"2", b"AUTH", b"limiter", b"s3cret-s3cret-s3cret", b"SETNAME", b"rlctl-limiter")
    ]


def test_a_server_may_be_reached_elsewhere_than_it_says() -> None:
    settings = read_settings(ENV | {"remap": {"10.0.0.1:7000": "127.0.0.1:7000"}})
    assert settings.reached(A) == Endpoint("127.0.0.1", 7000)
    assert settings.reached(B) == B


def test_settings_of_sentinels() -> None:
    settings = read_settings(SENTINEL)
    assert settings.sentinels == (Endpoint("10.0.0.1", 8000),)
    assert parse(settings.sentinel_login.hello())[0][4] == b"other-secret-other"  # type: ignore[index]
    assert "secret" not in repr(settings)


def test_settings_of_a_single_node() -> None:
    settings = read_settings({"host": "localhost", "port": 6379})
    assert (settings.kind, settings.nodes) == (FleetKind.SINGLE, (Endpoint("localhost", 6379),))
    assert parse(settings.login.hello())[0] == [b"HELLO", b"2", b"SETNAME", b"rlctl-limiter"]


@pytest.mark.parametrize(("ca", "found"), [(None, None), ("", None), ("/ca.pem", "/ca.pem")])
def test_a_certificate_is_a_path_or_that_of_the_system(ca: str | None, found: str | None) -> None:
    login = read_settings(ENV | {"tls": True, "ca": ca}).login
    assert (login.tls, login.ca) == (True, found)


def test_settings_of_a_service() -> None:
    assert read_settings(ENV | {"service": "checkout", "key_prefix": "rl:checkout:"}).service == "checkout"
    assert read_settings(ENV).service is None


@pytest.mark.parametrize(
    "document",
    [
        {},
        ENV | {"service": "a:{b}"},
        ENV | {"service": ["checkout"]},
        {"kind": "ring", "host": "a", "port": 1},
        {"host": "a", "port": 0},
        {"host": "a", "port": "x"},
        {"host": 5, "port": 1},
        ENV | {"nodes": ["nowhere"]},
        ENV | {"nodes": "10.0.0.1:1"},
        ENV | {"password": 12345},
        SENTINEL | {"sentinels": []},
        SENTINEL | {"master_name": None},
        ENV | {"remap": ["10.0.0.1:7000"]},
        ENV | {"remap": {"10.0.0.1:7000": "nowhere"}},
    ],
)
def test_settings_that_lead_nowhere(document: dict[str, Any]) -> None:
    with pytest.raises(UsageFault) as fault:
        read_settings(document)
    assert "12345" not in str(fault.value)


def test_a_bus_port_is_no_part_of_an_endpoint() -> None:
    assert endpoint("10.0.0.1:7000@17000") == A


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MOVED 5 10.0.0.1:7001", Redirection(5, B, is_ask=False)),
        ("ASK 5 10.0.0.1:7001", Redirection(5, B, is_ask=True)),
        ("MOVED 5 :7001", Redirection(5, B, is_ask=False)),
        ("MOVED 5 10.0.0.1:x", None),
        ("MOVED 5", None),
        ("CLUSTERDOWN", None),
    ],
)
def test_redirections(text: str, expected: Redirection | None) -> None:
    assert redirection(ErrorReply(text), A) == expected


def test_a_moved_slot_is_believed_and_an_asked_one_is_not() -> None:
    routes = Routes(read_settings(ENV))
    assert routes.owner(b"foo") is None
    routes.learn(FleetMap(owners=dict.fromkeys(range(16384), A), nodes=(A, B)))
    routes.moved(Redirection(slot_of(b"foo"), B, is_ask=True))
    assert routes.owner(b"foo") == A
    routes.moved(Redirection(slot_of(b"foo"), B, is_ask=False))
    assert (routes.owner(b"foo"), routes.owner(b"bar")) == (B, A)
    assert routes.owners == (A, B)
    routes.forget(A)
    assert routes.owner(b"bar") == A


def test_a_primary_behind_sentinels_is_forgotten_only_if_it_still_is_it() -> None:
    routes = Routes(read_settings(SENTINEL))
    assert not routes.is_known
    routes.learn(FleetMap(owners={0: A}, nodes=(A,)))
    routes.forget(B)
    assert routes.owner(b"any") == A
    routes.forget(A)
    assert routes.owner(b"any") is None


def test_every_look_up_begins_with_another_node() -> None:
    routes = Routes(read_settings(ENV))
    assert [routes.candidates()[0] for _ in range(3)] == [A, B, A]


@pytest.mark.parametrize("host", [b"", None, b"?"])
def test_a_node_that_does_not_know_its_name(host: bytes | None) -> None:
    found = read_slots(slots(B, host), A)
    assert (found.owners[0], found.nodes) == (B, (B, Endpoint("10.0.0.1", 7009)))


def test_the_map_of_a_node_without_quorum_is_the_last_resort() -> None:
    answers: dict[Endpoint, NodeReplies] = {A: [b"cluster_state:fail", slots(A)], B: DOWN, C: [OK, slots(C)]}
    assert play(find_slots((A, B, C)), lambda asked: answers[asked.endpoint]).owners[0] == C
    assert play(find_slots((A, B)), lambda asked: answers[asked.endpoint]).owners[0] == A


@pytest.mark.parametrize("later", [slots(B), []], ids=["another", "none"])
def test_of_maps_without_quorum_the_first_is_believed(later: list[Any]) -> None:
    answers: dict[Endpoint, NodeReplies] = {A: [b"cluster_state:fail", slots(A)], B: [b"cluster_state:fail", later]}
    assert play(find_slots((A, B)), lambda asked: answers[asked.endpoint]).owners[0] == A


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (DOWN, Cause.UNREACHABLE),
        ([ErrorReply("NOPERM no"), ErrorReply("NOPERM no")], Cause.AUTH),
        ([OK, b"what"], Cause.ERROR),
        ([OK, [[1]]], Cause.ERROR),
        ([OK, [[0, 1]]], Cause.ERROR),
        ([b"cluster_state:fail", []], Cause.CLUSTER_DOWN),
    ],
)
def test_no_node_knows_the_slots(answer: NodeReplies, cause: Cause) -> None:
    with pytest.raises(Failure) as failure:
        play(find_slots((A, B)), lambda _asked: answer)
    assert failure.value.cause is cause


def sentinel(primary: Endpoint, epoch: int) -> NodeReplies:
    where = [primary.host.encode(), str(primary.port).encode()]
    return [where, [b"name", b"limiter", b"config-epoch", str(epoch).encode()]]


def hello(role: str) -> NodeReplies:
    return [[b"server", b"redis", b"role", role.encode(), b"modules", []]]


def test_the_newest_epoch_that_is_a_primary_wins() -> None:
    sentinels = tuple(Endpoint("s", port) for port in (1, 2, 3, 4))
    answers = dict(
        zip(sentinels, (sentinel(A, 3), sentinel(B, 4), DOWN, [None, ErrorReply("ERR No such")]), strict=True)
    )
    roles = {A: hello("master"), B: hello("master")}
    found = play(find_primary(sentinels, "limiter"), lambda asked: (answers | roles)[asked.endpoint])
    assert found.owners == {0: B}
    for roles[B] in (hello("replica"), DOWN, [ErrorReply("LOADING")]):
        found = play(find_primary(sentinels, "limiter"), lambda asked: (answers | roles)[asked.endpoint])
        assert (found.owners, set(found.nodes)) == ({0: A}, {A, B})


@pytest.mark.parametrize(
    ("answer", "role", "cause"),
    [
        (DOWN, DOWN, Cause.UNREACHABLE),
        ([None, [b"a"]], DOWN, Cause.ERROR),
        ([[b"h", b"x"], []], DOWN, Cause.ERROR),
        (sentinel(A, 1), hello("replica"), Cause.READONLY),
        (sentinel(A, 1), DOWN, Cause.UNREACHABLE),
        (sentinel(A, 1), [ErrorReply("NOAUTH no")], Cause.AUTH),
    ],
)
def test_no_sentinel_knows_the_primary(answer: NodeReplies, role: NodeReplies, cause: Cause) -> None:
    lookup = find_primary((Endpoint("s", 1),), "limiter")
    with pytest.raises(Failure) as failure:
        play(lookup, lambda asked: answer if asked.to_sentinel else role)
    assert failure.value.cause is cause


@pytest.mark.parametrize("document", [ENV, SENTINEL, {"host": "10.0.0.1", "port": 7000}])
def test_each_kind_asks_its_own_servers(document: dict[str, Any]) -> None:
    settings: FleetSettings = read_settings(document)
    question = next(look_up(settings, settings.nodes))
    assert question.to_sentinel is (settings.kind is FleetKind.SENTINEL)


# --- single servers ---------------------------------------------------------------------------------------------


def test_a_single_server_is_the_whole_map_once_it_answers() -> None:
    lookup = find_one(A)
    assert next(lookup).endpoint == A
    with pytest.raises(StopIteration) as found:
        lookup.send([b"hello"])
    assert found.value.value == FleetMap(owners={0: A}, nodes=(A,))


def test_a_single_server_that_is_away_is_no_map() -> None:
    lookup = find_one(A)
    next(lookup)
    with pytest.raises(Failure, match="refused"):
        lookup.send(DOWN)


@pytest.mark.parametrize(
    ("hello", "takes_writes"),
    [
        pytest.param([b"role", b"master"], True, id="primary"),
        pytest.param([b"role", b"replica", b"modules", []], False, id="replica"),
        pytest.param([], True, id="does not say"),
    ],
)
def test_a_server_says_whether_it_takes_writes(hello: Any, *, takes_writes: bool) -> None:
    assert says_primary(hello, A) is takes_writes


def test_a_server_that_refuses_the_login_says_nothing_of_its_role() -> None:
    with pytest.raises(Failure) as refused:
        says_primary(ErrorReply("WRONGPASS invalid username-password pair"), A)
    assert refused.value.cause is Cause.AUTH


@pytest.mark.parametrize("reply", [b"text", [[b"0", b"1", [b"h", 1]]], [[0, 1, [b"h", b"1"]]]], ids=repr)
def test_a_slot_map_of_other_types_is_refused(reply: Any) -> None:
    with pytest.raises(Failure, match="was expected"):
        read_slots(reply, A)
