"""redis-cli as a contestant: server processes joined by `redis-cli --cluster create`."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path

from clock import now_s
from contest import TIMEOUT_S, ContestError, Shape, Timing
from health import Access, answers, cluster_checks, first_spawn_s, wait_healthy
from processes import scratch

from rlctl.system.ports import free_base_port

# The defaults of rlctl for the same shape, so that both form the same fleet.
DIRECTIVES = {
    "--bind": "127.0.0.1",
    "--cluster-enabled": "yes",
    "--cluster-node-timeout": "5000",
    "--cluster-require-full-coverage": "no",
    "--appendonly": "yes",
    "--save": "",
}


def tool(*names: str) -> str:
    """The first of these programs that is on PATH."""
    for name in names:
        if path := shutil.which(name):
            return path
    raise ContestError(f"none of these is on PATH: {', '.join(names)}")


def server_argv(port: int, folder: Path, sync_delay_s: int | None) -> list[str]:
    """The command line of a cluster node; `sync_delay_s` None leaves the default of 5 s."""
    own = {"--port": str(port), "--dir": str(folder), "--logfile": str(folder / "server.log")}
    if sync_delay_s is not None:
        own["--repl-diskless-sync-delay"] = str(sync_delay_s)
    return [tool("redis-server", "valkey-server"), *chain.from_iterable((DIRECTIVES | own).items())]


def create_argv(ports: Sequence[int], replicas: int) -> list[str]:
    """The command line that joins the nodes."""
    addresses = [f"127.0.0.1:{port}" for port in ports]
    options = ["--cluster-replicas", str(replicas), "--cluster-yes"]
    return [tool("redis-cli", "valkey-cli"), "--cluster", "create", *addresses, *options]


@contextmanager
def plain_servers(folder: Path, ports: Sequence[int], sync_delay_s: int | None) -> Iterator[None]:
    """Start all servers, and end them by pid."""
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for port in ports:
            own = folder / str(port)
            own.mkdir()
            argv = server_argv(port, own, sync_delay_s)
            servers.append(subprocess.Popen(argv, cwd=own, stdout=subprocess.DEVNULL, start_new_session=True))
        yield
    finally:
        for server in servers:
            server.kill()
        for server in servers:
            server.wait()


@contextmanager
def create(folder: Path, argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `redis-cli --cluster create`; the end of the block ends it."""
    with (folder / "create.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def finish(process: subprocess.Popen[bytes], log: Path, name: str) -> float:
    """Wait for the command to succeed; returns the time of its end."""
    if process.wait(timeout=TIMEOUT_S) != 0:
        raise ContestError(f"{name} ended with {process.returncode}:\n{log.read_text(errors='replace')[-2000:]}")
    return now_s()


def form_with_redis_cli(shape: Shape, sync_delay_s: int | None) -> Timing:
    """Time the formation of a cluster."""
    base = free_base_port(shape.data_nodes)
    ports = range(base, base + shape.data_nodes)
    access = Access(nodes=[("127.0.0.1", port) for port in ports])
    with scratch() as folder:
        started_s = now_s()
        with plain_servers(folder, ports, sync_delay_s):
            wait_healthy([partial(answers, client) for client in access.node_clients()], timeout_s=TIMEOUT_S)
            with create(folder, create_argv(ports, shape.replicas)) as process:
                healthy_s = wait_healthy(
                    cluster_checks(access, shape.shards, shape.replicas),
                    timeout_s=TIMEOUT_S,
                    abort=lambda: bool(process.poll()),
                )
                ended_s = finish(process, folder / "create.log", "redis-cli --cluster create")
            spawned_s = first_spawn_s(access)
        return Timing(healthy_s=healthy_s - spawned_s, whole_s=max(healthy_s, ended_s) - started_s)
