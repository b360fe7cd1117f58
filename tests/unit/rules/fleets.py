"""A fleet in memory whose servers hold every script, and the rules that were stored there."""

from functools import partial
from typing import Any

from rlctl.limits.rule import POINTER_KEY, Revision, revision_key
from rlctl.observe.model import Observed
from rlctl.rules.in_force import RulesInForce, read_rules_in_force
from rlctl.topology.model import Topology
from tests.unit.fleets import cluster, healthy
from tests.unit.servers import Server, Servers

# The rules of a cluster of five shards lie on node-3, whose replica is node-8; the fleet's history lies on node-4.
WIDE, KEEPER, REPLICA, HISTORIAN = cluster(shards=5), "node-3", "node-8", "node-4"


class Fleet(Servers):
    """Servers that hold every script, and revisions of which the last one is in force."""

    def __init__(self, *stored: Revision, topology: Topology = WIDE, observed: Observed | None = None) -> None:
        super().__init__(topology, observed or healthy(topology))
        for node in self.observed.nodes:
            self.admin[node.name] = server = Server(answer=partial(self.answer, node.name))
            server.texts = {revision_key(one.number): one.to_text() for one in stored}
            if stored:
                server.hashes[POINTER_KEY] = pointer_fields(stored[-1])
        self.lacking: dict[str, object] = {}
        self.moved: list[tuple[Any, ...]] = []
        self.is_quick = True
        self.follows = True

    def answer(self, node: str, command: tuple[Any, ...]) -> object:
        match command:
            case ("SCRIPT", "EXISTS", *sha1s):
                return self.lacking.get(node, [1] * len(sha1s))
            case ("EVAL", _script, 4, _pointer, key, _oldest, _history, *values):
                return self.move(key, values)
            case _:
                return None

    def move(self, key: str, values: list[Any]) -> int:
        self.moved.append(tuple(values))
        _revision, _digest, number, digest, document = values[:5]
        for server in self.admin.values() if self.follows else [self.admin[KEEPER]]:
            server.hashes[POINTER_KEY] |= {"revision": str(number), "digest": digest, "last": str(number)}
            if document:
                server.texts[key] = document
        return int(self.is_quick)

    def in_force(self) -> RulesInForce:
        return read_rules_in_force(self.as_fleet())


def pointer_fields(stored: Revision) -> dict[str, str]:
    return {"revision": str(stored.number), "digest": stored.version.digest, "last": str(stored.number)}
