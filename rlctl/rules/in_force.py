"""The rules in force: read from the primary that stores them, and compared with every node that stores them."""

from dataclasses import dataclass

from rlctl.errors import NotFound, Refused, RlctlError
from rlctl.execute.locking import primary_for_key, primary_unreachable
from rlctl.execute.session import FleetSession
from rlctl.limits.rule import POINTER_KEY, Revision, RuleSet, Version
from rlctl.observe.model import Observed
from rlctl.rules.readback import NodeRules, read_nodes
from rlctl.rules.store import Pointer, read_entries, read_pointer, stored_revision
from rlctl.system.redis import NodeLink


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesInForce:
    """The pointer and revision in force, and the connection to the primary that stores them.

    `trouble` is the error if the revision in force cannot be read, and None otherwise.
    """

    fleet: FleetSession
    observed: Observed
    link: NodeLink
    pointer: Pointer | None
    revision: Revision | None
    trouble: RlctlError | None = None

    @property
    def version(self) -> Version | None:
        """Number and digest in the pointer, even if the revision cannot be read."""
        return self.pointer.version if self.pointer is not None else None

    @property
    def number(self) -> int | None:
        return self.version.revision if self.version is not None else None

    @property
    def rules(self) -> RuleSet | None:
        """The rules in force; None if there are none or they cannot be read."""
        return self.revision.rules if self.revision is not None else None

    def required(self) -> Revision:
        """The revision in force; raises NotFound if there is none, and `trouble` if it cannot be read."""
        if self.trouble is not None:
            raise self.trouble
        if self.revision is None:
            raise NotFound("no rules are in force", hint="put rules in force with `rlctl rules apply FILE`")
        return self.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesStatus:
    """The rules in force, the revision on each node, and the last changes."""

    in_force: RulesInForce
    nodes: tuple[NodeRules, ...]
    entries: tuple[dict[str, object], ...]

    @property
    def lagging_nodes(self) -> tuple[NodeRules, ...]:
        """Nodes with another revision, and nodes that did not answer."""
        version = self.in_force.version
        return tuple(node for node in self.nodes if node.evidence or node.version != version)

    def to_json(self) -> dict[str, object]:
        """The document that `rules status -o json` prints."""
        revision, version, trouble = self.in_force.revision, self.in_force.version, self.in_force.trouble
        return {
            "schema": "rlctl.rules-status/1",
            "name": self.in_force.fleet.topology.name,
            "revision": version and version.revision,
            "digest": version and version.digest,
            "trouble": trouble and trouble.message,
            "parent": revision and revision.parent,
            "release": revision and revision.rules.release,
            "by": revision and revision.by,
            "at": revision and revision.at,
            "why": revision and revision.why,
            "rules": [rule.to_json() for rule in revision.rules.rules] if revision is not None else [],
            "nodes": [node.to_json(version) for node in self.nodes],
            "history": list(self.entries),
        }


def read_rules_in_force(fleet: FleetSession, observed: Observed | None = None) -> RulesInForce:
    """Read the rules from the primary that stores them; Unreachable or AccessDenied if the primary cannot be read."""
    observed = observed or fleet.observe()
    if not observed.exists:
        raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="deploy it with `rlctl deploy`")
    spec = primary_for_key(fleet, observed, POINTER_KEY)
    if spec is None:
        raise primary_unreachable(
            fleet, observed, "the rules", meanwhile="; services keep deciding by the rules they have"
        )
    link = fleet.connector.link(spec)
    pointer = read_pointer(link)
    revision: Revision | None = None
    trouble: RlctlError | None = None
    try:
        revision = stored_revision(link, pointer.required().revision) if pointer is not None else None
    except (NotFound, Refused) as failure:
        # The failure is returned, not raised, so that the operator can still put another revision in force.
        trouble = failure
    return RulesInForce(fleet=fleet, observed=observed, link=link, pointer=pointer, revision=revision, trouble=trouble)


def rules_status(fleet: FleetSession) -> RulesStatus:
    """Read the rules in force, and the revision on each node that stores them."""
    now = read_rules_in_force(fleet)
    return RulesStatus(in_force=now, nodes=read_nodes(fleet, now.observed), entries=read_entries(now.link))
