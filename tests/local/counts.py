"""Write counts as a limiter does, record the acknowledged ones, and read them again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import RedisError
from redis.retry import Retry

from tests.local.driver import LocalFleet, wait_for

Counts = dict[str, int]
_KNOWN: dict[Path, dict[str, Any]] = {}


@contextmanager
def limiter(fleet: LocalFleet) -> Iterator[Redis | RedisCluster]:
    """A client with the credentials and addresses that `rlctl env` gives a limiter."""
    access = _access(fleet)
    options = {
        "username": access["username"],
        "password": access["password"],
        "decode_responses": True,
        "socket_timeout": 5.0,
        **({"ssl": True, "ssl_ca_certs": access["ca"]} if access["tls"] else {}),
    }
    if access["kind"] == "cluster":
        # Any of these nodes may be dead.
        nodes = [ClusterNode(host, int(port)) for host, port in (node.split(":") for node in access["nodes"])]
        client: Redis | RedisCluster = RedisCluster(startup_nodes=nodes, **options)
    else:
        client = Redis(host=access["host"], port=access["port"], **options, retry=Retry(NoBackoff(), 0))
    try:
        yield client
    finally:
        client.close()


def write_counts(fleet: LocalFleet, count: int = 200) -> Counts:
    """Write counts over all slots and return those that were acknowledged and are on all replicas."""
    acked: Counts = {}
    with limiter(fleet) as client:
        for number in range(count):
            key = f"rl:count:{number}"
            assert client.set(key, number + 1)
            acked[key] = number + 1
    wait_for(lambda: all(node["lag_bytes"] == 0 for node in _replicas(fleet)), "replicas have all counts")
    return acked


def read_counts(fleet: LocalFleet, keys: Counts) -> Counts:
    """The counts of these keys in the fleet, without keys that no longer exist."""
    with limiter(fleet) as client:
        found = {key: client.get(key) for key in keys}
    return {key: int(value) for key, value in found.items() if value is not None}


def write_until(fleet: LocalFleet, count: int = 20) -> None:
    """Wait until the fleet accepts writes, also during an election."""

    def took() -> bool:
        try:
            with limiter(fleet) as client:
                for number in range(count):
                    client.set(f"rl:probe:{number}", 1)
        except RedisError:
            return False
        return True

    wait_for(took, "the fleet takes writes")


def _access(fleet: LocalFleet) -> dict[str, Any]:
    """The output of `rlctl env`, cached except for a Sentinel fleet, whose primary moves."""
    known = _KNOWN.get(fleet.folder)
    if known is None or known["kind"] == "sentinel":
        known = _KNOWN[fleet.folder] = fleet.run("env", "-o", "json").json()
    return known


def _replicas(fleet: LocalFleet) -> list[dict[str, Any]]:
    nodes = fleet.status(expect=None)["nodes"]
    return [node for node in nodes if node["role"] == "replica" and node["alive"]]
