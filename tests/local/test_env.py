"""The rights of the credentials that `rlctl env` prints, with plain commands and with stock clients."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from redis import Redis, RedisCluster, Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, NoScriptError, ResponseError
from redis.retry import Retry

from tests.local.driver import LocalFleet

UNKNOWN_SCRIPT = "0" * 40
NEVER = Retry(NoBackoff(), 0)


@pytest.fixture
def everyone(shared_cluster: LocalFleet) -> Iterator[dict[str, Redis]]:
    """One client of each user, on the node that serves `rl:{a}` according to the fleet."""
    admin = shared_cluster.access("admin")
    with closing(RedisCluster(**login(admin), host=admin["host"], port=admin["port"])) as fleet:
        name = f"node-{fleet.get_node_from_key('rl:{a}').port - shared_cluster.base_port}"
        clients = {who: shared_cluster.connect(name, who) for who in ("admin", "limiter", "monitor")}
        clients["rules"] = shared_cluster.connect(
            f"node-{fleet.get_node_from_key('rlctl:{a}').port - shared_cluster.base_port}", "limiter"
        )
        fleet.set("rlctl:{a}", "kept")
        yield clients
        fleet.delete("rlctl:{a}", "rl:{a}")
    for client in clients.values():
        client.close()


def login(access: dict[str, str]) -> dict[str, object]:
    return {"username": access["username"], "password": access["password"], "decode_responses": True}


def denied(client: Redis, *command: object) -> None:
    with pytest.raises((NoPermissionError, ResponseError)) as caught:
        client.execute_command(*command)
    assert "permission" in str(caught.value).lower(), (command, caught.value)


def test_what_the_limiter_can_do(everyone: dict[str, Redis]) -> None:
    limiter = everyone["limiter"]
    assert limiter.ping()
    assert limiter.set("rl:{a}", "1", px=60_000)
    assert limiter.execute_command("GET", "rl:{a}") == "1"
    assert limiter.execute_command("PEXPIRE", "rl:{a}", 60_000) == 1
    assert limiter.time()
    for words in (("SLOTS",), ("SHARDS",), ("NODES",), ("INFO",), ("MYID",)):
        assert limiter.execute_command("CLUSTER", *words)
    assert limiter.execute_command("CLIENT", "SETNAME", "probe")
    assert limiter.execute_command("CLIENT", "ID")
    assert limiter.execute_command("COMMAND")
    assert limiter.execute_command("WAIT", 0, 10) >= 0
    with pytest.raises(NoScriptError):
        limiter.evalsha(UNKNOWN_SCRIPT, 1, "rl:{a}")


def test_what_the_limiter_cannot_do(everyone: dict[str, Redis]) -> None:
    limiter = everyone["limiter"]
    for command in (
        ("CONFIG", "GET", "masterauth"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("SHUTDOWN", "NOSAVE"),
        ("LATENCY", "RESET"),
        ("ACL", "LIST"),
        ("EVAL", "return 1", "0"),
        ("SCRIPT", "FLUSH"),
        ("CLUSTER", "RESET"),
        ("CLUSTER", "FORGET", UNKNOWN_SCRIPT),
        ("REPLICAOF", "NO", "ONE"),
        ("MONITOR",),
        ("SET", "other:{a}", "1"),
        ("GET", "other:{a}"),
        ("CLIENT", "KILL", "ID", "1"),
    ):
        denied(limiter, *command)


def test_the_limiter_reads_rules_and_writes_none(everyone: dict[str, Redis]) -> None:
    limiter = everyone["rules"]
    assert limiter.execute_command("GET", "rlctl:{a}") == "kept"
    denied(limiter, "SET", "rlctl:{a}", "mine")
    denied(limiter, "DEL", "rlctl:{a}")
    denied(limiter, "HSET", "rlctl:{a}", "x", "y")
    channel = limiter.pubsub()
    channel.subscribe("rlctl:rules")
    assert channel.get_message(timeout=10)["type"] == "subscribe"
    channel.close()


def test_the_monitor_sees_state_and_touches_nothing(everyone: dict[str, Redis]) -> None:
    monitor = everyone["monitor"]
    assert monitor.info("replication")["role"] == "master"
    assert monitor.execute_command("ROLE")
    assert monitor.execute_command("CLUSTER", "NODES")
    assert monitor.execute_command("DBSIZE") is not None
    for command in (
        ("CONFIG", "GET", "*"),
        ("SET", "rl:{a}", "1"),
        ("GET", "rl:{a}"),
        ("ACL", "LIST"),
        ("EVALSHA", UNKNOWN_SCRIPT, "0"),
        ("CLUSTER", "FAILOVER"),
    ):
        denied(monitor, *command)


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_nobody_comes_in_without_a_password(kind: str, request: pytest.FixtureRequest) -> None:
    fleet: LocalFleet = request.getfixturevalue(f"shared_{kind}")
    access = fleet.access("admin")
    for endpoint in (*access["nodes"], *access["sentinels"]):
        host, _, port = endpoint.partition(":")
        for username, password in ((None, None), ("default", ""), ("limiter", "wrong"), (None, access["password"])):
            guess = Redis(host=host, port=int(port), username=username, password=password, retry=NEVER, protocol=2)
            with closing(guess), pytest.raises(AuthenticationError):
                guess.ping()
        with closing(Redis(host=host, port=int(port), **login(access))) as admin:
            users = admin.acl_users()
            assert "off" in admin.acl_getuser("default")["flags"]
            assert {"rlctl", "limiter", "sentinel", "monitor"} <= set(users)


def test_a_stock_cluster_client(shared_cluster: LocalFleet) -> None:
    access = shared_cluster.access("limiter")
    with closing(RedisCluster(host=access["host"], port=access["port"], **login(access))) as client:
        keys = [f"rl:{{{index}}}" for index in range(50)]
        assert all(client.set(key, index, px=60_000) for index, key in enumerate(keys))
        assert [client.get(key) for key in keys] == [str(index) for index in range(50)]
        assert len({client.get_node_from_key(key).name for key in keys}) == 3
        assert all(client.pexpire(key, 1) for key in keys)


@pytest.mark.parametrize("who", ["limiter", "admin"])
def test_a_stock_sentinel_client(shared_sentinel: LocalFleet, who: str) -> None:
    access = shared_sentinel.access(who)
    sentinels = [(host, int(port)) for host, _, port in (one.partition(":") for one in access["sentinels"])]
    secured = {"username": access["sentinel_username"], "password": access["sentinel_password"]}
    finder = Sentinel(sentinels, sentinel_kwargs=secured, **login(access))
    primary = finder.master_for(access["master_name"])
    assert primary.set("rl:{a}", "7", px=60_000)
    assert finder.slave_for(access["master_name"]).ping()
    assert finder.discover_master(access["master_name"]) == (access["host"], access["port"])
    assert primary.pexpire("rl:{a}", 1) if who == "limiter" else primary.delete("rl:{a}")
    primary.close()


def test_users_on_sentinels(shared_sentinel: LocalFleet) -> None:
    for who in ("limiter", "monitor"):
        with closing(shared_sentinel.connect("sentinel-1", who)) as client:
            assert client.ping()
            assert client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "watched")
            for command in (
                ("SENTINEL", "FAILOVER", "watched"),
                ("SENTINEL", "REMOVE", "watched"),
                ("SENTINEL", "SET", "watched", "quorum", "1"),
                ("SENTINEL", "RESET", "*"),
                ("SENTINEL", "CONFIG", "GET", "*"),
                ("SHUTDOWN",),
                ("ACL", "LIST"),
            ):
                denied(client, *command)
    with closing(shared_sentinel.connect("sentinel-0", "limiter")) as client:
        channel = client.pubsub()
        channel.subscribe("+switch-master")
        assert channel.get_message(timeout=10)["type"] == "subscribe"
        channel.close()
    with closing(shared_sentinel.connect("sentinel-2", "monitor")) as client:
        assert client.execute_command("SENTINEL", "CKQUORUM", "watched")
