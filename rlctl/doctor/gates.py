"""Gates: the findings and checks that make it unsafe to begin an operation. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from rlctl.doctor.model import Check, CheckSeverity


class GatedOperation(StrEnum):
    """An operation that rlctl refuses while its gate is closed."""

    DEPLOY = "deploy"
    FAILOVER = "failover"
    DRILL = "drill"
    RELEASE = "release"


_WARNING, _CRITICAL = CheckSeverity.WARNING, CheckSeverity.CRITICAL
# With these problems, another process may hold the port of a node, or a node is not proven to belong to the fleet.
_IDENTITY: Final = dict.fromkeys(
    (
        *("ports", "node-stranger", "node-foreign", "node-denied", "node-unproven", "node-nonsense"),
        *("unknown-member", "engine-drift"),
    ),
    _WARNING,
)
# With these problems, the primaries may still change, so the operation could act on the wrong node.
_ROLES: Final = dict.fromkeys(("two-primaries", "views-split", "failing-over", "node-loading"), _WARNING)
_ANSWERS: Final = dict.fromkeys(("node-down", "node-hung", "node-maxclients", "node-unknown"), _WARNING)
_SERVES: Final = dict.fromkeys(("no-primary", "slots-uncovered", "cluster-fail"), _WARNING)
# With these problems, a failover may lack a candidate or the quorum, or the new primary may refuse clients.
_FAILOVER: Final = dict.fromkeys(
    (
        *("no-replica", "link-down", "wrong-role", "not-joined", "users-drift", "scripts-missing", "node-fenced"),
        *("quorum-lost", "quorum-doubted", "primary-doubted", "peers", "not-watching", "replicas-unreached"),
        "sentinel-tilt",
    ),
    _WARNING,
)
_CAPACITY: Final = dict.fromkeys(("memory-used", "memory-full", "disk"), _CRITICAL)
# Deploy refuses some changes of the topology file. Such a change closes the gate of a live drill too, because the drill
# ends with a deploy.
_FILE: Final = {"topology-differs": _WARNING}
# The lowest severity at which a check closes the gate. Nodes that are down or have drifted do not close the gate of a
# deploy, since a deploy repairs them. A node that does not answer closes the gate of a release of scripts, which must
# reach every node.
GATES: Final[Mapping[GatedOperation, Mapping[str, CheckSeverity]]] = {
    GatedOperation.DEPLOY: _FILE | _IDENTITY | _ROLES | _CAPACITY | {"server": _CRITICAL, "host-facts": _CRITICAL},
    GatedOperation.FAILOVER: _IDENTITY | _ROLES | _ANSWERS | _SERVES | _FAILOVER,
    GatedOperation.DRILL: _FILE
    | _IDENTITY
    | _ROLES
    | _ANSWERS
    | _SERVES
    | _FAILOVER
    | _CAPACITY
    | dict.fromkeys(("setting-drift", "place-drift"), _WARNING)
    | {"scripts-run": _CRITICAL},
    GatedOperation.RELEASE: _IDENTITY
    | _ROLES
    | _ANSWERS
    | _SERVES
    | {"node-fenced": _WARNING, "memory-used": _CRITICAL},
}
_RANK: Final = (CheckSeverity.OK, CheckSeverity.UNKNOWN, CheckSeverity.WARNING, CheckSeverity.CRITICAL)


def closing(operation: GatedOperation, checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks that close the gate of an operation. A fact that could not be read does not close the gate."""
    gate = GATES[operation]
    return tuple(
        check for check in checks if check.name in gate and _RANK.index(check.severity) >= _RANK.index(gate[check.name])
    )
