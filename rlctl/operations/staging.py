"""Staging: write the files of a host on this machine; the playbook roles copy them to the host."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import AccessDenied, NotFound, Refused, Unreachable
from rlctl.execute.lock import LockOwner, file_lock
from rlctl.execute.session import (
    added_services,
    check_authority,
    check_openable,
    check_refusals,
    check_savable,
    new_secrets,
    no_secrets,
    save,
)
from rlctl.render.acl import Version
from rlctl.scripts.release import load_release
from rlctl.secrets import FleetSecrets, with_services
from rlctl.state.home import Home
from rlctl.state.record import FleetRecord
from rlctl.system.clock import SystemClock
from rlctl.system.files import make_private_folder
from rlctl.targets.hosts.files import staged_node
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes

LOCK_S = 60.0
LOCK_EVERY_S = 0.05
# ACL files depend on the server's version. Before a server is installed, assume the newest version that changed them.
NEWEST_KNOWN: Version = (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The staged files of one host, by node."""

    folder: Path
    nodes: Mapping[NodeName, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingMode:
    """Whether a staging run may store secrets.

    `rehearsal`: an Ansible check run, which stores no secrets. `placed`: the hosts have nodes of the fleet, so missing
    secrets are an error. `unseen`: some hosts were not read and may have nodes, so no new secrets are stored.
    """

    rehearsal: bool
    placed: bool
    unseen: bool = False


def stage_host(topology: Topology, home: Home, host: str, version: Version | None, mode: StagingMode) -> Staged:
    """Write the files of every node of a host."""
    specs = [spec for spec in all_nodes(topology) if spec.host == host]
    if not specs:
        raise NotFound(f"host {host} has no node of fleet {topology.name}", hint="`rlctl inventory` lists the hosts")
    home.open_for_writing()
    with file_lock(home.staging_lock(topology.name), LockOwner.myself("render config"), wait=_lock_wait()):
        return _stage(topology, home, specs, version or NEWEST_KNOWN, mode)


def _stage(topology: Topology, home: Home, specs: Sequence[NodeSpec], version: Version, mode: StagingMode) -> Staged:
    folder = home.fleet(topology.name)
    stage = folder.staging_folder(rehearsal=mode.rehearsal)
    secrets = _secrets(topology, home, mode)
    commands = load_release().commands
    nodes: dict[NodeName, Sequence[str]] = {}
    for spec in specs:
        node = staged_node(stage, spec, topology, secrets, commands)
        if mode.rehearsal:
            # Remove certificates that the throw-away authority of an earlier rehearsal issued.
            _clear(node.root)
        make_private_folder(node.root)
        node.write_own(version)
        nodes[spec.name] = sorted(path.name for path in node.root.iterdir() if path.is_file())
    return Staged(folder=stage, nodes=nodes)


def _secrets(topology: Topology, home: Home, mode: StagingMode) -> FleetSecrets:
    record = FleetRecord.load(home.fleet(topology.name).record)
    check_refusals(() if record is None else record.refusals(topology))
    found = check_openable(topology, home)
    if found is None and mode.placed:
        raise no_secrets(topology)
    if found is None and mode.unseen and not mode.rehearsal:
        raise AccessDenied(
            f"some hosts of fleet {topology.name} were not read, and its secrets are not on this machine: "
            "nodes on those hosts may have other secrets",
            hint="if the fleet is new, run without --limit with all hosts up; else `rlctl secrets import FILE`",
        )
    secrets = new_secrets(topology) if found is None else with_services(found, topology.security.services)
    check_authority(topology, secrets)
    if not mode.rehearsal:
        if mode.placed and (added := added_services(secrets, found)):
            raise Refused(
                f"services without a user yet: {', '.join(added)}",
                hint="`rlctl deploy` adds them to running nodes; then run the playbook again",
            )
        check_savable(secrets, found)
        save(topology, home.fleet(topology.name), secrets, found=found)
    return secrets


def _lock_wait() -> Callable[[], bool]:
    """Return the callback for a staging lock that another process holds; it returns False after LOCK_S."""
    clock = SystemClock()
    deadline = clock.monotonic() + LOCK_S

    def keep_waiting() -> bool:
        clock.sleep(LOCK_EVERY_S)
        return clock.monotonic() < deadline

    return keep_waiting


def _clear(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as failure:
        raise Unreachable(f"cannot remove {folder}: {failure.strerror}", hint="fix its permissions") from failure
