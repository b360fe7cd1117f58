"""Differences between the scripts on a fleet and the release. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rlctl.limits.release import Registered, Release, Script
from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.plan.desired import Desired, lacks_users
from rlctl.topology.nodes import NodeName


class DriftClass(StrEnum):
    """The kind of a difference, as in `scripts status -o json`."""

    MISSING = "MISSING"
    REPLICA_ONLY_MISSING = "REPLICA_ONLY_MISSING"
    UNREACHABLE = "UNREACHABLE"
    UNKNOWN_RELEASE = "UNKNOWN_RELEASE"
    ACL = "ACL"
    VERSION_SKEW = "VERSION_SKEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptDrift:
    """One difference. `node` is None for the whole fleet, `script` is None for a whole node."""

    kind: DriftClass
    node: NodeName | None = None
    script: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """Return the JSON form for `scripts status -o json`."""
        return {"class": self.kind, "node": self.node, "script": self.script}

    def describe(self) -> str:
        """Describe the difference for text output."""
        where = " ".join(part for part in (self.node, self.script) if part)
        return f"{self.kind.value.lower().replace('_', ' ')}: {where or 'the whole fleet'}"


def missing(release: Release, node: NodeFacts) -> tuple[Script, ...]:
    """Return the scripts missing on a node; empty if the node was not queried."""
    if node.scripts is None:
        return ()
    return tuple(script for script in release.scripts if script.sha1 not in node.scripts)


def script_drift(
    desired: Desired, observed: Observed, release: Release, registered: Registered | None
) -> tuple[ScriptDrift, ...]:
    """Return all differences in a stable order; `registered` is the release that the fleet has on record."""
    found = [*_nodes(desired, observed, release), *_fleet(observed, release, registered)]
    return tuple(sorted(found, key=lambda drift: (drift.kind, drift.node or "", drift.script or "")))


def _nodes(desired: Desired, observed: Observed, release: Release) -> Iterator[ScriptDrift]:
    held_by_primaries = _held_by_all_primaries(observed)
    for node in observed.nodes:
        if desired.specs[node.name].is_sentinel:
            continue
        if node.scripts is None:
            yield ScriptDrift(kind=DriftClass.UNREACHABLE, node=node.name)
        for script in missing(release, node):
            only_here = node.role is Role.REPLICA and script.sha1 in held_by_primaries
            kind = DriftClass.REPLICA_ONLY_MISSING if only_here else DriftClass.MISSING
            yield ScriptDrift(kind=kind, node=node.name, script=script.name)
        if node.is_up and lacks_users(desired, node):
            yield ScriptDrift(kind=DriftClass.ACL, node=node.name)


def _held_by_all_primaries(observed: Observed) -> frozenset[str]:
    held = [node.scripts for node in observed.up if node.role is Role.PRIMARY and node.scripts is not None]
    return frozenset.intersection(*held) if held else frozenset()


def _fleet(observed: Observed, release: Release, registered: Registered | None) -> Iterator[ScriptDrift]:
    if registered is not None and (registered.release, registered.digest) != (release.version, release.digest):
        yield ScriptDrift(kind=DriftClass.UNKNOWN_RELEASE)
    if len({node.version for node in observed.up if node.version is not None}) > 1:
        yield ScriptDrift(kind=DriftClass.VERSION_SKEW)
