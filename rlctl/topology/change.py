"""Find the edits of a topology file that deploy refuses on a deployed fleet. Pure."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.nodes import all_nodes
from rlctl.topology.subnets import AUTO

_Getter = Callable[[Topology], object]
_UNDO = "undo the change, or destroy the fleet and deploy it again"
_RENAME = "undo the change, or give the new fleet another name"
_NO_SLOTS = "moving slots under load is not available yet: undo the change, or deploy a second fleet"
_NO_REMOVAL = "removing nodes is not available yet: undo the change"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEdit:
    """An edit that deploy refuses, and what to do instead."""

    text: str
    hint: str


def refused_edits(deployed: Topology, wanted: Topology) -> tuple[RefusedEdit, ...]:
    """The edits from `deployed` to `wanted` that deploy refuses."""
    if identity := tuple(_changed(deployed, wanted, _IDENTITY)):
        # The kind or the target differs, so a comparison of the other settings would mean nothing.
        return identity
    changed = (*_changed(deployed, wanted, _FIXED), *_fewer(deployed, wanted))
    return changed or tuple(_moved(deployed, wanted))


def as_deployed(wanted: Topology, deployed: Topology) -> Topology:
    """The wanted topology, with every setting that deploy cannot change taken from the deployed one."""
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


def summary(found: Sequence[RefusedEdit]) -> str:
    """The first three edits in one line, and the number of the others."""
    more = f" (+{len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
    return "; ".join(edit.text for edit in found[:_SHOWN]) + more


def _changed(deployed: Topology, wanted: Topology, table: dict[str, tuple[_Getter, str]]) -> Iterator[RefusedEdit]:
    for name, (setting, hint) in table.items():
        was, now = setting(deployed), setting(wanted)
        if was != now:
            yield _refused(wanted, f"{name} {_as_text(was)}", now, hint)


def _fewer(deployed: Topology, wanted: Topology) -> Iterator[RefusedEdit]:
    for name, count in _COUNTS[deployed.kind].items():
        was, now = count(deployed), count(wanted)
        if now < was:
            yield _refused(wanted, f"{name} {was}", now, _NO_REMOVAL)


def _moved(deployed: Topology, wanted: Topology) -> Iterator[RefusedEdit]:
    """Edits that change the address of a node. With subnet `auto`, a deployed fleet keeps its network."""
    if wanted.target is TargetName.DOCKER and wanted.docker.subnet == AUTO:
        return
    places = {spec.name: spec.endpoint for spec in all_nodes(wanted)}
    for spec in all_nodes(deployed):
        if places[spec.name] != spec.endpoint:
            yield _refused(wanted, f"{spec.name} at {spec.endpoint}", places[spec.name], _UNDO)


def _refused(wanted: Topology, was: str, now: object, hint: str) -> RefusedEdit:
    text = f"fleet {wanted.name} is deployed with {was}; the topology now says {_as_text(now)}"
    return RefusedEdit(text=text, hint=hint)


def _as_text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _of_local(setting: _Getter) -> _Getter:
    """Return a getter that gives the setting for target local, and None for other targets, which ignore it."""
    return lambda topology: setting(topology) if topology.target is TargetName.LOCAL else None


def _shards(topology: Topology) -> int:
    return topology.cluster.shards if topology.kind is Kind.CLUSTER else 1


_IDENTITY: dict[str, tuple[_Getter, str]] = {
    "kind": (lambda topology: topology.kind, _RENAME),
    "target": (lambda topology: topology.target, _RENAME),
}
_FIXED: dict[str, tuple[_Getter, str]] = {
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
