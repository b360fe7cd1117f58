"""Destroy: stop and remove the processes and files that rlctl created, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlctl.errors import AccessDenied, PartlyDone, Refused
from rlctl.execute.journal import Journal
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.observe.model import Presence
from rlctl.system.ports import listening_pids
from rlctl.targets.base import PackagesLeft
from rlctl.topology.model import TargetName
from rlctl.topology.nodes import all_nodes

# Without the fleet's secrets, rlctl cannot rule out that servers in these states belong to the fleet. With TLS it
# cannot check their certificates either, so the fleet's servers may look like another process.
_UNPROVEN = frozenset({Presence.DENIED, Presence.UNPROVEN, Presence.FOREIGN})
_UNPROVEN_TLS = _UNPROVEN | {Presence.STRANGER}
_PROVEN = frozenset({Presence.UP, Presence.LOADING})


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyReport:
    name: str
    removed: tuple[str, ...]
    packages: PackagesLeft

    def to_json(self) -> dict[str, object]:
        """Return the JSON form for `destroy -o json`."""
        return {
            "schema": "rlctl.destroy/1",
            "name": self.name,
            "changed": bool(self.removed) or self.packages.changed,
            "removed": list(self.removed),
            "packages_kept": dict(self.packages.kept),
        }


def run_destroy(
    locked: LockedFleet, argv: Sequence[str], progress: Progress, *, packages: bool = False
) -> DestroyReport:
    """Remove the fleet. Idempotent. `packages` also removes the packages that rlctl installed on its hosts."""
    fleet = locked.fleet
    names = sorted({*fleet.target.placed(), *fleet.target.running_without_folder()})
    if not names:
        _check_silence(fleet)
    if not names and not fleet.folder.root.exists():
        # Hosts may still have shared files of a fleet whose nodes were removed already.
        fleet.target.remove(())
        left = fleet.target.settle_packages(remove=packages)
        fleet.folder.remove()
        return DestroyReport(name=fleet.topology.name, removed=(), packages=left)
    fleet.check_removable()
    if not fleet.is_new:
        locked.take_key(fleet.observe())
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin("destroy", argv)
    results = fleet.target.remove(names)
    failed = []
    for number, name in enumerate(names, start=1):
        error = results[name].error
        outcome = "done" if error is None else f"failed: {error}"
        journal.step(f"{name}: remove", outcome)
        progress.step(number, len(names), f"{name}: remove", outcome)
        if error is not None:
            failed.append(f"{name}: {error}")
    if failed:
        journal.end(PartlyDone.code)
        raise PartlyDone(
            f"{len(names) - len(failed)} of {len(names)} nodes removed; " + "; ".join(failed),
            hint="repair the cause and run `rlctl destroy` again",
        )
    left = fleet.target.settle_packages(remove=packages)
    fleet.folder.remove()
    journal.end("done")
    return DestroyReport(name=fleet.topology.name, removed=tuple(names), packages=left)


def _check_silence(fleet: FleetSession) -> None:
    """Raise if servers answer at the fleet's addresses, although no process or folder of the fleet was found."""
    name = fleet.topology.name
    unproven = _UNPROVEN_TLS if fleet.topology.security.tls else _UNPROVEN
    if fleet.is_new and (where := _answering(fleet, unproven)):
        raise AccessDenied(
            f"servers answer at the addresses of fleet {name}, and this machine has no secrets to identify them; "
            f"nothing was stopped: {where}",
            hint="if it is this fleet: `rlctl secrets import FILE` or RLCTL_SECRETS=FILE, with the RLCTL_HOME that "
            "deployed it; if not: this machine has no part of this fleet",
        )
    if not fleet.is_new and (where := _answering(fleet, _PROVEN)):
        raise Refused(
            f"fleet {name} is running, but its processes and folders are not under {fleet.home.root}; "
            f"nothing was stopped: {where}",
            hint="use the RLCTL_HOME that deployed it; if that is gone, end these processes by their pids",
        )


def _answering(fleet: FleetSession, presences: frozenset[Presence]) -> str:
    """List the nodes in these states with their addresses and pids; pids are unknown except on target local."""
    pids = listening_pids() if fleet.topology.target is TargetName.LOCAL else {}
    observed = fleet.collector.collect()
    found = [spec for spec in all_nodes(fleet.topology) if observed.node(spec.name).presence in presences]
    return ", ".join(
        f"{spec.name} at {spec.endpoint} (pid {pids.get((spec.address, spec.port), 'unknown')})" for spec in found
    )
