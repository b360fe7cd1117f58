"""The fleet record: what was deployed under a name, so that a changed file is noticed before anything is touched."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path

from rlctl.errors import Refused
from rlctl.system.files import read_text, write_private
from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.nodes import all_nodes
from rlctl.topology.subnets import AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRecord:
    """What cannot change under a deployed fleet in this version."""

    kind: str
    target: str
    address: str
    base_port: int
    shards: int
    acl: bool
    tls: bool
    flavor: str
    # A record from before a file could say it is of a fleet at one address.
    spread: bool = False
    # Addresses off target local; a record from before there were any holds none.
    places: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> "FleetRecord":
        """What the topology would deploy."""
        return cls(
            kind=topology.kind.value,
            target=topology.target.value,
            address=topology.local.address,
            base_port=topology.local.base_port,
            shards=topology.cluster.shards if topology.kind is Kind.CLUSTER else 1,
            acl=topology.security.acl,
            tls=topology.security.tls,
            flavor=topology.engine.flavor.value,
            spread=topology.local.spread,
            places=_places(topology),
        )

    @classmethod
    def load(cls, path: Path) -> "FleetRecord | None":
        """The record, or None where nothing was deployed from here."""
        text = read_text(path)
        if text is None:
            return None
        try:
            document = json.loads(text)
            required = {one.name for one in fields(cls) if MISSING is one.default is one.default_factory}
            return cls(**{one.name: document[one.name] for one in fields(cls) if one.name in {*required, *document}})
        except (ValueError, KeyError, TypeError) as failure:
            raise Refused(f"{path} is damaged", hint="restore it, or remove it if this fleet is gone") from failure

    def save(self, path: Path) -> None:
        """Remember it."""
        write_private(path, json.dumps(asdict(self), indent=2) + "\n", durable=True)

    def check(self, topology: Topology) -> None:
        """Refuse a topology that asks for what needs another fleet, or a capability to come."""
        wanted = FleetRecord.of(topology)
        for name, word in _WORDS.items():
            was, now = getattr(self, name), getattr(wanted, name)
            if now != was:
                raise Refused(
                    f"fleet {topology.name} is deployed with {word} {_say(was)}; the topology now says {_say(now)}",
                    hint=_HINTS.get(name, _UNDO),
                )
        # What `auto` means for a deployed fleet is where it is.
        if topology.target is not TargetName.DOCKER or topology.docker.subnet != AUTO:
            self._check_places(topology, wanted.places)

    def _check_places(self, topology: Topology, wanted: Mapping[str, str]) -> None:
        for node in sorted(self.places.keys() & wanted.keys()):
            if wanted[node] != self.places[node]:
                raise Refused(
                    f"fleet {topology.name} is deployed with {node} at {self.places[node]}; "
                    f"the topology now says {wanted[node]}",
                    hint=_UNDO,
                )


_WORDS = {
    "kind": "kind",
    "target": "target",
    "address": "local.address",
    "base_port": "local.base_port",
    "spread": "local.spread",
    "shards": "cluster.shards",
    "acl": "security.acl",
    "tls": "security.tls",
    "flavor": "engine.flavor",
}
_UNDO = "undo the change, or destroy the fleet and deploy it anew"
_HINTS = {
    "kind": "a name stands for one fleet: give the new one another name",
    "target": "a name stands for one fleet: give the new one another name",
    "shards": "moving slots under load is not available yet: undo the change, or deploy a second fleet",
}


def _places(topology: Topology) -> dict[str, str]:
    if topology.target is TargetName.LOCAL:
        return {}
    return {str(spec.name): spec.endpoint for spec in all_nodes(topology)}


def _say(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
