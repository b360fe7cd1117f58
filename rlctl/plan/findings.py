"""All findings about a fleet, as `status` and the check after `deploy` report them. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from rlctl.observe.model import NodeFacts, Observed, Presence, Role
from rlctl.plan.cluster_findings import cluster_findings
from rlctl.plan.desired import Desired, lacks_users, missing_scripts, setting_drift
from rlctl.plan.fence import fenced
from rlctl.plan.finding import Finding, Severity, State, critical, degraded, listed
from rlctl.plan.sentinel_findings import sentinel_findings
from rlctl.plan.steps import shown_value
from rlctl.plan.tilt import in_tilt, remaining_s
from rlctl.plan.unproven import is_state_unknown, proof_hint
from rlctl.topology.change import RefusedEdit, summary
from rlctl.topology.model import Kind, TargetName

_PRESENCE = {
    Presence.ABSENT: ("node-down", "is down"),
    Presence.HUNG: ("node-hung", "has a process that does not answer"),
    Presence.FULL: ("node-maxclients", "runs and accepts no more clients"),
    Presence.LOADING: ("node-loading", "is loading its data"),
    Presence.DENIED: ("node-denied", "rejects this fleet's password"),
    Presence.NONSENSE: ("node-nonsense", "gives answers that Redis never gives"),
    Presence.UNPROVEN: (
        "node-unproven",
        "is not proven: another process may hold its port; rlctl sends no password",
    ),
    Presence.STRANGER: ("node-stranger", "is down, and another process holds its port"),
    Presence.FOREIGN: ("node-foreign", "is down, and a node of another fleet holds its port"),
}


NODE_FENCED = "node-fenced"
# States that an operator has set. rlctl reports them, but deploy does not wait until they end.
INTENDED = frozenset({NODE_FENCED})
# Findings that deploy can neither cause nor fix. rlctl reports them, but deploy does not wait until they end.
NOT_FIXED_BY_DEPLOY = INTENDED | {"memory-full"}


def assess(desired: Desired, observed: Observed) -> tuple[Finding, ...]:
    """Return all findings, critical ones first, in a stable order."""
    if not observed.exists:
        return tuple(_unreadable_hosts(observed))
    if _is_firewalled(desired, observed):
        text = (
            f"none of the {len(observed.nodes)} nodes answers this machine, although all their processes run: "
            "the firewall on the hosts may not admit this machine; `rlctl deploy` adds a rule for it"
        )
        return (degraded("node-unknown", "fleet", text), *difference_findings(desired.refusals))
    kind = cluster_findings if desired.topology.kind is Kind.CLUSTER else sentinel_findings
    found = [
        *difference_findings(desired.refusals),
        *_presence(observed),
        *fence_findings(observed),
        *tilt_findings(observed),
        *_drift(desired, observed),
        *(_all_unproven(desired) if is_state_unknown(observed) else kind(desired, observed)),
    ]
    return tuple(sorted(found, key=lambda one: (one.severity is Severity.DEGRADED, one.subject, one.code)))


def _all_unproven(desired: Desired) -> Iterator[Finding]:
    text = (
        "no node is proven to belong to this fleet, so rlctl queried none and cannot tell whether the fleet serves: "
        f"{proof_hint(desired.topology)}"
    )
    yield degraded("node-unproven", "fleet", text)


def state_of(findings: Iterable[Finding], observed: Observed) -> State:
    """Return the state of the fleet; ABSENT only if rlctl found no part of the fleet and has no findings."""
    severities = {finding.severity for finding in findings}
    if not observed.exists and not severities:
        return State.ABSENT
    if Severity.CRITICAL in severities:
        return State.CRITICAL
    return State.DEGRADED if severities else State.HEALTHY


def _unreadable_hosts(observed: Observed) -> Iterator[Finding]:
    """Yield a finding for each node whose host rlctl could not read, as the node may exist."""
    for node in observed.nodes:
        if node.disk.unknown is not None:
            text = f"cannot tell whether {node.name} exists: {node.disk.unknown}"
            yield critical("node-unknown", node.name, text)


def _is_firewalled(desired: Desired, observed: Observed) -> bool:
    """Whether the hosts drop every packet of this machine: all processes run, and none accepts a connection.

    A known pid is the evidence: it is read only for a hung process that accepts no connection.
    """
    is_there = desired.topology.target is TargetName.HOSTS
    return is_there and all(node.presence is Presence.HUNG and node.disk.pid is not None for node in observed.nodes)


def difference_findings(refusals: Sequence[RefusedEdit]) -> Iterator[Finding]:
    """Yield a finding if deploy would refuse the topology file: deploy repairs nothing until the file is corrected."""
    if refusals:
        yield degraded("topology-differs", "fleet", f"deploy would refuse: {summary(refusals)}")


def _presence(observed: Observed) -> Iterator[Finding]:
    for node in observed.nodes:
        if node.presence is Presence.ABSENT and node.disk.unknown is not None:
            yield degraded("node-unknown", node.name, f"{node.name} does not answer: {node.disk.unknown}")
        elif node.presence in _PRESENCE:
            code, text = _PRESENCE[node.presence]
            starting = node.presence is Presence.ABSENT and node.disk.running
            evidence = "its process runs but does not listen" if starting else node.evidence
            yield degraded(code, node.name, f"{node.name} {text}" + (f" ({evidence})" if evidence else ""))


def fence_findings(observed: Observed) -> Iterator[Finding]:
    """Yield a finding for each fenced node."""
    for node in fenced(observed):
        lift = f"`rlctl unfence {node.name}` lifts it"
        yield degraded(NODE_FENCED, node.name, f"{node.name} is fenced: it refuses writes; {lift}")


def tilt_findings(observed: Observed) -> Iterator[Finding]:
    """Yield a finding for each Sentinel in TILT."""
    for node in in_tilt(observed):
        text = (
            f"{node.name} is in TILT for about {remaining_s([node])} s more, after a stall or a clock jump: "
            "until then it takes no action and its view of other nodes is stale"
        )
        yield degraded("sentinel-tilt", node.name, text)


def _drift(desired: Desired, observed: Observed) -> Iterator[Finding]:
    for node in observed.nodes:
        if node.disk.misfit is not None:
            yield degraded("place-drift", node.name, f"{node.name}: {node.disk.misfit}")
    for node in observed.up:
        yield from _memory_full(node)
        for drift in setting_drift(desired, node):
            found, wanted = (shown_value(drift.setting, value) for value in (drift.found, drift.wanted))
            text = f"{node.name} has {drift.setting} {found}, the topology says {wanted}"
            yield degraded("setting-drift", node.name, text)
        lacking = missing_scripts(desired, node)
        if lacking:
            text = f"{node.name} lacks {len(lacking)} of {len(desired.scripts)} scripts: {listed(lacking)}"
            yield degraded("scripts-missing", node.name, text)
        if lacks_users(desired, node):
            yield degraded("users-drift", node.name, _users_text(desired, node))
        if node.flavor not in {None, desired.topology.engine.flavor.value}:
            yield degraded("engine-drift", node.name, f"{node.name} runs {node.flavor} {node.version}")


def _memory_full(node: NodeFacts) -> Iterator[Finding]:
    """Yield a finding for a primary that refuses writes with OOM.

    Replicas are not checked, because they apply their primary's writes even beyond their own `maxmemory`.
    """
    most = node.settings.get("maxmemory", "")
    if node.role is not Role.PRIMARY or node.settings.get("maxmemory-policy") != "noeviction":
        return
    if node.used_bytes is not None and most.isdecimal() and 0 < int(most) <= node.used_bytes:
        limit = shown_value("maxmemory", most)
        text = f"{node.name} refuses writes (OOM): {node.used_bytes} bytes used, maxmemory is {limit}"
        yield critical("memory-full", node.name, text)


def _users_text(desired: Desired, node: NodeFacts) -> str:
    if node.acl_revision != desired.revisions[node.name]:
        return f"{node.name} has not loaded the users of this release"
    return f"{listed(node.users_off)} cannot log in on {node.name}: disabled, or with another password"
