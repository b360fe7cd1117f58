"""Fleets with TLS, and fleets without passwords on loopback."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.local.counts import read_counts, write_counts
from tests.local.driver import LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.strangers import HOST, foreign_server, listener

MakeFleet = Callable[[dict[str, Any]], LocalFleet]
Documents = Callable[..., dict[str, Any]]
BUS, SENTINEL = 10_000, 1_000
KINDS = pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])


@pytest.fixture(scope="module", params=[cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def encrypted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A deployed fleet with TLS that the tests of this file share."""
    document: Documents = request.param
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("tls"), document=document(security={"tls": True}))
    fleet.write()
    fleet.deploy()
    yield fleet
    fleet.end_all()


def ports(fleet: LocalFleet) -> list[int]:
    """Every port on which a process of the fleet listens."""
    listening = [node["port"] for node in fleet.status(expect=None)["nodes"]]
    if fleet.document["kind"] == "cluster":
        listening += [port + BUS for port in listening]
    return listening


def ca_of(fleet: LocalFleet) -> str:
    return str(fleet.run("env", "-o", "json").json()["ca"])


def test_a_fleet_with_tls_is_healthy_and_stays_so(encrypted: LocalFleet) -> None:
    assert encrypted.status()["state"] == "healthy"
    assert not encrypted.deploy().json()["changed"]
    acked = write_counts(encrypted, count=50)
    assert read_counts(encrypted, acked) == acked


def test_every_port_shows_a_certificate_of_our_authority_that_names_the_address(encrypted: LocalFleet) -> None:
    context = ssl.create_default_context(cafile=ca_of(encrypted))
    for port in ports(encrypted):
        with (
            socket.create_connection((HOST, port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as channel,
        ):
            names = channel.getpeercert() or {}
            assert ("IP Address", HOST) in names["subjectAltName"], port


def test_another_authority_is_not_enough(encrypted: LocalFleet) -> None:
    context = ssl.create_default_context()
    for port in ports(encrypted):
        with (
            socket.create_connection((HOST, port), timeout=10) as plain,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            context.wrap_socket(plain, server_hostname=HOST)


def test_no_port_speaks_without_tls(encrypted: LocalFleet) -> None:
    for port in ports(encrypted):
        with socket.create_connection((HOST, port), timeout=10) as plain:
            plain.sendall(b"PING\r\n")
            with suppress(ConnectionResetError):
                assert b"PONG" not in (answer := plain.recv(256))
                assert b"NOAUTH" not in answer


def test_links_between_servers_are_encrypted(encrypted: LocalFleet) -> None:
    for node in encrypted.status()["nodes"]:
        client = encrypted.connect(node["name"])
        settings = {} if node["role"] == "sentinel" else client.config_get("tls-*")
        if settings:
            assert settings["tls-replication"] == "yes"
            assert settings["tls-cluster"] == ("yes" if encrypted.document["kind"] == "cluster" else "no")
            assert client.config_get("port")["port"] == "0"
        client.close()
    assert all(node["link"] == "up" for node in encrypted.status()["nodes"] if node["role"] == "replica")


def test_a_failover_and_a_repair_work_over_tls(encrypted: LocalFleet) -> None:
    acked = write_counts(encrypted, count=50)
    old = next(node["name"] for node in encrypted.status()["nodes"] if node["role"] == "primary")
    encrypted.kill(old)
    wait_for(lambda: has_another_primary(encrypted, old), "a replica has taken over")
    encrypted.deploy()
    assert encrypted.status()["state"] == "healthy"
    assert read_counts(encrypted, acked) == acked


def has_another_primary(fleet: LocalFleet, old: str) -> bool:
    nodes = fleet.status(expect=None)["nodes"]
    shard = next(node["shard"] for node in nodes if node["name"] == old)
    return any(node["role"] == "primary" and node["alive"] for node in nodes if node["shard"] == shard)


@KINDS
def test_strangers_on_a_tls_fleets_ports_are_refused(
    make_fleet: MakeFleet, tmp_path: Path, document: Documents
) -> None:
    """Neither a silent nor a plain server completes the handshake, and neither gets a byte after it."""
    fleet = make_fleet(document(security={"tls": True}))
    for answer in (b"", b"+OK\r\n"):
        with listener(fleet.base_port + 1, answer) as stranger:
            assert "another process" in fleet.deploy(expect=8).error()["message"]
            assert all(part.startswith(b"\x16\x03") for part in stranger.received)
    with foreign_server(tmp_path / "foreign", fleet.base_port + 1) as other:
        assert "another process" in fleet.deploy(expect=8).error()["message"]
        assert other.is_untouched
    assert fleet.processes() == []
    assert not (fleet.home / "fleets").exists() or not list((fleet.home / "fleets").iterdir())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@KINDS
def test_a_fleet_without_passwords_works_on_loopback(make_fleet: MakeFleet, document: Documents, tls: bool) -> None:  # noqa: FBT001
    fleet = make_fleet(document(security={"acl": False, "tls": tls}))
    fleet.deploy()
    assert fleet.status()["state"] == "healthy"
    access = fleet.run("env", "-o", "json").json()
    assert access["username"] is None
    assert access["password"] is None
    acked = write_counts(fleet, count=50)
    fleet.kill(next(node["name"] for node in fleet.status()["nodes"] if node["role"] == "primary"))
    fleet.deploy()
    assert fleet.status()["state"] == "healthy"
    assert read_counts(fleet, acked) == acked
    assert not fleet.deploy().json()["changed"]


def test_a_client_without_the_authority_is_refused(encrypted: LocalFleet) -> None:
    access = encrypted.run("env", "-o", "json").json()
    client = Redis(
        host=access["host"], port=access["port"], username=access["username"], password=access["password"], ssl=True
    )
    with pytest.raises(RedisError):
        client.ping()
    client.close()
