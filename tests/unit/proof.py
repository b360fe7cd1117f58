"""Properties that every plan must have, checked by code that is independent of the planner and simpler."""

from collections.abc import Iterator
from functools import reduce

from rlctl.observe.model import NodeFacts, Observed, Role, Saved
from rlctl.plan.desired import Desired
from rlctl.plan.finding import Finding
from rlctl.plan.findings import assess
from rlctl.plan.ownership import ownership, shards
from rlctl.plan.planner import Plan, make_plan
from rlctl.plan.sentinel import believed_primary, observed_data_nodes
from rlctl.plan.simulate import simulate
from rlctl.plan.steps import StartNode, Step, danger
from rlctl.topology.model import Kind, PersistenceMode
from rlctl.topology.nodes import NodeName

# Findings that only real servers can clear: gossip, links, the peers that a sentinel knows.
NOT_SIMULATED = frozenset(
    {
        *("views-split", "cluster-fail", "link-down", "no-replica"),
        *("peers", "replicas-unreached", "quorum-doubted", "primary-doubted", "sentinel-tilt"),
    }
)
FULL, SNAPSHOT, EMPTY = 2, 1, 0


def carried_out(desired: Desired, state: Observed, steps: tuple[Step, ...]) -> Observed:
    return reduce(lambda before, step: simulate(desired, before, step), steps, state)


def left_to_find(desired: Desired, state: Observed) -> tuple[Finding, ...]:
    return tuple(finding for finding in assess(desired, state) if finding.code not in NOT_SIMULATED)


def prove(desired: Desired, state: Observed) -> Plan:
    """Assert that the plan ends healthy, converges from every prefix, breaks no rule and announces each loss."""
    plan = make_plan(desired, state)
    end = carried_out(desired, state, plan.steps)
    assert make_plan(desired, end).steps == ()
    assert left_to_find(desired, end) == ()
    check_steps(desired, state, plan.steps)
    check_counts(desired, state, plan)
    for done in range(len(plan.steps)):
        middle = carried_out(desired, state, plan.steps[:done])
        rest = make_plan(desired, middle)
        check_steps(desired, middle, rest.steps)
        settled = carried_out(desired, middle, rest.steps)
        assert make_plan(desired, settled).steps == (), f"after {done} steps"
        assert left_to_find(desired, settled) == (), f"after {done} steps"
    return plan


def check_steps(desired: Desired, state: Observed, steps: tuple[Step, ...]) -> None:
    """Assert that no dead primary without persisted data starts while a live replica follows it."""
    for step in steps:
        if isinstance(step, StartNode):
            node = state.node(step.node)
            followers = [other.name for other in state.up if other.follows == node.id and other.role is Role.REPLICA]
            if followers and _is_primary(desired, state, node) and not _has_log(desired, node):
                assert step.loss, f"{step} empties {followers}"
        state = simulate(desired, state, step)


def check_counts(desired: Desired, state: Observed, plan: Plan) -> None:
    """Assert that each shard keeps its best copy, or that a step's danger announced the loss."""
    groups = dict(_groups(desired, state))
    levels = {node.name: _level(desired, state, node) for node in state.nodes}
    best = {shard: max(levels[member] for member in members) for shard, members in groups.items()}
    owned = {shard for shard, members in groups.items() if any(_was_used(state, name) for name in members)}
    for step in plan.steps:
        state = simulate(desired, state, step)
        _synchronise(state, levels)
    for shard, members in groups.items():
        primaries = [name for name in members if state.node(name).role is Role.PRIMARY]
        assert len(primaries) == 1
        assert levels[primaries[0]] == best[shard], f"shard {shard} had a better copy"
        if best[shard] < FULL and shard in owned:
            assert any(danger(step) for step in plan.steps), f"shard {shard} lost counts, and no step announced it"


def _synchronise(state: Observed, levels: dict[NodeName, int]) -> None:
    """Give each replica of a live primary the level of that primary."""
    nodes = state.by_id()
    for node in state.up:
        primary = nodes.get(node.follows) if node.follows else None
        if primary is not None and primary.is_up and node.role is Role.REPLICA:
            levels[node.name] = levels[primary.name]


def _groups(desired: Desired, state: Observed) -> Iterator[tuple[int, tuple[NodeName, ...]]]:
    if desired.topology.kind is Kind.SENTINEL:
        yield 0, tuple(node.name for node in observed_data_nodes(desired, state))
        return
    for shard in shards(desired.topology, state):
        yield shard.number, tuple(node.name for node in shard.members)


def _level(desired: Desired, state: Observed, node: NodeFacts) -> int:
    if node.sentinel is not None:
        return EMPTY
    if not node.is_up:
        return _on_disk(desired, node)
    if node.keys == 0:
        return EMPTY
    if desired.topology.kind is Kind.SENTINEL:
        return FULL
    own_shard = next(shard for shard in shards(desired.topology, state) if node in shard.members)
    is_copy = own_shard.owner is not None and own_shard.owner.id in {node.id, node.follows}
    is_owner = node.role is Role.PRIMARY
    return FULL if is_copy and (is_owner or node.offset is not None) else EMPTY


def _on_disk(desired: Desired, node: NodeFacts) -> int:
    match desired.topology.persistence.mode, node.disk.saved:
        case PersistenceMode.AOF, Saved.LOG:
            return FULL
        case PersistenceMode.RDB, Saved.SNAPSHOT:
            return SNAPSHOT
        case _:
            return EMPTY


def _was_used(state: Observed, member: NodeName) -> bool:
    """Whether the node may have acknowledged counts; a node of a new fleet has no data."""
    node = state.node(member)
    known_by_sentinels = any(
        (other.sentinel and other.sentinel.primary) or other.disk.monitors for other in state.nodes
    )
    return bool(ownership(state).claims.get(node.id)) or known_by_sentinels


def _is_primary(desired: Desired, state: Observed, node: NodeFacts) -> bool:
    if desired.topology.kind is Kind.SENTINEL:
        return believed_primary(desired, state).id == node.id
    return bool(ownership(state).claims.get(node.id))


def _has_log(desired: Desired, node: NodeFacts) -> bool:
    return _on_disk(desired, node) == FULL
