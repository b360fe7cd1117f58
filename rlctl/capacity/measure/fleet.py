"""Measures a live fleet: INFO of every server, a sample of the keys of each shard, and the growth of each primary.

rlctl reads as the admin user. The user `monitor` has no access to keys, because SCAN shows every identity.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.capacity.measure.estimate import RuleRow, ShardSample, rows_of
from rlctl.capacity.measure.sampled import SampledServer
from rlctl.capacity.measure.sampling import KeySampler
from rlctl.capacity.server_memory import SECTIONS, Forecast, ServerMemory, forecast, server_memory
from rlctl.capacity.warnings import CapacityWarning
from rlctl.errors import NotFound, Unreachable
from rlctl.execute.session import FleetSession
from rlctl.observe.info import ServerInfo
from rlctl.observe.model import Observed, ReplicationLink, Role
from rlctl.observe.parse import BadReply
from rlctl.operations.status import NodeStatus, status_of
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.model import EvictionPolicy, Kind
from rlctl.topology.nodes import NodeName, data_nodes

IN_SYNC_BYTES = 1024 * 1024
READINGS = 10
_WORKERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Keys to sample on each shard, time limit, preferred role, and seconds from the first to the last reading."""

    sample: int
    budget_s: float
    prefer: Role
    interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """A server of the fleet with its memory."""

    status: NodeStatus
    memory: ServerMemory

    def to_json(self) -> dict[str, object]:
        one = self.memory
        return {
            "id": self.status.id,
            "name": self.status.name,
            "role": self.status.role,
            "shard": self.status.shard,
            "server": one.server.value if one.server else None,
            "version": one.version,
            "allocator": one.allocator.value if one.allocator else None,
            "keys": one.keys,
            "used_memory": one.used_bytes,
            "rss": one.rss_bytes,
            "fragmentation": one.fragmentation,
            "maxmemory": one.maxmemory_bytes,
            "policy": one.policy.value if one.policy else None,
            "headroom": one.headroom_bytes,
            "stale_share": one.stale_share,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMeasurement:
    """A measured fleet. Totals are None if a shard is missing."""

    name: str
    nodes: tuple[MeasuredNode, ...]
    unreachable: tuple[NodeStatus, ...]
    missing_shards: tuple[int, ...]
    rows: tuple[RuleRow, ...]
    series: Mapping[NodeName, Sequence[ServerMemory]]
    forecast: Forecast | None
    warnings: tuple[CapacityWarning, ...]

    @property
    def is_complete(self) -> bool:
        """Whether at least one server of every shard was read."""
        return not self.missing_shards

    def to_json(self) -> dict[str, object]:
        """The output of `rlctl capacity measure -o json`."""
        return {
            "schema": "rlctl.capacity-measure/1",
            "name": self.name,
            "complete": self.is_complete,
            "unreachable": [node.id for node in self.unreachable],
            "missing_shards": list(self.missing_shards),
            "nodes": [node.to_json() for node in self.nodes],
            "rules": [row.to_json() for row in self.rows],
            "forecast": self.forecast.to_json() if self.forecast else None,
            "warnings": [warn.to_json() for warn in self.warnings],
        }


class FleetMeasurer:
    """Measures one fleet."""

    def __init__(self, fleet: FleetSession, options: MeasureOptions, check_stop: Callable[[], None]) -> None:
        self._fleet = fleet
        self._options = options
        self._check_stop = check_stop
        self._specs = {spec.name: spec for spec in data_nodes(fleet.topology)}
        self._states = {script.name: script.state for script in fleet.release.scripts}

    def run(self) -> FleetMeasurement:
        """Measure the fleet. Raises NotFound if it is not deployed, Unreachable if no data node can be read."""
        observed = self._fleet.observe()
        status = status_of(self._fleet.desired(observed), observed)
        known = [node for node in status.nodes if node.name in self._specs]
        if not known:
            raise NotFound(f"fleet {status.name} is not deployed", hint="`rlctl deploy` deploys it")
        nodes = self._read_all([node for node in known if node.alive])
        if not nodes:
            raise Unreachable(f"no data node of {status.name} can be read", hint="`rlctl status` shows what is wrong")
        chosen = self._chosen(nodes)
        with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
            ends_s = self._fleet.clock.monotonic() + self._options.budget_s
            work = {node.status.name: pool.submit(self._sample, node, observed, nodes, ends_s) for node in chosen}
            series = self._watch([node for node in nodes if node.status.role is Role.PRIMARY])
            samples = _results(work)
        return self._measured(status.name, known, nodes, samples, series)

    def _measured(
        self,
        name: str,
        known: Sequence[NodeStatus],
        nodes: Sequence[MeasuredNode],
        samples: Mapping[NodeName, ShardSample],
        series: Mapping[NodeName, Sequence[ServerMemory]],
    ) -> FleetMeasurement:
        read = {node.status.id for node in nodes}
        shards = {spec.shard for spec in self._specs.values() if spec.shard is not None}
        missing = tuple(sorted(shards - {node.status.shard for node in nodes if node.status.name in samples}))
        is_watched = {node.status.shard for node in nodes if node.status.name in series} >= shards
        return FleetMeasurement(
            name=name,
            nodes=tuple(nodes),
            unreachable=tuple(node for node in known if node.id not in read),
            missing_shards=missing,
            rows=rows_of(list(samples.values()), is_complete=not missing),
            series=series,
            forecast=forecast(series) if is_watched else None,
            warnings=tuple(_warnings(nodes, samples, missing, self._options.sample)),
        )

    def _read_all(self, alive: Sequence[NodeStatus]) -> list[MeasuredNode]:
        with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
            readings = list(pool.map(lambda node: self._read(node.name), alive))
        pairs = zip(alive, readings, strict=True)
        return [MeasuredNode(status=node, memory=memory) for node, memory in pairs if memory is not None]

    def _read(self, name: NodeName) -> ServerMemory | None:
        try:
            with self._linked(name) as link:
                text = link.call("INFO", *SECTIONS)
                stats = link.call("MEMORY", "MALLOC-STATS")
            return server_memory(ServerInfo(text), str(stats), self._fleet.clock.monotonic())
        except (LinkFailure, CommandFailed, BadReply):
            return None

    def _chosen(self, nodes: Sequence[MeasuredNode]) -> list[MeasuredNode]:
        """Choose one server for each shard, with the preferred role if possible. Replicas that lag are excluded."""
        usable = [node for node in nodes if node.status.role is Role.PRIMARY or _is_in_sync(node)]
        ordered = sorted(usable, key=lambda node: node.status.role is not self._options.prefer)
        first: dict[int | None, MeasuredNode] = {}
        for node in ordered:
            first.setdefault(node.status.shard, node)
        return sorted(first.values(), key=lambda node: node.status.shard or 0)

    def _sample(
        self, node: MeasuredNode, observed: Observed, nodes: Sequence[MeasuredNode], ends_s: float
    ) -> ShardSample | None:
        is_cluster = self._fleet.topology.kind is Kind.CLUSTER
        owner = next((one for one in nodes if one.status.shard == node.status.shard and one.status.slots), None)
        slots = observed.node(owner.status.name).slots if owner else ()
        server = SampledServer(
            version=node.memory.server,
            allocator=node.memory.allocator,
            policy=node.memory.policy if node.memory.maxmemory_bytes else None,
            keys=node.memory.keys,
            slots=owner.status.slots if is_cluster and owner else None,
            states=self._states,
        )
        try:
            with self._linked(node.status.name) as link:
                if is_cluster and node.status.role is Role.REPLICA:
                    link.call("READONLY")
                sampler = KeySampler(link=link, clock=self._fleet.clock, sample=self._options.sample, ends_s=ends_s)
                return sampler.run(server, slots)
        except (LinkFailure, CommandFailed):
            return None

    def _watch(self, primaries: Sequence[MeasuredNode]) -> dict[NodeName, list[ServerMemory]]:
        """Read the primaries repeatedly until the interval is over. Primaries that fail are left out."""
        series = {node.status.name: [node.memory] for node in primaries}
        for _ in range(READINGS):
            self._check_stop()
            self._fleet.clock.sleep(self._options.interval_s / READINGS)
            for name in list(series):
                memory = self._brief(name)
                if memory is None:
                    del series[name]
                else:
                    series[name].append(memory)
        return series

    def _brief(self, name: NodeName) -> ServerMemory | None:
        try:
            with self._linked(name) as link:
                return server_memory(ServerInfo(link.call("INFO", *SECTIONS)), "", self._fleet.clock.monotonic())
        except (LinkFailure, CommandFailed, BadReply):
            return None

    @contextmanager
    def _linked(self, name: NodeName) -> Iterator[NodeLink]:
        """Open a connection that only this thread uses."""
        link = self._fleet.connector.separate_link(self._specs[name])
        try:
            yield link
        finally:
            link.close()


def _is_in_sync(node: MeasuredNode) -> bool:
    status = node.status
    return status.link == ReplicationLink.UP and status.lag_bytes is not None and status.lag_bytes <= IN_SYNC_BYTES


def _results(work: Mapping[NodeName, "Future[ShardSample | None]"]) -> dict[NodeName, ShardSample]:
    """The samples of the servers that could be sampled."""
    found = {node: future.result() for node, future in work.items()}
    return {node: sample for node, sample in found.items() if sample is not None}


def _warnings(
    nodes: Sequence[MeasuredNode],
    samples: Mapping[NodeName, ShardSample],
    missing: Sequence[int],
    wanted: int,
) -> Iterator[CapacityWarning]:
    for shard in missing:
        yield CapacityWarning(
            code="shard-missing", message=f"shard {shard} was not read: there are no totals for the fleet"
        )
    for version in sorted({node.memory.version for node in nodes if node.memory.server is None}):
        yield CapacityWarning(
            code="no-formula", message=f"{version} has no formula: there are no corrected and no predicted bytes"
        )
    for node in nodes:
        name, policy = node.status.name, node.memory.policy
        sample = samples.get(name)
        if sample is None:
            continue
        if len(sample.keys) < min(wanted, sample.looked_at) or (node.memory.keys and not sample.looked_at):
            text = f"{name}: the time budget ended after {sample.looked_at} names and {len(sample.keys)} keys"
            yield CapacityWarning(code="budget-spent", message=text)
        if policy is not None and policy is not EvictionPolicy.NOEVICTION and node.memory.maxmemory_bytes:
            yield CapacityWarning(code="evicts", message=f"{name}: {policy} evicts limiter state when memory is full")
