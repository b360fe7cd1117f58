"""Run the examples of the script manifest on every shard as the runtime user, and compare the replies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlctl.execute.session import FleetSession
from rlctl.limits.release import Script
from rlctl.limits.slots import key_slot
from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.secrets import User
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeName, all_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """Result of one script on one node; `evidence` is the first wrong reply or error, None if all were right."""

    node: NodeName
    script: str
    evidence: str | None

    def to_json(self) -> dict[str, object]:
        """Return the JSON form for `scripts verify -o json`."""
        return {"node": self.node, "script": self.script, "ok": self.evidence is None, "evidence": self.evidence}


def verify(fleet: FleetSession, observed: Observed) -> tuple[ScriptResult, ...]:
    """Run every script on every serving primary, on a scratch key that is removed afterwards."""
    return tuple(verdict for node in serving(fleet, observed) for verdict in _node(fleet, node))


def unserved_shards(fleet: FleetSession, observed: Observed) -> int:
    """Count the shards without a serving primary."""
    shards = fleet.topology.cluster.shards if fleet.topology.kind is Kind.CLUSTER else 1
    return max(0, shards - len(serving(fleet, observed)))


def serving(fleet: FleetSession, observed: Observed) -> list[NodeFacts]:
    """Return the primaries that serve decisions, in the topology's order."""
    primaries = [node for node in observed.up if node.role is Role.PRIMARY]
    return [node for node in primaries if node.slots] if fleet.topology.kind is Kind.CLUSTER else primaries


def _node(fleet: FleetSession, node: NodeFacts) -> Iterator[ScriptResult]:
    spec = next(spec for spec in all_nodes(fleet.topology) if spec.name == node.name)
    runtime, admin = fleet.connector.separate_link(spec, User.LIMITER), fleet.connector.link(spec)
    try:
        for script in fleet.release.scripts:
            key = scratch_key(script.name, node)
            try:
                evidence = _replies(runtime, script, key)
                admin.call("UNLINK", key)
            except (LinkFailure, CommandFailed) as failure:
                evidence = str(failure)
            yield ScriptResult(node=node.name, script=script.name, evidence=evidence)
    finally:
        runtime.close()


def _replies(link: NodeLink, script: Script, key: str) -> str | None:
    """Return the first reply that differs from the manifest, or None."""
    calls: Sequence[tuple[object, ...]] = [
        ("EVALSHA", script.sha1, 1, key, *example.args) for example in script.examples
    ]
    for example, answer in zip(script.examples, link.pipeline(calls), strict=True):
        if isinstance(answer, CommandFailed):
            return str(answer)
        if tuple(answer) != example.reply:
            return f"{list(example.args)} answered {answer}, not {list(example.reply)}"
    return None


def scratch_key(script: str, node: NodeFacts) -> str:
    """Return a key that the runtime user may access and that lies in one of the node's slots."""
    tags = (f"rlctl-verify-{number}" for number in range(1_000_000))
    tag = next(tag for tag in tags if not node.slots or _owns(node, key_slot(tag)))
    return f"rl:{{{tag}}}:rlctl-verify:{script}"


def _owns(node: NodeFacts, slot: int) -> bool:
    return any(first <= slot <= last for first, last in node.slots)
