"""Compare every node's view of the fleet: which node is primary, which accepts writes, where views differ. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlctl.observe.model import NodeFacts, Observed, Peer, Role, SentinelView
from rlctl.plan.desired import Desired
from rlctl.plan.fence import is_fenced, lacks_replicas
from rlctl.plan.finding import Finding, Severity, listed
from rlctl.plan.findings import INTENDED, fence_findings, tilt_findings
from rlctl.plan.sentinel import ONLY_SHARD, believed_primary
from rlctl.plan.tilt import in_tilt
from rlctl.plan.unproven import is_state_unknown, is_unproven, may_own_unknown_slots, may_serve, proof_hint
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeName, data_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one node reports: each shard's primary, and the nodes that it marks as failed, suspects or does not know."""

    node: NodeName
    role: Role | None
    answers: bool
    is_unproven: bool = False
    ok: bool | None = None
    primaries: Mapping[int, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    epoch: int | None = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """The nodes that this node marks as failed or suspects."""
        return self.failed + self.suspected

    def to_json(self) -> dict[str, object]:
        """Return the JSON form for `status --views -o json`."""
        return {
            "node": self.node,
            "role": self.role,
            "answers": self.answers,
            "ok": self.ok,
            "primaries": {str(shard): name for shard, name in sorted(self.primaries.items())},
            "failed": list(self.failed),
            "suspected": list(self.suspected),
            "unknown": list(self.unknown),
            "epoch": self.epoch,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedPrimary:
    """A node that reports itself as a primary, or a silent node that other nodes report as a primary.

    `writable`: the node would accept a limiter's write now. `wins`: the node keeps its data if there are several
    primaries. `believed_by`: how many of the `asked` nodes report the node as the primary.
    """

    node: NodeName
    shard: int
    epoch: int | None
    offset: int | None
    keys: int | None
    writable: bool | None
    fenced: bool
    believed_by: int
    asked: int
    wins: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the JSON form for `status --views -o json`."""
        return {
            "node": self.node,
            "shard": self.shard,
            "epoch": self.epoch,
            "offset": self.offset,
            "keys": self.keys,
            "writable": self.writable,
            "fenced": self.fenced,
            "believed_by": self.believed_by,
            "asked": self.asked,
            "wins": self.wins,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The views of all nodes and the conflicts between them; empty for a fleet that does not exist."""

    name: str
    kind: Kind
    exists: bool
    conflicts: tuple[Finding, ...]
    primaries: tuple[ClaimedPrimary, ...]
    views: tuple[View, ...]

    @property
    def agree(self) -> bool:
        """Whether the fleet exists and its views have no conflict."""
        return self.exists and not self.conflicts

    @property
    def is_settled(self) -> bool:
        """Whether the fleet exists and has no conflicts except fences, which only an operator lifts."""
        return self.exists and all(conflict.code in INTENDED for conflict in self.conflicts)

    @property
    def contested(self) -> tuple[int, ...]:
        """The shards with several primaries, including nodes that other nodes report as primaries."""
        said = {(primary.shard, str(primary.node)) for primary in self.primaries}
        named = {pair for view in self.views for pair in view.primaries.items()}
        count = Counter(shard for shard, _name in said | named)
        return tuple(sorted(shard for shard, names in count.items() if names > 1))

    def to_json(self) -> dict[str, object]:
        """Return the JSON document of `status --views -o json`."""
        return {
            "schema": "rlctl.status-views/1",
            "name": self.name,
            "kind": self.kind,
            "agree": self.agree,
            "conflicts": [conflict.to_json() for conflict in self.conflicts],
            "primaries": [primary.to_json() for primary in self.primaries],
            "views": [view.to_json() for view in self.views],
        }


def views_of(desired: Desired, observed: Observed) -> Views:
    """Extract every node's view from an observation, and find the conflicts between the views."""
    views = tuple(_view(desired, observed, node) for node in observed.nodes) if observed.exists else ()
    primaries = tuple(_primaries(desired, observed, views))
    conflicts = _conflicts(desired, observed, primaries, views) if observed.exists else ()
    return Views(
        name=desired.topology.name,
        kind=desired.topology.kind,
        exists=observed.exists,
        conflicts=tuple(sorted(conflicts, key=lambda one: (one.severity is Severity.DEGRADED, one.subject, one.code))),
        primaries=primaries,
        views=views,
    )


def _view(desired: Desired, observed: Observed, node: NodeFacts) -> View:
    if not node.is_up:
        role = Role.SENTINEL if desired.specs[node.name].is_sentinel else None
        return View(node=node.name, role=role, answers=False, is_unproven=is_unproven(node))
    view = View(node=node.name, role=node.role, answers=True)
    if node.sentinel is not None:
        return _sentinel_view(desired, observed, view, node.sentinel)
    return _cluster_view(desired, observed, view, node) if node.table else _data_node_view(observed, view, node)


def _cluster_view(desired: Desired, observed: Observed, view: View, node: NodeFacts) -> View:
    """Read the table of a cluster node. Nodes outside the topology are left out, because `status` reports them."""
    names = {other.id: other.name for other in observed.nodes}
    peers = {names[peer.id]: peer for peer in node.table if peer.id in names and not peer.handshake}
    owners: dict[int, tuple[int, str]] = {}
    for name, peer in peers.items():
        shard = desired.specs[name].shard
        if shard is not None and peer.role is Role.PRIMARY and peer.slots:
            owners[shard] = max(owners.get(shard, (-1, "")), (peer.epoch, name))
    return replace(
        view,
        ok=node.fleet_ok,
        primaries={shard: name for shard, (_epoch, name) in owners.items()},
        failed=tuple(name for name, peer in peers.items() if peer.failed),
        suspected=tuple(name for name, peer in peers.items() if peer.suspected),
        unknown=tuple(other.name for other in observed.nodes if other.name not in peers),
        epoch=node.epoch,
    )


def _sentinel_view(desired: Desired, observed: Observed, view: View, sentinel: SentinelView) -> View:
    names = {(spec.address, spec.port): str(spec.name) for spec in desired.specs.values()}
    if sentinel.primary is None:
        return replace(view, ok=False, unknown=tuple(name for name in desired.specs if name != view.node))
    address, port = sentinel.primary
    primary = names.get(sentinel.primary, f"{address}:{port}")
    silent = {names[where] for where in sentinel.silent if where in names}
    reached = {names[where] for where in sentinel.replicas if where in names}
    peers = {node.name for node in observed.nodes if node.id in sentinel.peers}
    known = {primary, view.node, *silent, *reached, *peers}
    return replace(
        view,
        ok=sentinel.tilt_s is None and sentinel.usable_quorum and not sentinel.down,
        primaries={ONLY_SHARD: primary},
        failed=(primary,) if sentinel.failed else (),
        suspected=tuple(sorted(silent | ({primary} if sentinel.down and not sentinel.failed else set()))),
        unknown=tuple(name for name in desired.specs if name not in known),
        epoch=sentinel.epoch,
    )


def _data_node_view(observed: Observed, view: View, node: NodeFacts) -> View:
    """Fill in the view of a data node behind Sentinel: a primary names itself, a replica the node that it follows."""
    if node.role is Role.PRIMARY:
        return replace(view, primaries={ONLY_SHARD: node.name})
    names = {other.id: other.name for other in observed.nodes}
    if node.follows in names:
        return replace(view, primaries={ONLY_SHARD: names[node.follows]})
    where = "{}:{}".format(*node.follows_address) if node.follows_address else "no node"
    return replace(view, primaries={ONLY_SHARD: where})


def _primaries(desired: Desired, observed: Observed, views: Sequence[View]) -> Iterator[ClaimedPrimary]:
    found = list(_candidates(desired, observed, views))
    for primary in sorted(found, key=lambda one: (one.shard, one.node)):
        yield replace(primary, wins=_wins(desired, observed, primary, found))


def _candidates(desired: Desired, observed: Observed, views: Sequence[View]) -> Iterator[ClaimedPrimary]:
    asked = sum(view.answers for view in views)
    for spec in data_nodes(desired.topology):
        node, shard = observed.node(spec.name), spec.shard or ONLY_SHARD
        naming = [view for view in views if view.primaries.get(shard) == spec.name]
        if node.role is not Role.PRIMARY if node.is_up else not naming:
            continue
        yield ClaimedPrimary(
            node=spec.name,
            shard=shard,
            epoch=_epoch(desired, observed, node, naming),
            offset=node.offset,
            keys=node.keys,
            writable=_is_writable(desired, node) if node.is_up else None,
            fenced=is_fenced(node),
            believed_by=len(naming),
            asked=asked,
        )


def _is_writable(desired: Desired, node: NodeFacts) -> bool:
    serves = bool(node.slots) and node.fleet_ok is True if desired.topology.kind is Kind.CLUSTER else True
    return serves and not lacks_replicas(node)


def _epoch(desired: Desired, observed: Observed, node: NodeFacts, naming: Iterable[View]) -> int | None:
    """Return the configuration epoch of a primary.

    A live cluster node reports its own epoch; other nodes' tables show the epoch of a silent node. In a Sentinel
    fleet, return the highest epoch of the Sentinels that name the primary.
    """
    if desired.topology.kind is Kind.CLUSTER:
        return node.epoch if node.is_up else max((peer.epoch for peer in _lines(observed, node)), default=None)
    return max((view.epoch for view in naming if view.epoch is not None), default=None)


def _lines(observed: Observed, node: NodeFacts) -> Iterator[Peer]:
    return (peer for other in observed.up for peer in other.table if peer.id == node.id and peer.role is Role.PRIMARY)


def _wins(desired: Desired, observed: Observed, primary: ClaimedPrimary, found: Iterable[ClaimedPrimary]) -> bool:
    """Whether this primary keeps its data if several nodes claim to be the primary of its shard.

    In a cluster the highest epoch wins, then the smallest id. In a Sentinel fleet the primary that Sentinels name wins.
    """
    if desired.topology.kind is Kind.SENTINEL:
        return _winner_behind_sentinels(desired, observed, found) == primary.node
    ids = {node.name: node.id for node in observed.nodes}
    # A live primary without slots has no data to keep.
    claims = [one for one in found if one.shard == primary.shard and (one.writable is None or _owns(observed, one))]
    best = min(claims, key=lambda one: (-(one.epoch or 0), ids[one.node]), default=None)
    return best is not None and best.node == primary.node


def _winner_behind_sentinels(desired: Desired, observed: Observed, found: Iterable[ClaimedPrimary]) -> NodeName:
    """Return the primary that the Sentinels name, or during a failover the replica that they have promoted."""
    named = believed_primary(desired, observed).name
    if not any(node.sentinel is not None and node.sentinel.failing_over for node in observed.up):
        return named
    return next((one.node for one in found if one.node != named and one.writable is not None), named)


def _owns(observed: Observed, primary: ClaimedPrimary) -> bool:
    return bool(observed.node(primary.node).slots)


def _conflicts(
    desired: Desired, observed: Observed, primaries: Sequence[ClaimedPrimary], views: Sequence[View]
) -> Iterator[Finding]:
    if is_state_unknown(observed):
        text = f"no node is proven, so rlctl queried none and has no views to compare: {proof_hint(desired.topology)}"
        yield Finding(code="no-views", severity=Severity.DEGRADED, subject="fleet", text=text)
        return
    if not any(view.answers for view in views):
        text = "no node answers, so there are no views to compare"
        yield Finding(code="no-views", severity=Severity.CRITICAL, subject="fleet", text=text)
        return
    for shard in sorted({spec.shard for spec in data_nodes(desired.topology) if spec.shard is not None}):
        if not _may_have_writer(desired, observed, shard, primaries):
            yield from _no_writer(shard, [primary for primary in primaries if primary.shard == shard])
        yield from _two_writers(shard, [primary for primary in primaries if primary.shard == shard])
    for shard in sorted({shard for view in views for shard in view.primaries}):
        yield from _split(shard, [view for view in views if shard in view.primaries])
    # Ignore the doubts of a Sentinel in TILT, because they date from before the stall.
    current = [view for view in views if view.node not in {node.name for node in in_tilt(observed)}]
    for node in observed.up:
        doubters = [view.node for view in current if node.name in view.doubts]
        if doubters:
            text = f"{node.name} answers, but is marked as failed or suspected by {listed(doubters)}"
            yield Finding(code="doubted", severity=Severity.DEGRADED, subject=node.name, text=text)
    yield from fence_findings(observed)
    yield from tilt_findings(observed)


def _may_have_writer(desired: Desired, observed: Observed, shard: int, primaries: Sequence[ClaimedPrimary]) -> bool:
    """Whether an unproven node may be serving as the primary of the shard."""
    members = [observed.node(spec.name) for spec in data_nodes(desired.topology) if (spec.shard or ONLY_SHARD) == shard]
    named = [observed.node(primary.node) for primary in primaries if primary.shard == shard]
    is_cluster = desired.topology.kind is Kind.CLUSTER
    return any(may_serve(desired, observed, node) for node in named) or (
        is_cluster and may_own_unknown_slots(observed, members)
    )


def _no_writer(shard: int, primaries: Sequence[ClaimedPrimary]) -> Iterator[Finding]:
    if any(primary.writable for primary in primaries):
        return
    named = f": {listed(primary.node for primary in primaries)} does not" if primaries else ""
    text = f"no node accepts writes of shard {shard}{named}"
    yield Finding(code="no-writer", severity=Severity.CRITICAL, subject=f"shard {shard}", text=text)


def _two_writers(shard: int, primaries: Sequence[ClaimedPrimary]) -> Iterator[Finding]:
    writers = [primary.node for primary in primaries if primary.writable]
    if len(writers) < 2:
        return
    winner = next((primary.node for primary in primaries if primary.wins), None)
    losers = [name for name in writers if name != winner]
    text = (
        f"{listed(writers)} each accept writes of shard {shard}: "
        f"when they reconnect, the writes on {listed(losers)} are lost"
    )
    yield Finding(code="two-writers", severity=Severity.CRITICAL, subject=f"shard {shard}", text=text)


def _split(shard: int, views: Sequence[View]) -> Iterator[Finding]:
    named = Counter(view.primaries[shard] for view in views)
    if len(named) < 2:
        return
    # Critical only if Sentinels disagree, because they then send clients to different primaries.
    sent = {view.primaries[shard] for view in views if view.role is Role.SENTINEL}
    severity = Severity.CRITICAL if len(sent) > 1 else Severity.DEGRADED
    counts = ", ".join(f"{name} ({count})" for name, count in sorted(named.items()))
    text = f"views differ on the primary of shard {shard}: {counts}"
    yield Finding(code="views-split", severity=severity, subject=f"shard {shard}", text=text)
