"""The steps of a plan: a closed union of everything that `deploy` can do to a fleet. Pure."""

from dataclasses import dataclass
from typing import assert_never

from rlctl.files.units import format_size
from rlctl.observe.model import SlotRange
from rlctl.topology.nodes import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlace:
    """Apply the playbook changes that a host still needs; starts and stops no server."""

    host: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode:
    """Start the process of a data node.

    `loss` describes the data that is lost for good if the node starts now; None if no data is lost.
    """

    node: NodeName
    follow: NodeName | None = None
    loss: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSentinel:
    """Start a Sentinel; it watches `primary` unless its own configuration file names one already."""

    node: NodeName
    primary: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitFailover:
    """Wait until a replica has replaced the dead primary `node`.

    `loss` describes the data that is lost for good, or is None. `has_log`: the primary has an append-only file. The
    wait is then short, and if no replica is elected, the primary starts again and loads the file.
    """

    node: NodeName
    shard: int
    loss: str | None = None
    has_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Promote a replica without an election, because the primaries cannot elect it."""

    node: NodeName
    dead: NodeName
    shard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEpoch:
    """Give a new node a configuration epoch of its own, so that no two nodes share one."""

    node: NodeName
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Meet:
    """Introduce a node to nodes of the cluster that it does not know."""

    node: NodeName
    peers: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignSlots:
    """Assign slots without an owner to a primary."""

    node: NodeName
    slots: tuple[SlotRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    node: NodeName
    primary: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorPrimary:
    node: NodeName
    primary: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadScripts:
    """Load the scripts that are missing on a node, before the node serves requests."""

    node: NodeName
    scripts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadUsers:
    """Load the users of this release on a running node without ending its connections."""

    node: NodeName
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """Change a setting of a running node; `was` is the previous value."""

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

# Settings that CONFIG GET returns in bytes.
_SIZES = frozenset(
    {"maxmemory", "maxmemory-clients", "repl-backlog-size", "auto-aof-rewrite-min-size", "proto-max-bulk-len"}
)


def kind(step: Step) -> str:
    """Return the kind of a step, as in JSON output and saved plans."""
    return _KINDS[type(step)]


def describe(step: Step) -> str:  # noqa: C901  one line a member is the point of this table
    """Return the line that describes the step in plans, progress and journals."""
    match step:
        case PreparePlace(host=host, changes=changes):
            count = f"{len(changes)} change{'s' if len(changes) != 1 else ''}"
            shown = [*changes[:3], *([f"and {len(changes) - 3} more"] if len(changes) > 3 else [])]
            return f"host {host}: {count}: {'; '.join(shown)}"
        case StartNode(node=node, follow=follow, loss=loss):
            return f"{node}: start" + (f" as replica of {follow}" if follow else "") + (f" ({loss})" if loss else "")
        case StartSentinel(node=node, primary=primary):
            return f"{node}: start and watch {primary}"
        case AwaitFailover(node=node, shard=shard, loss=loss):
            return f"shard {shard}: wait until a replica of {node} has taken over" + (f" ({loss})" if loss else "")
        case TakeOver(node=node, dead=dead, shard=shard):
            return f"{node}: take over shard {shard} from {dead} without an election"
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
            return f"{node}: set {setting} to {shown_value(setting, value)} (was {shown_value(setting, was)})"
        case _:
            assert_never(step)


def danger(step: Step) -> str | None:
    """Describe the data that the step may lose for good, or None.

    An operator must type the fleet's name to agree to a step that may lose data.
    """
    match step:
        case StartNode(loss=str(loss)) | AwaitFailover(loss=str(loss)):
            return loss
        case TakeOver(node=node, dead=dead):
            return f"writes that {dead} acknowledged and {node} does not hold are lost"
        case _:
            return None


def shown_value(setting: str, value: str) -> str:
    """Format the value of a setting for a message: byte counts as `256mb`, an empty value as `nothing`."""
    is_size = setting in _SIZES and value.isdecimal() and int(value) > 0
    return format_size(int(value)) if is_size else value or "nothing"


def format_slots(slots: tuple[SlotRange, ...]) -> str:
    """Format slot ranges as `0-5460, 7000`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in slots)


def place(step: Step) -> str:
    """Return the name of the node, or of the host, that the step changes."""
    return step.host if isinstance(step, PreparePlace) else step.node


def _names(names: tuple[NodeName, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
