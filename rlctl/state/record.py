"""The fleet record: what was deployed under a name, so that a changed file is noticed before anything is touched."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rlctl.errors import Refused
from rlctl.system.files import read_text, write_private
from rlctl.topology.model import Kind, Topology


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
        )

    @classmethod
    def load(cls, path: Path) -> "FleetRecord | None":
        """The record, or None where nothing was deployed from here."""
        text = read_text(path)
        if text is None:
            return None
        try:
            document = json.loads(text)
            return cls(**{field.name: document[field.name] for field in fields(cls)})
        except (ValueError, KeyError, TypeError) as failure:
            raise Refused(f"{path} is damaged", hint="restore it, or remove it if this fleet is gone") from failure

    def save(self, path: Path) -> None:
        """Remember it."""
        write_private(path, json.dumps(asdict(self), indent=2) + "\n", durable=True)

    def check(self, topology: Topology) -> None:
        """Refuse a topology that asks for what needs another fleet, or a capability to come."""
        wanted = asdict(FleetRecord.of(topology))
        for name, was in asdict(self).items():
            if wanted[name] != was:
                raise Refused(
                    f"fleet {topology.name} is deployed with {_WORDS[name]} {_say(was)}; "
                    f"the topology now says {_say(wanted[name])}",
                    hint=_HINTS.get(name, "undo the change, or destroy the fleet and deploy it anew"),
                )


_WORDS = {
    "kind": "kind",
    "target": "target",
    "address": "local.address",
    "base_port": "local.base_port",
    "shards": "cluster.shards",
    "acl": "security.acl",
    "tls": "security.tls",
    "flavor": "engine.flavor",
}
_HINTS = {
    "kind": "a name stands for one fleet: give the new one another name",
    "target": "a name stands for one fleet: give the new one another name",
    "shards": "moving slots under load is not available yet: undo the change, or deploy a second fleet",
}


def _say(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
