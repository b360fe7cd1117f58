"""Compares the settings and users of a fleet before and after a run, to find what the run left behind."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlctl.execute.session import FleetSession
from rlctl.system.redis import CommandFailed, LinkFailure, Reply
from rlctl.topology.nodes import NodeName, NodeSpec, data_nodes

# These settings are not compared, because a failover changes which node a replica follows.
_ROLE_SETTINGS = frozenset({"replicaof", "slaveof"})
_SECRET_PARTS = ("auth", "pass")
_USER = "user "


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotValue:
    """A setting or a user. `shown` leaves out passwords and their hashes; `digest` includes them."""

    shown: str
    digest: str


Snapshot = Mapping[NodeName, Mapping[str, SnapshotValue]]


def take_snapshot(fleet: FleetSession) -> Snapshot:
    """The settings and users of each data node; empty for a node that does not answer."""
    return {spec.name: dict(_values(fleet, spec)) for spec in data_nodes(fleet.topology)}


def differences(before: Snapshot, after: Snapshot, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Describe the differences of each node that answered both times.

    `wanted` has the current settings of the topology (see `tunables`). A setting that now has its value in `wanted` is
    left out, because a step of the run may have changed the topology and thereby the node's setting.
    """
    found = []
    for node in before.keys() & after.keys():
        old, new = before[node], after[node]
        if not (old and new):
            continue
        for name in old.keys() | new.keys():
            was, now = old.get(name), new.get(name)
            if was != now and not (now is not None and name in wanted and now.shown == wanted[name]):
                found.append(f"{node}: {_change(name, was, now)}")
    return tuple(sorted(found))


def _values(fleet: FleetSession, spec: NodeSpec) -> Iterator[tuple[str, SnapshotValue]]:
    link = fleet.connector.separate_link(spec)
    try:
        config, users = link.pipeline([("CONFIG", "GET", "*"), ("ACL", "LIST")])
    except LinkFailure:
        return
    finally:
        link.close()
    if isinstance(config, CommandFailed) or isinstance(users, CommandFailed):
        return
    yield from read_settings(config)
    yield from read_users(users)


def read_settings(config: Reply) -> Iterator[tuple[str, SnapshotValue]]:
    """The settings in an answer to CONFIG GET, without `replicaof` and `slaveof`."""
    for name, text in zip(map(str, config[::2]), map(str, config[1::2]), strict=True):
        if name not in _ROLE_SETTINGS:
            is_secret = any(part in name for part in _SECRET_PARTS)
            yield name, SnapshotValue(shown="" if is_secret else text, digest=_digest(text))


def read_users(users: Reply) -> Iterator[tuple[str, SnapshotValue]]:
    """The users in an answer to ACL LIST."""
    for line in map(str, users):
        # Sort the rights, because a restarted server lists the same rights in another order, even inside the brackets
        # of a selector.
        rights = sorted(word.strip("()") for word in line.split())
        shown = " ".join(word for word in rights if word[:1] not in {"#", ">"})
        yield f"{_USER}{line.split()[1]}", SnapshotValue(shown=shown, digest=_digest(" ".join(rights)))


def _change(name: str, was: SnapshotValue | None, now: SnapshotValue | None) -> str:
    if was is None or now is None:
        return f"{name} {'was added' if was is None else 'is gone'}"
    if was.shown == now.shown:
        return f"{name} has another {'password' if name.startswith(_USER) else 'value'}"
    if name.startswith(_USER):
        old, new = frozenset(was.shown.split()), frozenset(now.shown.split())
        return f"{name} gained {sorted(new - old)} and lost {sorted(old - new)}"
    return f"{name} is {now.shown or 'empty'}, it was {was.shown or 'empty'}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
