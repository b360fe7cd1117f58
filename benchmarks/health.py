"""Checks from outside whether a fleet is healthy, in the same way for every contestant."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clock import now_s, started_s
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

SLOTS = 16_384
POLL_S = 0.01

Check = Callable[[], bool]


class NotHealthyError(RuntimeError):
    """A fleet did not become healthy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The addresses of the nodes and the credentials for them."""

    nodes: Sequence[tuple[str, int]]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinels: Sequence[tuple[str, int]] = ()
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    master_name: str = ""

    def node_clients(self) -> list[Redis]:
        return [connect(host, port, self.username, self.password) for host, port in self.nodes]

    def sentinel_clients(self) -> list[Redis]:
        return [connect(host, port, self.sentinel_username, self.sentinel_password) for host, port in self.sentinels]


def connect(host: str, port: int, username: str | None, password: str | None) -> Redis:
    """A client without retries and with a short timeout."""
    return Redis(
        host=host,
        port=port,
        username=username,
        password=password,
        socket_timeout=5,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )


def answers(client: Redis) -> bool:
    """Whether the node serves commands."""
    try:
        return bool(client.ping())
    except RedisError:
        return False


def is_replication_settled(info: dict[str, Any], replicas: int) -> bool:
    """Whether the link of a replica is up, or a primary has all its replicas."""
    if info["role"] == "slave":
        return bool(info["master_link_status"] == "up")
    return bool(info["connected_slaves"] == replicas)


def is_cluster_node_settled(client: Redis, shards: int, replicas: int) -> bool:
    """Whether a node reports ok, knows all nodes and slots, and replicates."""
    try:
        pipe: Any
        with client.pipeline(transaction=False) as pipe:
            pipe.execute_command("CLUSTER INFO")
            pipe.info("replication")
            cluster, replication = pipe.execute()
    except RedisError:
        return False
    return (
        cluster["cluster_state"] == "ok"
        and int(cluster["cluster_known_nodes"]) == shards * (1 + replicas)
        and int(cluster["cluster_size"]) == shards
        and int(cluster["cluster_slots_ok"]) == SLOTS
        and is_replication_settled(replication, replicas)
    )


def is_data_node_settled(client: Redis, replicas: int) -> bool:
    """Whether a data node behind Sentinel replicates."""
    try:
        return is_replication_settled(client.info("replication"), replicas)
    except RedisError:
        return False


def is_sentinel_settled(client: Redis, master_name: str, replicas: int, others: int) -> bool:
    """Whether a sentinel considers the primary up and knows all replicas and other sentinels."""
    try:
        master: Any = client.sentinel_master(master_name)
    except RedisError:
        return False
    flags = master["flags"]
    is_up = "down" not in (flags if isinstance(flags, str) else ",".join(flags))
    return is_up and int(master["num-slaves"]) == replicas and int(master["num-other-sentinels"]) == others


def cluster_checks(access: Access, shards: int, replicas: int) -> list[Check]:
    """One check for every node of a cluster."""
    return [partial(is_cluster_node_settled, client, shards, replicas) for client in access.node_clients()]


def sentinel_checks(access: Access, replicas: int) -> list[Check]:
    """One check for every data node and sentinel."""
    name, others = access.master_name, len(access.sentinels) - 1
    return [
        *(partial(is_data_node_settled, client, replicas) for client in access.node_clients()),
        *(partial(is_sentinel_settled, client, name, replicas, others) for client in access.sentinel_clients()),
    ]


def wait_healthy(checks: Sequence[Check], *, timeout_s: float, abort: Check = lambda: False) -> float:
    """Wait until every check holds in one pass and return that moment.

    Only one node is asked at a time until it is settled, so that watching does not slow down what is watched.
    """
    deadline_s = now_s() + timeout_s
    waiting = deque(checks)
    while now_s() < deadline_s:
        while waiting and waiting[0]():
            waiting.popleft()
        if not waiting:
            if all(check() for check in checks):
                return now_s()
            waiting = deque(checks)
        if abort():
            raise NotHealthyError("the command failed before its fleet was healthy")
        time.sleep(POLL_S)
    raise NotHealthyError(f"{len(waiting)} of {len(checks)} nodes not settled after {timeout_s:g} s")


def first_spawn_s(access: Access) -> float:
    """The start of the first process of the fleet."""
    clients = [*access.node_clients(), *access.sentinel_clients()]
    return min(started_s(int(client.info("server")["process_id"])) for client in clients)
