"""Refuse to plan for servers that are not the fleet's, and for changes that rlctl cannot make. Pure."""

from collections.abc import Iterator

from rlctl.errors import AccessDenied, Refused, RlctlError
from rlctl.observe.model import NodeFacts, Observed, Presence
from rlctl.plan.desired import Desired, setting_drift
from rlctl.plan.sentinel import named_primaries, node_at
from rlctl.plan.steps import shown_value
from rlctl.plan.unproven import is_unproven, proof_hint
from rlctl.topology.model import Kind


def check(desired: Desired, observed: Observed) -> None:
    """Raise Refused or AccessDenied for the first guard that objects, with all its problems in one message."""
    guards = (_strangers, _unproven, _nonsense, _foreign, _denied, _full, _members, _watched, _engine, _restarts)
    for guard in guards:
        problems = sorted(guard(desired, observed))
        if problems:
            raise _refusal(desired, guard.__name__, problems)


MAXCLIENTS_HINT = "close client connections, then raise `maxclients` under `redis` and run `rlctl deploy`"
_HINTS = {
    "_strangers": "stop that process or choose another base_port; rlctl touches no process that it did not start",
    "_nonsense": "see the node's log; end its process, then `rlctl deploy` starts the node again",
    "_foreign": "this node is part of another or incomplete fleet; rlctl leaves it untouched: choose another base_port",
    "_denied": "import this fleet's secrets: `rlctl secrets import FILE`, or set RLCTL_SECRETS=FILE",
    "_full": MAXCLIENTS_HINT,
    "_members": "removing nodes is not available yet: undo the edit that dropped them from the topology",
    "_watched": "rlctl does not take over a primary outside the topology; find out which fleet the sentinels belong to",
    "_engine": "another server family (redis, valkey) needs a new fleet; undo the change in the topology",
    "_restarts": "rolling restarts are not available yet; undo the change, or destroy and deploy again",
}


def _refusal(desired: Desired, guard: str, problems: list[str]) -> RlctlError:
    kind = AccessDenied if guard == "_denied" else Refused
    hint = proof_hint(desired.topology) if guard == "_unproven" else _HINTS[guard]
    return kind("; ".join(problems), hint=hint)


def _strangers(desired: Desired, observed: Observed) -> Iterator[str]:
    for node in observed.nodes:
        where = desired.specs[node.name].endpoint
        if node.presence is Presence.STRANGER:
            yield f"{node.name}: another process holds {where} ({_evidence(node, where)})"
        elif node.disk.port_taken is not None:
            yield f"{node.name}: another process holds port {node.disk.port_taken}, which {where} needs"


def _unproven(desired: Desired, observed: Observed) -> Iterator[str]:
    for node in observed.nodes:
        if is_unproven(node):
            where = desired.specs[node.name].endpoint
            yield f"{node.name}: the server at {where} is not proven to be this node: {_evidence(node, where)}"


def _nonsense(desired: Desired, observed: Observed) -> Iterator[str]:
    for node in observed.nodes:
        if node.presence is Presence.NONSENSE:
            where = desired.specs[node.name].endpoint
            yield f"{node.name}: {where} gives answers that Redis never gives ({_evidence(node, where)})"


def _evidence(node: NodeFacts, where: str) -> str:
    return node.evidence.removeprefix(f"{where}: ")


def _foreign(desired: Desired, observed: Observed) -> Iterator[str]:
    for node in observed.nodes:
        if node.presence is Presence.FOREIGN:
            yield f"{node.name}: {desired.specs[node.name].endpoint} is not a node of this fleet: {node.evidence}"


def _denied(desired: Desired, observed: Observed) -> Iterator[str]:
    for node in observed.nodes:
        if node.presence is Presence.DENIED:
            where = desired.specs[node.name].endpoint
            yield f"{node.name}: {where} rejects this fleet's password ({_evidence(node, where)})"


def _full(desired: Desired, observed: Observed) -> Iterator[str]:
    for node in observed.nodes:
        if node.presence is Presence.FULL:
            where = desired.specs[node.name].endpoint
            yield f"{node.name}: {where} accepts no more clients ({_evidence(node, where)})"


def _members(desired: Desired, observed: Observed) -> Iterator[str]:
    if desired.topology.kind is not Kind.CLUSTER:
        return
    ours = {node.id for node in observed.nodes}
    aliens = {
        (peer.id, f"{peer.address}:{peer.port}")
        for node in observed.up
        for peer in node.table
        if not peer.handshake and peer.id not in ours
    }
    for node_id, where in sorted(aliens):
        yield f"the fleet has a node {node_id[:8]} at {where} that is not in the topology"


def _watched(desired: Desired, observed: Observed) -> Iterator[str]:
    if desired.topology.kind is not Kind.SENTINEL:
        return
    for address in named_primaries(desired, observed):
        if node_at(desired, observed, address) is None:
            yield f"sentinels name {address[0]}:{address[1]} as the primary, which is not in the topology"


def _engine(desired: Desired, observed: Observed) -> Iterator[str]:
    wanted = desired.topology.engine.flavor.value
    for node in observed.up:
        if node.flavor is not None and node.flavor != wanted:
            yield f"{node.name} runs {node.flavor} {node.version}, the topology says {wanted}"


def _restarts(desired: Desired, observed: Observed) -> Iterator[str]:
    yield from (f"{node.name}: {node.disk.misfit}" for node in observed.nodes if node.disk.misfit is not None)
    for node in observed.up:
        for drift in setting_drift(desired, node):
            if node.sentinel is None and not drift.is_live:
                found, wanted = (shown_value(drift.setting, value) for value in (drift.found, drift.wanted))
                yield f"{node.name}: {drift.setting} is {found}, the topology says {wanted}"
