"""A redis-server on loopback for one benchmark, and the time it spent on commands."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from contest import TIMEOUT_S, ContestError
from peers import tool
from processes import scratch
from redis import Redis
from redis.exceptions import RedisError

from rlctl.bench.stats import NO_COST, CommandCost, command_cost
from rlctl.limiter import Limiter
from rlctl.limits.release import Release
from rlctl.observe.info import ServerInfo
from rlctl.scripts.release import load_release
from rlctl.system.ports import free_base_port
from rlctl.system.redis import NodeLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A running server and a client of it."""

    client: Redis
    port: int
    pid: int


@contextmanager
def scratch_server() -> Iterator[Scratch]:
    """Start a server without persistence; the end of the block stops it and removes its folder."""
    port = free_base_port(1)
    with scratch() as folder:
        argv = [tool("redis-server", "valkey-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen([*argv, "--dir", str(folder)], cwd=folder, stdout=log, stderr=log)
        client = Redis(host="127.0.0.1", port=port, decode_responses=True)
        try:
            _wait_until_up(client)
            yield Scratch(client=client, port=port, pid=process.pid)
        finally:
            client.close()
            process.kill()
            process.wait()


def load_scripts(server: Scratch) -> Release:
    """Load the shipped release."""
    release = load_release()
    for script in release.scripts:
        server.client.script_load(script.source.decode("ascii"))
    return release


@contextmanager
def our_limiter(server: Scratch, budget_ms: float) -> Iterator[Limiter]:
    """A limiter of the runtime library on the server, with the shipped release loaded."""
    release = load_scripts(server)
    settings = {"kind": "single", "host": "127.0.0.1", "port": server.port}
    with Limiter.connect(settings, policy="closed", budget_ms=budget_ms, release=release) as limiter:
        yield limiter


def spent_on(link: NodeLink, commands: frozenset[str]) -> CommandCost:
    """The cost of these commands since the start of the server."""
    info = ServerInfo(link.call("INFO", "commandstats"))
    return sum((command_cost(info, command) for command in commands), NO_COST)


def commands_of(client: Any, decide: Callable[[], bool]) -> frozenset[str]:  # noqa: ANN401  monitor() is untyped
    """The commands that a decision sends, without the calls inside scripts: their time is part of the script."""
    with client.monitor() as monitor:
        decide()
        client.echo("end")
        sent: set[str] = set()
        for entry in monitor.listen():
            name = str(entry["command"]).split(" ", 1)[0].lower()
            if name == "echo":
                return frozenset(sent)
            if entry["client_type"] != "lua":
                sent.add(name)
    raise ContestError("MONITOR ended")


def _wait_until_up(client: Redis) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            client.ping()
        except RedisError as failure:
            if time.monotonic() > deadline_s:
                raise ContestError("the scratch server does not answer") from failure
            time.sleep(0.05)
        else:
            return
