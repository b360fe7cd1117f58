"""Simulate the effect of a step on an observed fleet, so that the planner can plan the steps that follow. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from rlctl.observe.model import NodeFacts, Observed, Peer, Presence, ReplicationLink, Role, SentinelView, SlotRange
from rlctl.plan.desired import Desired
from rlctl.plan.ownership import later_owner, ownership
from rlctl.plan.steps import (
    AssignSlots,
    AwaitFailover,
    Configure,
    LoadScripts,
    LoadUsers,
    Meet,
    MonitorPrimary,
    PreparePlace,
    Replicate,
    SetEpoch,
    StartNode,
    StartSentinel,
    Step,
    TakeOver,
)
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeName


def simulate(desired: Desired, state: Observed, step: Step) -> Observed:  # noqa: C901  one line a member
    """Return the state of the fleet after the step has succeeded."""
    match step:
        case PreparePlace():
            return state
        case StartNode(node=name, follow=follow):
            return _started(desired, state, name, follow)
        case StartSentinel(node=name, primary=primary):
            return _sentinel_started(desired, state, name, primary)
        case AwaitFailover(node=dead):
            return _elected(desired, state, dead, successor=None)
        case TakeOver(node=name, dead=dead):
            return _elected(desired, state, dead, successor=name)
        case SetEpoch(node=name, epoch=epoch):
            return _with(state, name, lambda node: replace(node, epoch=epoch))
        case Meet(node=name, peers=peers):
            return _met(desired, state, name, peers)
        case AssignSlots(node=name, slots=slots):
            return _with(state, name, lambda node: replace(node, slots=_joined(node.slots, slots)))
        case Replicate(node=name, primary=primary):
            return _with(state, name, lambda node: _follower(node, state.node(primary)))
        case MonitorPrimary(node=name, primary=primary):
            return _with(state, name, lambda node: replace(node, sentinel=_view(desired, node, primary)))
        case LoadScripts(node=name, scripts=scripts):
            loaded = frozenset(desired.scripts[script] for script in scripts)
            return _with(state, name, lambda node: replace(node, scripts=(node.scripts or frozenset()) | loaded))
        case LoadUsers(node=name, revision=revision):
            return _with(state, name, lambda node: replace(node, acl_revision=revision, users_off=frozenset()))
        case Configure(node=name, setting=setting, value=value):
            return _with(state, name, lambda node: _configured(node, setting, value))
        case _:
            assert_never(step)


def _with(state: Observed, name: NodeName, change: Callable[[NodeFacts], NodeFacts]) -> Observed:
    return replace(state, nodes=tuple(change(node) if node.name == name else node for node in state.nodes))


def _started(desired: Desired, state: Observed, name: NodeName, follow: NodeName | None) -> Observed:
    if desired.topology.kind is Kind.SENTINEL:
        return _with(state, name, lambda node: _up(desired, node, state.node(follow) if follow else None))
    owners = ownership(state).claims

    def start(node: NodeFacts) -> NodeFacts:
        if follow is not None:
            replica = _up(desired, node, state.node(follow))
            return replace(replica, table=(_line(desired, replica), _line(desired, state.node(follow))))
        table = node.disk.table or (_line(desired, node),)
        own = next((peer for peer in table if peer.id == node.id), _line(desired, node))
        started = replace(_up(desired, node, None), table=table, role=own.role, follows=own.follows, epoch=own.epoch)
        if own.role is Role.REPLICA:
            return replace(started, link=ReplicationLink.UP)
        wanted = frozenset(slot for first, last in own.slots for slot in range(first, last + 1))
        new_owner = next((other for other in state.up if wanted & owners.get(other.id, frozenset())), None)
        if new_owner is not None:
            return _follower(started, new_owner)
        if (owner := later_owner(state, node, own)) is not None:
            return replace(started, role=Role.REPLICA, follows=owner, link=ReplicationLink.UP)
        return replace(started, slots=own.slots)

    return _with(state, name, start)


def _up(desired: Desired, node: NodeFacts, primary: NodeFacts | None) -> NodeFacts:
    started = replace(
        node,
        presence=Presence.UP,
        disk=replace(node.disk, running=True, own_id=node.id),
        role=Role.PRIMARY,
        flavor=desired.topology.engine.flavor.value,
        acl_revision=desired.revisions.get(node.name),
        # A server that has just started has an empty script cache; Sentinels have no script cache.
        scripts=None if desired.specs[node.name].is_sentinel else frozenset(),
    )
    return _follower(started, primary) if primary else started


def _follower(node: NodeFacts, primary: NodeFacts) -> NodeFacts:
    return replace(node, role=Role.REPLICA, follows=primary.id, slots=(), link=ReplicationLink.UP)


def _sentinel_started(desired: Desired, state: Observed, name: NodeName, primary: NodeName) -> Observed:
    def start(node: NodeFacts) -> NodeFacts:
        started = replace(_up(desired, node, None), role=Role.SENTINEL)
        view = _view(desired, node, primary)
        return replace(started, sentinel=replace(view, primary=node.disk.monitors or view.primary))

    return _with(state, name, start)


def _view(desired: Desired, node: NodeFacts, primary: NodeName) -> SentinelView:
    spec = desired.specs[primary]
    return replace(node.sentinel or SentinelView(), primary=(spec.address, spec.port))


def _elected(desired: Desired, state: Observed, dead: NodeName, successor: NodeName | None) -> Observed:
    old = state.node(dead)
    followers = [node for node in state.up if node.follows == old.id and node.role is Role.REPLICA]
    # If no replica follows the old primary, a failover has begun: the promoted replica is a primary itself now.
    candidates = followers or [node for node in state.up if node.role is Role.PRIMARY]
    winner = state.node(successor) if successor else max(candidates, key=lambda node: (node.offset or 0, node.name))
    owned = ownership(state)
    lost = owned.claims.get(old.id, frozenset())
    epoch = max((*owned.epochs.values(), *(node.sentinel.epoch for node in state.nodes if node.sentinel))) + 1

    def after(node: NodeFacts) -> NodeFacts:
        if node.id == winner.id:
            slots = _joined((), tuple((slot, slot) for slot in sorted(lost)))
            return replace(node, role=Role.PRIMARY, follows=None, link=ReplicationLink.NONE, slots=slots, epoch=epoch)
        if node in followers:
            return replace(node, follows=winner.id)
        if node.sentinel is not None and node.sentinel.primary is not None:
            return replace(node, sentinel=replace(_view(desired, node, winner.name), epoch=epoch, failing_over=False))
        return node

    return replace(state, nodes=tuple(after(node) for node in state.nodes))


def _met(desired: Desired, state: Observed, name: NodeName, peers: tuple[NodeName, ...]) -> Observed:
    own = state.node(name)

    def introduce(node: NodeFacts) -> NodeFacts:
        newcomers = [state.node(peer) for peer in peers] if node.name == name else [own] if node.name in peers else []
        lines = tuple(_line(desired, other) for other in newcomers if other.id not in node.known)
        return replace(node, table=node.table + lines)

    return replace(state, nodes=tuple(introduce(node) for node in state.nodes))


def _line(desired: Desired, node: NodeFacts) -> Peer:
    spec = desired.specs[node.name]
    return Peer(id=node.id, address=spec.address, port=spec.port, role=node.role or Role.PRIMARY, epoch=node.epoch)


def _joined(owned: tuple[SlotRange, ...], more: tuple[SlotRange, ...]) -> tuple[SlotRange, ...]:
    joined: list[SlotRange] = []
    for first, last in sorted(owned + more):
        if joined and joined[-1][1] + 1 >= first:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _configured(node: NodeFacts, setting: str, value: str) -> NodeFacts:
    if node.sentinel is not None:
        return replace(node, sentinel=replace(node.sentinel, options={**node.sentinel.options, setting: value}))
    return replace(node, settings={**node.settings, setting: value})
