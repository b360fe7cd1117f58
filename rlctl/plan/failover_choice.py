"""Decide whether a failover is safe, and which replica takes over. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rlctl.errors import Refused
from rlctl.observe.model import NodeFacts, Observed, ReplicationLink, Role
from rlctl.plan.cluster import never_synced, successor
from rlctl.plan.desired import Desired
from rlctl.plan.failover import FailoverMode, FailoverPlan, shard_of
from rlctl.plan.fence import is_fenced
from rlctl.plan.ownership import Shard, shards
from rlctl.plan.sentinel import address_of, named_primaries, node_at, observed_sentinels
from rlctl.plan.tilt import is_in_tilt
from rlctl.plan.unproven import is_unproven, proof_hint_or
from rlctl.topology.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A requested failover and the observed fleet, which the guards check."""

    desired: Desired
    state: Observed
    mode: FailoverMode
    shard: Shard
    owner: NodeFacts

    @property
    def is_cluster(self) -> bool:
        return self.desired.topology.kind is Kind.CLUSTER

    @property
    def has_majority(self) -> bool:
        return sum(owner.is_up for owner in self.owners) > self.desired.topology.cluster.shards // 2

    @property
    def owners(self) -> tuple[NodeFacts, ...]:
        return tuple(one.owner for one in shards(self.desired.topology, self.state) if one.owner is not None)

    @property
    def replicas(self) -> tuple[NodeFacts, ...]:
        """The replicas that may take over: live, not fenced and, in a planned failover, linked to the primary."""
        live = (node for node in self.shard.live_replicas() if not is_fenced(node))
        return tuple(node for node in live if self.mode is not FailoverMode.PLANNED or node.link is ReplicationLink.UP)

    @property
    def candidate(self) -> NodeFacts | None:
        """The replica that will take over.

        Sentinels choose it themselves: rlctl predicts their choice from priority, offset and run id.
        """
        if self.is_cluster:
            return successor(self.desired, replace(self.shard, members=(self.owner, *self._preferred)))
        electable = [node for node in self.replicas if _is_electable(node) and not never_synced(node)]
        return min(
            electable, key=lambda node: (node.priority or 0, -(node.offset or 0), node.run_id or ""), default=None
        )

    @property
    def _preferred(self) -> tuple[NodeFacts, ...]:
        """The replicas on other hosts if there are any and the failover is planned, otherwise all replicas.

        A planned failover often precedes work on the primary's host.
        """
        specs = self.desired.specs
        away = tuple(node for node in self.replicas if specs[node.name].host != specs[self.owner.name].host)
        return away if away and self.mode is FailoverMode.PLANNED else self.replicas

    @property
    def sentinel(self) -> NodeFacts | None:
        """The Sentinel that starts the failover.

        It is one of the Sentinels that watch this primary. rlctl prefers a Sentinel that is not in TILT, has a usable
        quorum and reaches the candidate.
        """
        candidate = self.candidate
        watching = [node for node in observed_sentinels(self.desired, self.state) if self._watches(node)]
        return max(
            watching,
            key=lambda node: (
                not is_in_tilt(node),
                _has_quorum(node),
                candidate is not None and self._sees(node, candidate),
            ),
            default=None,
        )

    def _watches(self, node: NodeFacts) -> bool:
        return (
            node.is_up and node.sentinel is not None and node.sentinel.primary == address_of(self.desired, self.owner)
        )

    def _sees(self, node: NodeFacts, candidate: NodeFacts) -> bool:
        return node.sentinel is not None and address_of(self.desired, candidate) in node.sentinel.replicas


# The problem and a hint; None if the guard has no objection.
Objection = tuple[str, str] | None
_Guard = Callable[[_Case], Objection]


def choose(desired: Desired, state: Observed, number: int, mode: FailoverMode) -> FailoverPlan:
    """Plan the failover of a shard; raises Refused with the name of the first guard that objects."""
    shard = shard_of(desired, state, number)
    if shard.owner is None:
        raise Refused(
            f"guard no-primary: no node owns slots of shard {number}", hint="`rlctl deploy` assigns the slots"
        )
    case = _Case(desired=desired, state=state, mode=mode, shard=shard, owner=shard.owner)
    for name, guard in _GUARDS[mode].items():
        if objection := guard(case):
            problem, hint = objection
            raise Refused(f"guard {name}: {problem}", hint=hint)
    candidate = case.candidate
    if candidate is None:
        hint = _hint(case, shard.others, "`rlctl deploy` starts the replicas")
        raise Refused(f"guard no-replica: {_why_no_candidate(case)}", hint=hint)
    return FailoverPlan(
        shard=number,
        mode=mode,
        old=shard.owner.name,
        new=candidate.name,
        behind_bytes=candidate.lag_bytes,
        is_old_up=shard.owner.is_up,
        old_run_id=shard.owner.run_id,
        replicas=tuple(node.name for node in case.replicas),
        sentinel=None if case.sentinel is None else case.sentinel.name,
    )


def _hint(case: _Case, nodes: Iterable[NodeFacts], otherwise: str) -> str:
    return proof_hint_or(case.desired, case.state, nodes, otherwise)


def _primary_silent(case: _Case) -> Objection:
    if case.owner.is_up and case.owner.role is Role.PRIMARY:
        return None
    silent = "is not proven" if is_unproven(case.owner) else "does not answer"
    what = silent if not case.owner.is_up else "answers as a replica"
    evidence = f" ({case.owner.evidence})" if case.owner.evidence else ""
    command = _lossy_command(case, without_votes=case.is_cluster and not case.has_majority)
    hint = _hint(case, [case.owner], f"`rlctl deploy` if the node can start again; otherwise {command}")
    return f"{case.owner.name}, the primary of shard {case.shard.number}, {what}{evidence}", hint


def _lossy_command(case: _Case, *, without_votes: bool) -> str:
    number = case.shard.number
    command = f"`rlctl failover {number} --takeover`" if without_votes else f"`rlctl failover {number} --force`"
    return f"{command}, which may lose writes that the replica does not hold"


def _two_primaries(case: _Case) -> Objection:
    rivals = [node.name for node in case.shard.rivals if node.is_up]
    if not rivals:
        return None
    return (
        f"{', '.join(sorted(rivals))} claims shard {case.shard.number} beside {case.owner.name}",
        "`rlctl status --wait` waits until one of them is a replica; if both stay primaries, run `rlctl deploy`",
    )


def _views_split(case: _Case) -> Objection:
    named = named_primaries(case.desired, case.state)
    if case.is_cluster or (len(named) <= 1 and all(node_at(case.desired, case.state, address) for address in named)):
        return None
    views = ", ".join(f"{address}:{port} ({count})" for (address, port), count in sorted(named.items()))
    return f"the sentinels do not agree on one primary of this fleet: {views}", "`rlctl status --wait` until they agree"


def _failing_over(case: _Case) -> Objection:
    busy = [node.name for node in case.state.up if _is_replacing(case, node)]
    if not busy:
        return None
    return (
        f"{', '.join(busy)} is replacing {case.owner.name}, or marks it as failed: a failover is already running",
        "`rlctl status --wait`, then see which node is the primary",
    )


def _is_replacing(case: _Case, node: NodeFacts) -> bool:
    if node.sentinel is not None:
        return node.sentinel.failing_over
    return any(peer.id == case.owner.id and peer.failed for peer in node.table)


def _no_majority(case: _Case) -> Objection:
    if not case.is_cluster or case.has_majority:
        return None
    otherwise = f"`rlctl deploy` starts them; without votes: {_lossy_command(case, without_votes=True)}"
    return "too few primaries answer: a failover needs the votes of a majority", _hint(case, case.owners, otherwise)


def _no_quorum(case: _Case) -> Objection:
    # Do not judge a Sentinel in TILT, whose data is not current: the failover waits until TILT ends, and then rlctl
    # runs the guards again.
    if case.is_cluster or (case.sentinel is not None and (is_in_tilt(case.sentinel) or _has_quorum(case.sentinel))):
        return None
    otherwise = f"`rlctl deploy` starts the sentinels; with one sentinel: {_lossy_command(case, without_votes=False)}"
    problem = f"no sentinel that watches {case.owner.name} sees a usable quorum"
    return problem, _hint(case, observed_sentinels(case.desired, case.state), otherwise)


def _no_sentinel(case: _Case) -> Objection:
    if case.is_cluster or case.sentinel is not None:
        return None
    hint = _hint(case, observed_sentinels(case.desired, case.state), "`rlctl deploy` starts the sentinels")
    return f"no living sentinel watches {case.owner.name}", hint


def _out_of_touch(case: _Case) -> Objection:
    """Object if a replica has no link to its primary.

    Sentinel may still promote this replica, because Sentinel's data on the link is seconds old.
    """
    behind = [
        node.name for node in case.shard.live_replicas() if node.link is not ReplicationLink.UP and _is_electable(node)
    ]
    if case.is_cluster or not behind or case.candidate is None:
        return None
    return (
        f"{', '.join(behind)} has no link to {case.owner.name}, and Sentinel may promote it",
        "`rlctl status --wait` until the link is up",
    )


def _fenced_replica(case: _Case) -> Objection:
    """Object if a fenced replica may be promoted: it would stay fenced, and refuse every write as the primary.

    Sentinel may promote any replica. In a cluster rlctl chooses, and objects only if no other replica can take over.
    """
    fenced = [node.name for node in case.shard.live_replicas() if is_fenced(node) and _is_electable(node)]
    if not fenced or (case.is_cluster and case.candidate is not None):
        return None
    return (
        f"{', '.join(fenced)} is fenced: as primary of shard {case.shard.number} it would refuse every write",
        f"`rlctl unfence {fenced[0]}` lifts the fence",
    )


def _why_no_candidate(case: _Case) -> str:
    if case.replicas and not case.is_cluster and not any(_is_electable(node) for node in case.replicas):
        return f"every replica of {case.owner.name} has replica-priority 0, so Sentinel promotes none"
    state = " with its link up" if case.mode is FailoverMode.PLANNED else " and has synchronised with it"
    return f"no replica of {case.owner.name} answers{state}"


_GUARDS: dict[FailoverMode, dict[str, _Guard]] = {
    FailoverMode.PLANNED: {
        "two-primaries": _two_primaries,
        "views-split": _views_split,
        "primary-silent": _primary_silent,
        "failing-over": _failing_over,
        "no-majority": _no_majority,
        "no-quorum": _no_quorum,
        "out-of-touch": _out_of_touch,
        "fenced-heir": _fenced_replica,
    },
    FailoverMode.FORCE: {"no-majority": _no_majority, "no-sentinel": _no_sentinel, "fenced-heir": _fenced_replica},
    FailoverMode.TAKEOVER: {"fenced-heir": _fenced_replica},
}


def _is_electable(node: NodeFacts) -> bool:
    return node.priority != 0


def _has_quorum(node: NodeFacts) -> bool:
    return node.sentinel is not None and node.sentinel.usable_quorum
