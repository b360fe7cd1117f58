"""Reads from a stopped node's files the state that it would have after a start. Pure."""

import re
from dataclasses import dataclass

from rlctl.observe import parse
from rlctl.observe.model import Address, OnDisk, Saved
from rlctl.topology.nodes import NodeId

_MONITOR = re.compile(r"^sentinel monitor \S+ (\S+) (\d+) \d+$", re.MULTILINE)
_EPOCH = re.compile(r"^sentinel config-epoch \S+ (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFiles:
    """The files of a stopped node: the text of each configuration, empty if missing, and which data files exist."""

    cluster_conf: str = ""
    sentinel_conf: str = ""
    has_log: bool = False
    has_snapshot: bool = False


def on_disk(remains: SavedFiles, own_id: NodeId) -> OnDisk:
    """The state that the node would have after a start."""
    monitors, epoch = _monitored(remains.sentinel_conf)
    return OnDisk(
        saved=_saved(remains),
        table=parse.table(remains.cluster_conf) if is_own_table(remains.cluster_conf, own_id) else (),
        own_id=own_id,
        monitors=monitors,
        monitor_epoch=epoch,
    )


def is_own_table(cluster_conf: str, own_id: NodeId) -> bool:
    """Whether the text of a nodes.conf belongs to this node."""
    return parse.myself(cluster_conf) == own_id


def _saved(remains: SavedFiles) -> Saved:
    if remains.has_log:
        return Saved.LOG
    return Saved.SNAPSHOT if remains.has_snapshot else Saved.NOTHING


def _monitored(sentinel_conf: str) -> tuple[Address | None, int]:
    found, epoch = _MONITOR.search(sentinel_conf), _EPOCH.search(sentinel_conf)
    address = (found.group(1), int(found.group(2))) if found else None
    return address, int(epoch.group(1)) if epoch else 0
