"""The steps: a closed union of everything `deploy` can do to a fleet. Pure."""

from dataclasses import dataclass
from typing import assert_never

from rlctl.observe.model import SlotRange
from rlctl.topology.nodes import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlace:
    """Put right what a host lacks or has otherwise than the playbooks say; starts and stops no server."""

    host: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode:
    """Bring a process up; `loss` says what is gone for good when this node starts now."""

    node: NodeName
    follow: NodeName | None = None
    loss: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSentinel:
    """Bring a sentinel up; one without a configuration of its own is told of `primary`."""

    node: NodeName
    primary: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitFailover:
    """Let the fleet elect a new primary before the dead one comes back; `loss` as in StartNode.

    One that has its log may come back as the primary after all, when the election does not come.
    """

    node: NodeName
    shard: int
    loss: str | None = None
    has_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Make a replica the primary without an election, because no majority can hold one."""

    node: NodeName
    dead: NodeName
    shard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEpoch:
    """Give a new node its own configuration epoch, so that none collide."""

    node: NodeName
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Meet:
    """Introduce a node to members it does not know."""

    node: NodeName
    peers: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignSlots:
    """Give slots that nobody owns to a primary."""

    node: NodeName
    slots: tuple[SlotRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    """Make a node a replica of a primary."""

    node: NodeName
    primary: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorPrimary:
    """Make a sentinel watch the primary."""

    node: NodeName
    primary: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadScripts:
    """Load what a node lacks of the release, before it takes traffic."""

    node: NodeName
    scripts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadUsers:
    """Put the ACL file of this release in force on a running node."""

    node: NodeName
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """Change a setting of a running node."""

    node: NodeName
    setting: str
    value: str
    was: str


Step = (
    PreparePlace
    | StartNode
    | StartSentinel
    | AwaitFailover
    | TakeOver
    | SetEpoch
    | Meet
    | AssignSlots
    | Replicate
    | MonitorPrimary
    | LoadScripts
    | LoadUsers
    | Configure
)

_KINDS: dict[type[Step], str] = {
    PreparePlace: "prepare-place",
    StartNode: "start-node",
    StartSentinel: "start-sentinel",
    AwaitFailover: "await-failover",
    TakeOver: "take-over",
    SetEpoch: "set-epoch",
    Meet: "meet",
    AssignSlots: "assign-slots",
    Replicate: "replicate",
    MonitorPrimary: "monitor-primary",
    LoadScripts: "load-scripts",
    LoadUsers: "load-users",
    Configure: "configure",
}


def kind(step: Step) -> str:
    """The step's name in JSON and journals."""
    return _KINDS[type(step)]


def describe(step: Step) -> str:  # noqa: C901  one line a member is the point of this table
    """The step in one line, the same in plans, progress and journals."""
    match step:
        case PreparePlace(host=host, changes=changes):
            count = f"{len(changes)} change{'s' if len(changes) != 1 else ''}"
            shown = [*changes[:3], *([f"and {len(changes) - 3} more"] if len(changes) > 3 else [])]
            return f"host {host}: {count}: {'; '.join(shown)}"
        case StartNode(node=node, follow=follow, loss=loss):
            return f"{node}: start" + (f" as replica of {follow}" if follow else "") + (f" ({loss})" if loss else "")
        case StartSentinel(node=node, primary=primary):
            return f"{node}: start, watching {primary}"
        case AwaitFailover(node=node, shard=shard, loss=loss):
            return f"shard {shard}: wait until a replica of {node} has taken over" + (f" ({loss})" if loss else "")
        case TakeOver(node=node, dead=dead, shard=shard):
            return f"{node}: take shard {shard} over from {dead} without an election"
        case SetEpoch(node=node, epoch=epoch):
            return f"{node}: set configuration epoch {epoch}"
        case Meet(node=node, peers=peers):
            return f"{node}: meet {_names(peers)}"
        case AssignSlots(node=node, slots=slots):
            return f"{node}: own slots {format_slots(slots)}"
        case Replicate(node=node, primary=primary):
            return f"{node}: replicate {primary}"
        case MonitorPrimary(node=node, primary=primary):
            return f"{node}: monitor {primary}"
        case LoadScripts(node=node, scripts=scripts):
            return f"{node}: load {len(scripts)} script{'s' if len(scripts) != 1 else ''}"
        case LoadUsers(node=node):
            return f"{node}: load the users of this release"
        case Configure(node=node, setting=setting, value=value, was=was):
            return f"{node}: set {setting} to {value or 'nothing'} (was {was or 'nothing'})"
        case _:
            assert_never(step)


def danger(step: Step) -> str | None:
    """What the step may lose for good; such steps want the fleet's name typed."""
    match step:
        case StartNode(loss=str(loss)) | AwaitFailover(loss=str(loss)):
            return loss
        case TakeOver(node=node, dead=dead):
            return f"writes that {dead} acknowledged and {node} does not hold are lost"
        case _:
            return None


def format_slots(slots: tuple[SlotRange, ...]) -> str:
    """`0-5460, 7000`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in slots)


def place(step: Step) -> str:
    """The node or the host that the step is carried out on."""
    return step.host if isinstance(step, PreparePlace) else step.node


def _names(names: tuple[NodeName, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
