"""The settings of a limiter: the servers they name, and the mistakes they report."""

from typing import Any

import pytest

from rlctl.errors import UsageFault
from rlctl.limiter.core.settings import CLIENT_NAME, Endpoint, FleetKind, Login, endpoint, read_settings
from rlctl.limits.resp import parse
from rlctl.secrets import Secret

A, B = Endpoint("10.0.0.1", 7000), Endpoint("10.0.0.1", 7001)
PLACE: dict[str, Any] = {"host": "10.0.0.1", "port": 7000}
SENTINEL: dict[str, Any] = {"kind": "sentinel", "sentinels": ["10.0.0.1:7001"], "master_name": "limiter"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("h:1", Endpoint("h", 1)),
        ("h:65535", Endpoint("h", 65535)),
        ("::1:7000", Endpoint("::1", 7000)),
        ("h:7000@17000", Endpoint("h", 7000)),
        ("h:0", None),
        ("h:65536", None),
        ("h:-1", None),
        ("h:²", None),
        ("h:", None),
        ("h", None),
        ("7000", None),
    ],
)
def test_an_endpoint(text: str, found: Endpoint | None) -> None:
    if found is not None:
        assert endpoint(text) == found
        return
    with pytest.raises(UsageFault, match="is not host:port"):
        endpoint(text)


@pytest.mark.parametrize(
    ("document", "kind", "nodes", "sentinels"),
    [
        (PLACE, FleetKind.SINGLE, (A,), ()),
        ({"nodes": ["10.0.0.1:7001"]}, FleetKind.SINGLE, (B,), ()),
        (PLACE | {"nodes": ["10.0.0.1:7001"]}, FleetKind.SINGLE, (A,), ()),
        (PLACE | {"kind": "cluster"}, FleetKind.CLUSTER, (A,), ()),
        (PLACE | {"kind": "cluster", "nodes": ("10.0.0.1:7001",)}, FleetKind.CLUSTER, (B,), ()),
        ({"kind": "cluster", "nodes": ["10.0.0.1:7000", "10.0.0.1:7001"], "host": ""}, FleetKind.CLUSTER, (A, B), ()),
        (SENTINEL, FleetKind.SENTINEL, (), (B,)),
        (SENTINEL | PLACE, FleetKind.SENTINEL, (A,), (B,)),
    ],
)
def test_the_servers(
    document: dict[str, Any], kind: FleetKind, nodes: tuple[Endpoint, ...], sentinels: tuple[Endpoint, ...]
) -> None:
    found = read_settings(document)
    assert (found.kind, found.nodes, found.sentinels) == (kind, nodes, sentinels)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "need `host` and `port`, or `nodes`"),
        ({"host": "10.0.0.1"}, "need `host` and `port`, or `nodes`"),
        ({"port": 7000}, "need `host` and `port`, or `nodes`"),
        ({"kind": "cluster"}, "need `host` and `port`, or `nodes`"),
        (SENTINEL | {"sentinels": None}, "of kind sentinel need"),
        (SENTINEL | {"master_name": ""}, "of kind sentinel need"),
        (PLACE | {"kind": "ring"}, "kind 'ring' is unknown; use one of single, cluster, sentinel"),
        (PLACE | {"nodes": 7}, "`nodes` must be a list"),
        (PLACE | {"remap": [1]}, "`remap` must map"),
        (PLACE | {"service": 7}, "`service` must be text"),
        (PLACE | {"service": "a b"}, "service 'a b' is not valid"),
        (PLACE | {"username": 7}, "`username` must be text"),
        (PLACE | {"password": 7}, "`password` must be text"),
        (SENTINEL | {"sentinel_password": 7}, "`sentinel_password` must be text"),
    ],
)
def test_mistakes(document: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageFault) as fault:
        read_settings(document)
    assert says in fault.value.message


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (Login(), []),
        (Login(username="limiter"), []),
        (Login(password=Secret("p")), [b"AUTH", b"default", b"p"]),
        (Login(username="limiter", password=Secret("p")), [b"AUTH", b"limiter", b"p"]),
    ],
)
def test_the_first_command(login: Login, words: list[bytes]) -> None:
    assert parse(login.hello())[0] == [b"HELLO", b"2", *words, b"SETNAME", CLIENT_NAME]


@pytest.mark.parametrize("password", ["p", Secret("p")])
def test_logins_of_servers_and_sentinels(password: object) -> None:
    document = SENTINEL | {"tls": 1, "ca": "/ca.pem", "username": "u", "sentinel_username": "", "password": password}
    found = read_settings(document | {"sentinel_password": None})
    assert (found.login.username, found.login.tls, found.login.ca) == ("u", True, "/ca.pem")
    assert found.login.password is not None
    assert found.login.password.reveal() == "p"
    assert found.sentinel_login == Login(tls=True, ca="/ca.pem")
    assert found.master_name == "limiter"


def test_servers_that_are_reached_elsewhere() -> None:
    found = read_settings(PLACE | {"remap": {"10.0.0.1:7000": "127.0.0.1:9"}, "service": "checkout"})
    assert (found.reached(A), found.reached(B)) == (Endpoint("127.0.0.1", 9), B)
    assert found.service == "checkout"
    assert read_settings(PLACE | {"service": ""}).service is None
