"""What a passage left behind: settings and users of each node, before the fault and after the last step."""

from collections.abc import Mapping
from contextlib import closing

from rlctl.execute.session import FleetSession
from rlctl.observe import parse
from rlctl.render.redis_conf import tunables
from rlctl.topology.nodes import NodeName, data_nodes

# Who follows whom is what a failover changes, and the fleet's own business.
_ROLES = frozenset({"replicaof", "slaveof"})
Snapshot = Mapping[NodeName, Mapping[str, str]]


def snapshot(fleet: FleetSession) -> Snapshot:
    """Every setting and every user of every data node."""
    found = {}
    for spec in data_nodes(fleet.topology):
        with closing(fleet.connector.separate_link(spec)) as link:
            settings = parse.pairs(link.call("CONFIG", "GET", "*"))
            users = {f"user {str(line).split()[1]}": _sorted(str(line)) for line in link.call("ACL", "LIST")}
        found[spec.name] = {**settings, **users}
    return found


def _sorted(user: str) -> str:
    """After each start a server lists rights in another order; a selector's brackets go with the outer ones."""
    return " ".join(sorted(word.strip("()") for word in user.split()))


def differences(before: Snapshot, after: Snapshot, fleet: FleetSession) -> tuple[str, ...]:
    """What is another value than before; what the topology asks for now is no residue."""
    wished = set(tunables(fleet.topology)) | _ROLES
    return tuple(
        f"{node}: {name} {_change(name, before[node].get(name, ''), now.get(name, ''))}"
        for node, now in after.items()
        for name in sorted({*now, *before[node]} - wished)
        if now.get(name) != before[node].get(name)
    )


def _change(name: str, was: str, is_now: str) -> str:
    """In words; passwords are not shown, nor their hashes in users' lines."""
    if name.startswith("user "):
        old, new = (frozenset(word for word in line.split() if word[0] not in "#>") for line in (was, is_now))
        return f"gained {sorted(new - old)} and lost {sorted(old - new)}"
    if "auth" in name or "pass" in name:
        return "is another"
    return f"is {is_now or 'nothing'}, it was {was or 'nothing'}"
