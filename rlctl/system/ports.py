"""Ports of this machine: checks whether a port is free or answers, and finds free ports for a throw-away fleet."""

import random
import socket
from collections.abc import Iterable
from pathlib import Path

import psutil

from rlctl.errors import Unreachable
from rlctl.system.open_files import raise_at_limit
from rlctl.topology.nodes import BUS_PORT_OFFSET, SENTINEL_PORT_OFFSET

LOOPBACK = "127.0.0.1"
LOWEST = 11_000
EPHEMERAL_DEFAULT = 32_768
ATTEMPTS = 200


def free_base_port(count: int) -> int:
    """A base port for `count` nodes whose data, sentinel and bus ports are free and below the ephemeral range."""
    highest = _first_ephemeral_port() - BUS_PORT_OFFSET - count
    if highest <= LOWEST:
        raise Unreachable(
            "the ephemeral port range leaves no room for bus ports", hint="sysctl net.ipv4.ip_local_port_range"
        )
    for _ in range(ATTEMPTS):
        base = random.randrange(LOWEST, highest)  # noqa: S311  spreads parallel runs, guards nothing
        if all(map(is_free, ports_of(base, count))):
            return base
    raise Unreachable(
        f"no {count} free ports in a row after {ATTEMPTS} tries",
        hint="end processes that listen on many ports: ss -ltnp",
    )


def _first_ephemeral_port() -> int:
    # The ports for servers must be below the ephemeral range, because any outgoing connection may take a port of that
    # range at any moment.
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return int(setting.read_text(encoding="ascii").split()[0]) if setting.exists() else EPHEMERAL_DEFAULT


def answers(address: str, port: int) -> bool:
    """Whether a process accepts connections at this address within a second."""
    try:
        with socket.create_connection((address, port), timeout=1.0):
            return True
    except OSError as failure:
        raise_at_limit(failure)
        return False


def listening_pids() -> dict[tuple[str, int], int]:
    """Pids of this machine's listening processes by address and port; empty if the system does not show them."""
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return {}
    ours = (one for one in found if one.status == psutil.CONN_LISTEN)
    return {(one.laddr.ip, one.laddr.port): one.pid for one in ours if one.laddr and one.pid}


def is_free(port: int) -> bool:
    """Whether the loopback port is unused."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def ports_of(base: int, count: int) -> Iterable[int]:
    """Data, sentinel and bus ports of `count` nodes."""
    for port in range(base, base + count):
        yield from (port, port + SENTINEL_PORT_OFFSET, port + BUS_PORT_OFFSET)
