"""Which findings and checks make it unsafe to begin an operation. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from rlctl.doctor.model import Check, Severity


class Operation(StrEnum):
    """What an operator is about to begin."""

    DEPLOY = "deploy"
    FAILOVER = "failover"
    DRILL = "drill"
    RELEASE = "release"


_WARNING, _CRITICAL = Severity.WARNING, Severity.CRITICAL
# Somebody else is where our nodes should be, or we cannot prove who we are.
_IDENTITY: Final = dict.fromkeys(
    (
        *("ports", "node-stranger", "node-foreign", "node-denied", "node-unproven", "node-nonsense"),
        *("unknown-member", "engine-drift"),
    ),
    _WARNING,
)
# Who is primary is not settled: whatever begins now begins on a guess.
_ROLES: Final = dict.fromkeys(("two-primaries", "views-split", "failing-over", "node-loading"), _WARNING)
_ANSWERS: Final = dict.fromkeys(("node-down", "node-hung", "node-maxclients", "node-unknown"), _WARNING)
_SERVES: Final = dict.fromkeys(("no-primary", "slots-uncovered", "cluster-fail"), _WARNING)
# Without these a failover has no heir, nobody to decide it, or an heir that refuses.
_HEIRS: Final = dict.fromkeys(
    (
        *("no-replica", "link-down", "wrong-role", "not-joined", "users-drift", "scripts-missing", "node-fenced"),
        *("quorum-lost", "quorum-doubted", "primary-doubted", "peers", "not-watching", "replicas-unreached"),
        "sentinel-tilt",
    ),
    _WARNING,
)
_ROOM: Final = dict.fromkeys(("memory-used", "memory-full", "disk"), _CRITICAL)
# Deploy would refuse, and a live drill ends with one.
_FILE: Final = {"topology-differs": _WARNING}
# From which severity a check closes the gate. Deploy mends what is down or has drifted; a release wants to reach all.
GATES: Final[Mapping[Operation, Mapping[str, Severity]]] = {
    Operation.DEPLOY: _FILE | _IDENTITY | _ROLES | _ROOM | {"server": _CRITICAL, "host-facts": _CRITICAL},
    Operation.FAILOVER: _IDENTITY | _ROLES | _ANSWERS | _SERVES | _HEIRS,
    Operation.DRILL: _FILE
    | _IDENTITY
    | _ROLES
    | _ANSWERS
    | _SERVES
    | _HEIRS
    | _ROOM
    | dict.fromkeys(("setting-drift", "place-drift"), _WARNING)
    | {"scripts-run": _CRITICAL},
    Operation.RELEASE: _IDENTITY | _ROLES | _ANSWERS | _SERVES | {"node-fenced": _WARNING, "memory-used": _CRITICAL},
}
_RANK: Final = (Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.CRITICAL)


def closing(operation: Operation, checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks that speak against beginning the operation now; what could not be read does not."""
    gate = GATES[operation]
    return tuple(
        check for check in checks if check.name in gate and _RANK.index(check.severity) >= _RANK.index(gate[check.name])
    )
