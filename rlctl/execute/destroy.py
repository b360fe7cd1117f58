"""Destroy: stop and remove what rlctl made, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlctl.errors import PartlyDone
from rlctl.execute.journal import Journal
from rlctl.execute.locking import HeldFleet
from rlctl.execute.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyReport:
    """What was removed."""

    name: str
    removed: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """As `destroy -o json` shows it."""
        return {
            "schema": "rlctl.destroy/1",
            "name": self.name,
            "changed": bool(self.removed),
            "removed": list(self.removed),
        }


def run_destroy(held: HeldFleet, argv: Sequence[str], progress: Progress) -> DestroyReport:
    """Remove the fleet; what is not there needs no removing."""
    fleet = held.fleet
    names = sorted({*fleet.target.placed(), *fleet.target.strays()})
    if not names and not fleet.folder.root.exists():
        # Hosts may hold what they share of a fleet whose nodes are gone already.
        fleet.target.remove(())
        return DestroyReport(name=fleet.topology.name, removed=())
    fleet.check_removable()
    if not fleet.is_new:
        held.take(fleet.observe())
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
            hint="mend the cause and run destroy again",
        )
    fleet.folder.remove()
    journal.end("done")
    return DestroyReport(name=fleet.topology.name, removed=tuple(names))
