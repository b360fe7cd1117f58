"""What a fleet is set to, before a drill and after it: whatever differs then was left behind by the drill."""

import hashlib
from collections.abc import Iterator, Mapping

from rlctl.execute.session import FleetSession
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.nodes import NodeSpec, data_nodes

# Whom a node follows is what a failover is about.
_ROLES = frozenset({"replicaof", "slaveof"})
Snapshot = Mapping[str, Mapping[str, str]]


def take_snapshot(fleet: FleetSession) -> Snapshot:
    """Every setting and every user of each data node that answers, hashed: there are passwords among them."""
    return {spec.name: dict(_settings(fleet, spec)) for spec in data_nodes(fleet.topology)}


def differences(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """What is set otherwise now, by name; a node that answered only once is not compared."""
    found = []
    for node in before.keys() & after.keys():
        old, new = before[node], after[node]
        if old and new:
            names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            found += [f"{node}: {name} differs from before" for name in names]
    return tuple(sorted(found))


def _settings(fleet: FleetSession, spec: NodeSpec) -> Iterator[tuple[str, str]]:
    link = fleet.connector.separate_link(spec)
    try:
        answers = link.pipeline([("CONFIG", "GET", "*"), ("ACL", "LIST")])
    except LinkFailure:
        return
    finally:
        link.close()
    config, users = answers
    if isinstance(config, CommandFailed) or isinstance(users, CommandFailed):
        return
    for name, value in zip(config[::2], config[1::2], strict=True):
        if name not in _ROLES:
            yield f"setting {name}", _hashed(value)
    for line in users:
        # A restarted server lists the same rights in another order, also those inside a selector's brackets.
        rights = sorted(line.replace("(", "").replace(")", "").split(" "))
        yield f"user {line.split(' ')[1]}", _hashed(" ".join(rights))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
