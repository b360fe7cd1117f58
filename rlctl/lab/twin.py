"""The topology of a twin: the fleet's shape and settings, with small memory, short timers and its own ports. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rlctl.files.table import Field
from rlctl.files.yaml import Scalar
from rlctl.topology.model import MIB, Kind, LocalPlace, TargetName, Topology
from rlctl.topology.subnets import AUTO
from rlctl.topology.table import SECTIONS

TWIN_NAME = "drill"
TWIN_PORT = 7_000
TWIN_MEMORY_BYTES = 64 * MIB
SHORT_TIMER_MS = 1_000
# Distance from the fleet's data ports to the twin's data ports. Sentinel ports are 1000 above the data ports.
_BESIDE_PORTS = 500
READS_WHEN_DOWN = "cluster-allow-reads-when-down"
SHORT_FAILOVER_MS = 10_000
# Short periods of sentinels in ms, for tests only. Reports print these periods. With --stock-timers, sentinels
# keep their usual periods.
SHORT_PERIODS = {"publish-period": 300, "info-period": 500, "ask-period": 200}


def check_settings(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a text for each wrong setting. Settings are spelled `section.key`."""
    for path, value in settings.items():
        try:
            field = _field(path)
            refusal = field.type.refuse(_value(field, value))
        except (KeyError, ValueError) as failure:
            yield f"{path}: {failure.args[0]}"
            continue
        if refusal:
            yield f"{path}: {refusal}"


def with_settings(topology: Topology, settings: Mapping[str, str]) -> Topology:
    for path, value in settings.items():
        section, field = path.split(".")[0], _field(path)
        changes: dict[str, Any] = {field.attribute: _value(field, value)}
        topology = replace(topology, **{section: replace(getattr(topology, section), **changes)})
    return topology


def local_twin(topology: Topology, name: str, kind: Kind, *, memory_bytes: int, timer_ms: int | None) -> Topology:
    """A throw-away fleet of the same shape on this machine, with an address for each node.

    A node gets at most `memory_bytes`. A node counts as dead after `timer_ms`; None keeps the topology's timers.
    """
    twin = replace(
        topology,
        name=name,
        kind=kind,
        target=TargetName.LOCAL,
        memory=replace(topology.memory, maxmemory_bytes=min(topology.memory.maxmemory_bytes, memory_bytes)),
        local=LocalPlace(base_port=TWIN_PORT, spread=True),
        hosts=(),
    )
    if timer_ms is None:
        return twin
    return replace(
        twin,
        cluster=replace(twin.cluster, node_timeout_ms=timer_ms),
        sentinel=replace(twin.sentinel, down_after_ms=timer_ms, failover_timeout_ms=SHORT_FAILOVER_MS),
    )


def twin_of(topology: Topology, kind: Kind, settings: Mapping[str, str], *, stock_timers: bool) -> Topology:
    """The twin of a drill: a local twin with a scenario's settings. Isolated nodes still answer reads."""
    timer_ms = None if stock_timers else SHORT_TIMER_MS
    twin = local_twin(topology, TWIN_NAME, kind, memory_bytes=TWIN_MEMORY_BYTES, timer_ms=timer_ms)
    if kind is Kind.CLUSTER:
        # By default, an isolated primary also refuses reads, but the drill must read the primary's ledger before the
        # heal.
        twin = replace(twin, redis=tuple(sorted({**dict(twin.redis), READS_WHEN_DOWN: "yes"}.items())))
    return with_settings(twin, settings)


def twin_on_free_ports(
    topology: Topology, kind: Kind, settings: Mapping[str, str], *, base_port: int, stock_timers: bool
) -> Topology:
    """The twin of a drill on a machine that refuses namespaces: all nodes have one address, and free ports."""
    twin = twin_of(topology, kind, settings, stock_timers=stock_timers)
    return replace(twin, local=LocalPlace(base_port=base_port))


def twin_beside_fleet(
    topology: Topology, kind: Kind, settings: Mapping[str, str], *, name: str, base_port: int, stock_timers: bool
) -> Topology:
    """The twin of a drill on the fleet's own target, with its own name and ports."""
    twin = twin_of(topology, kind, settings, stock_timers=stock_timers)
    return replace(
        twin,
        name=name,
        target=topology.target,
        # Leave out READS_WHEN_DOWN, because playbooks read the twin's topology file, which must not contain a directive
        # that rlctl writes itself. Instead, the drill sets this directive on a node while it copies the node's ledgers.
        redis=topology.redis,
        local=LocalPlace(base_port=base_port),
        docker=replace(topology.docker, subnet=AUTO),
        hosts=tuple(replace(host, base_port=None) for host in topology.hosts),
    )


def hosts_base_port(topology: Topology) -> int:
    """First port of a twin on the fleet's own hosts, above the fleet's ports."""
    taken = [topology.local.base_port, *(host.base_port for host in topology.hosts if host.base_port is not None)]
    return max(taken) + _BESIDE_PORTS


def _field(path: str) -> Field:
    section, _, key = path.partition(".")
    found = next((one for one in SECTIONS if one.key == section), None)
    field = next((one for one in found.fields if one.key == key), None) if found else None
    if field is None:
        raise KeyError("a topology has no such setting")
    return field


def _value(field: Field, text: str) -> Any:  # noqa: ANN401  a table row holds any type
    return field.type.read(Scalar(line=0, text=text, is_plain=True))
