"""Checks of a running fleet: its nodes, ports, files and certificates. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from rlctl.doctor.model import Check, failed, passed, unread, warned
from rlctl.doctor.resource_checks import size_text
from rlctl.observe.model import NodeFacts, Observed, Presence, Role
from rlctl.plan.clients import lowered_maxclients
from rlctl.plan.desired import Desired
from rlctl.plan.finding import Finding, Severity
from rlctl.plan.findings import assess
from rlctl.plan.guards import MAXCLIENTS_HINT
from rlctl.plan.unproven import is_unproven, proof_hint
from rlctl.render.redis_conf import max_clients, open_files
from rlctl.topology.model import Kind, TargetName

MEMORY_WARNING = 0.70
MEMORY_CRITICAL = 0.85
CERTIFICATE_WARNING = timedelta(days=21)
CERTIFICATE_CRITICAL = timedelta(days=7)

_FIXES = {
    "node-down": "rlctl deploy",
    "node-hung": "run `kill -CONT PID` if the process was stopped; else end it by its pid, then `rlctl deploy`",
    "node-loading": "wait: `rlctl status --wait`",
    "node-denied": "rlctl secrets import FILE",
    "node-nonsense": "read the node's log; end its process by its pid, then `rlctl deploy`",
    "node-stranger": "stop that process, or move the fleet to another base_port",
    "node-foreign": "move one of the two fleets to another base_port",
    "topology-differs": "undo the change in the topology file; `rlctl deploy --dry-run` shows the alternative",
    "memory-full": "raise memory.maxmemory and run `rlctl deploy`, or find what grows: `rlctl capacity measure`",
    "node-maxclients": MAXCLIENTS_HINT,
    "node-fenced": "rlctl unfence {subject}",
    "unknown-member": "find out why it joined; rlctl cannot remove it yet",
    "two-primaries": "wait: `rlctl status --wait`; the primary with the lower epoch becomes a replica",
    "views-split": "check the network between the nodes, then `rlctl status --wait`",
    "link-down": "check the replica's log and its network connection to the primary",
    "cluster-fail": "rlctl deploy",
    "quorum-lost": "`rlctl deploy` starts the sentinels that are down",
    "sentinel-tilt": "wait: `rlctl status --wait`; if it returns, look for stalls and clock jumps on its host",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """Facts about the fleet's files on this machine: access by other users, and expiry of certificates."""

    # Files that other users can read.
    exposed: tuple[str, ...] = ()
    # Evidence and fix of each file that rlctl does not trust.
    distrusted: tuple[tuple[str, str], ...] = ()
    # Name and expiry of each certificate.
    certificates: tuple[tuple[str, datetime], ...] = ()


def fleet_checks(desired: Desired, observed: Observed, files: FileFacts, now: datetime) -> tuple[Check, ...]:
    """The checks of a fleet. If the fleet does not exist yet, rlctl checks only its ports."""
    if not observed.exists:
        return tuple(_ports(desired, observed))
    return (
        *_ports(desired, observed),
        *_findings(desired, observed),
        *_memory(observed),
        *_clients(desired, observed),
        *_bus(desired),
        *_files(desired, files),
        *_certificates(files, now),
    )


def _ports(desired: Desired, observed: Observed) -> Iterator[Check]:
    """Check for ports that another process holds. Deploy would fail on such ports."""
    name = desired.topology.name
    taken = [
        node
        for node in observed.nodes
        if node.presence in {Presence.STRANGER, Presence.FOREIGN} or node.disk.port_taken is not None
    ]
    unproven = [node for node in observed.nodes if is_unproven(node)]
    if taken:
        fix = "stop the processes that hold the ports, or choose another base_port"
        yield failed("ports", name, f"another process holds the port of {_places(desired, taken)}", fix)
    if unproven:
        evidence = f"not proven to belong to the fleet: {_places(desired, unproven)}"
        yield unread("ports", name, evidence, proof_hint(desired.topology))
    if not taken and not unproven:
        yield passed("ports", name, f"the ports of all {len(observed.nodes)} nodes are free or held by the fleet")


def _places(desired: Desired, nodes: Iterable[NodeFacts]) -> str:
    return ", ".join(f"{node.name} at {desired.specs[node.name].endpoint}" for node in nodes)


def _findings(desired: Desired, observed: Observed) -> Iterator[Check]:
    findings = assess(desired, observed)
    if not findings:
        yield passed("fleet", desired.topology.name, f"all {len(observed.nodes)} nodes match the topology")
    for finding in findings:
        yield _from_finding(desired, finding)


def _from_finding(desired: Desired, finding: Finding) -> Check:
    make = failed if finding.severity is Severity.CRITICAL else warned
    known = _FIXES.get(finding.code, "rlctl deploy").format(subject=finding.subject)
    fix = proof_hint(desired.topology) if finding.code == "node-unproven" else known
    return make(finding.code, finding.subject, finding.text, fix)


def _memory(observed: Observed) -> Iterator[Check]:
    for node in observed.up:
        if node.role is not Role.SENTINEL:
            yield _node_memory(node)


def _node_memory(node: NodeFacts) -> Check:
    limit = node.settings.get("maxmemory", "")
    if node.used_bytes is None or not limit.isdigit():
        return unread(
            "memory-used",
            node.name,
            "used memory or maxmemory could not be read",
            "check by hand: redis-cli INFO memory",
        )
    if limit == "0":
        return warned("memory-used", node.name, "maxmemory is 0: memory is not limited", "set memory.maxmemory")
    share = node.used_bytes / int(limit)
    evidence = f"{size_text(node.used_bytes)} of {size_text(int(limit))} used ({share:.0%})"
    fix = "raise memory.maxmemory and run `rlctl deploy`, or find what grows: `rlctl capacity measure`"
    if share >= MEMORY_CRITICAL:
        return failed("memory-used", node.name, evidence, fix)
    if share >= MEMORY_WARNING:
        return warned("memory-used", node.name, evidence, fix)
    return passed("memory-used", node.name, evidence)


def _clients(desired: Desired, observed: Observed) -> Iterator[Check]:
    name, topology, few = "maxclients-lowered", desired.topology, lowered_maxclients(desired, observed)
    wanted, files = max_clients(topology), open_files(topology)
    for node, most in few.items():
        evidence = f"maxclients is {most}, not {wanted}: the server lowered it to fit its limit of open files"
        fix = (
            f"run `ulimit -n {files}` in this shell; if the node is a primary, run a failover; "
            "then end its process by its pid and run `rlctl deploy`"
        )
        yield warned(name, node, evidence, fix)
    if not few:
        yield passed(name, topology.name, f"every node accepts {wanted} clients")


def _bus(desired: Desired) -> Iterator[Check]:
    topology = desired.topology
    if topology.kind is not Kind.CLUSTER:
        return
    on_loopback = topology.target is TargetName.LOCAL and topology.local.address.startswith("127.")
    if topology.security.tls or on_loopback:
        how = "TLS" if topology.security.tls else "loopback only"
        yield passed("bus-authentication", topology.name, f"the cluster bus is protected: {how}")
    else:
        evidence = "without TLS, any process that reaches the bus ports can join the cluster"
        yield warned(
            "bus-authentication", topology.name, evidence, "set security.tls, or block the bus ports for other machines"
        )


def _files(desired: Desired, files: FileFacts) -> Iterator[Check]:
    name = desired.topology.name
    for evidence, fix in files.distrusted:
        yield failed("file-modes", name, evidence, fix)
    if files.exposed:
        listed = ", ".join(files.exposed[:3]) + (f" and {len(files.exposed) - 3} more" if files.exposed[3:] else "")
        yield failed("file-modes", name, f"other users can read {listed}", "run `chmod go=` on these files")
    elif not files.distrusted:
        yield passed("file-modes", name, "no other user can read or change a file of the fleet")


def _certificates(files: FileFacts, now: datetime) -> Iterator[Check]:
    for name, expiry in files.certificates:
        left = expiry - now
        evidence = f"valid until {expiry:%Y-%m-%d} ({left.days} days)"
        fix = "plan a new deployment of the fleet, which renews its certificates"
        if left < CERTIFICATE_CRITICAL:
            yield failed("certificate", name, evidence, fix)
        elif left < CERTIFICATE_WARNING:
            yield warned("certificate", name, evidence, fix)
        else:
            yield passed("certificate", name, evidence)
