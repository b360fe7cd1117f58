"""Which edits of a topology file deploy refuses on a deployed fleet. Pure."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.nodes import all_nodes
from rlctl.topology.subnets import AUTO

Setting = Callable[[Topology], object]
_UNDO = "undo the change, or destroy the fleet and deploy it again"
_RENAME = "a name stands for one fleet: give the new one another name"
_NO_SLOTS = "moving slots under load is not available yet: undo the change, or deploy a second fleet"
_NO_REMOVAL = "removing nodes is not available yet: undo the change"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An edit that deploy refuses, and what to do instead."""

    text: str
    hint: str


def refusals(deployed: Topology, wanted: Topology) -> tuple[Refusal, ...]:
    """Every edit between the two that deploy refuses; none where it can carry them all out."""
    if identity := tuple(_changed(deployed, wanted, _IDENTITY)):
        # Every other setting means something else for another kind or target.
        return identity
    changed = (*_changed(deployed, wanted, _FIXED), *_fewer(deployed, wanted))
    return changed or tuple(_moved(deployed, wanted))


def as_deployed(wanted: Topology, deployed: Topology) -> Topology:
    """The wanted topology on the nodes of the deployed one; settings that deploy can change stay as wanted."""
    cluster, sentinel = deployed.cluster, deployed.sentinel
    if wanted.kind is deployed.kind:
        cluster = replace(wanted.cluster, shards=cluster.shards, replicas=cluster.replicas)
        sentinel = replace(
            wanted.sentinel, replicas=sentinel.replicas, sentinels=sentinel.sentinels, quorum=sentinel.quorum
        )
    return replace(
        wanted,
        kind=deployed.kind,
        target=deployed.target,
        cluster=cluster,
        sentinel=sentinel,
        engine=deployed.engine,
        security=deployed.security,
        local=deployed.local,
        docker=replace(wanted.docker, subnet=deployed.docker.subnet),
        hosts=deployed.hosts,
    )


def summary(found: Sequence[Refusal]) -> str:
    """The first few in one line."""
    more = f" (+{len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
    return "; ".join(refusal.text for refusal in found[:_SHOWN]) + more


def _changed(deployed: Topology, wanted: Topology, table: dict[str, tuple[Setting, str]]) -> Iterator[Refusal]:
    for word, (setting, hint) in table.items():
        was, now = setting(deployed), setting(wanted)
        if was != now:
            yield _refusal(wanted, f"{word} {_say(was)}", now, hint)


def _fewer(deployed: Topology, wanted: Topology) -> Iterator[Refusal]:
    for word, count in _COUNTS[deployed.kind].items():
        was, now = count(deployed), count(wanted)
        if now < was:
            yield _refusal(wanted, f"{word} {was}", now, _NO_REMOVAL)


def _moved(deployed: Topology, wanted: Topology) -> Iterator[Refusal]:
    """Nodes at another address; what `auto` means for a deployed fleet is the network that it has."""
    if wanted.target is TargetName.DOCKER and wanted.docker.subnet == AUTO:
        return
    places = {spec.name: spec.endpoint for spec in all_nodes(wanted)}
    for spec in all_nodes(deployed):
        if places[spec.name] != spec.endpoint:
            yield _refusal(wanted, f"{spec.name} at {spec.endpoint}", places[spec.name], _UNDO)


def _refusal(wanted: Topology, was: str, now: object, hint: str) -> Refusal:
    text = f"fleet {wanted.name} is deployed with {was}; the topology now says {_say(now)}"
    return Refusal(text=text, hint=hint)


def _say(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _of_local(setting: Setting) -> Setting:
    """A setting that other targets ignore."""
    return lambda topology: setting(topology) if topology.target is TargetName.LOCAL else None


def _shards(topology: Topology) -> int:
    return topology.cluster.shards if topology.kind is Kind.CLUSTER else 1


_IDENTITY: dict[str, tuple[Setting, str]] = {
    "kind": (lambda topology: topology.kind, _RENAME),
    "target": (lambda topology: topology.target, _RENAME),
}
_FIXED: dict[str, tuple[Setting, str]] = {
    "local.address": (_of_local(lambda topology: topology.local.address), _UNDO),
    "local.base_port": (lambda topology: topology.local.base_port, _UNDO),
    "local.spread": (_of_local(lambda topology: topology.local.spread), _UNDO),
    "cluster.shards": (_shards, _NO_SLOTS),
    "security.acl": (lambda topology: topology.security.acl, _UNDO),
    "security.tls": (lambda topology: topology.security.tls, _UNDO),
    "engine.flavor": (lambda topology: topology.engine.flavor, _UNDO),
}
_COUNTS: dict[Kind, dict[str, Callable[[Topology], int]]] = {
    Kind.CLUSTER: {"cluster.replicas": lambda topology: topology.cluster.replicas},
    Kind.SENTINEL: {
        "sentinel.replicas": lambda topology: topology.sentinel.replicas,
        "sentinel.sentinels": lambda topology: topology.sentinel.sentinels,
    },
}
