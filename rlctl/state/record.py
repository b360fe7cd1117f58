"""The fleet record: the topology that was last deployed under a name, so that a changed file is noticed."""

from dataclasses import dataclass, replace
from pathlib import Path

from rlctl.errors import InvalidFile, Refused
from rlctl.system.files import read_own, write_private
from rlctl.topology.change import RefusedEdit, refused_edits
from rlctl.topology.dump import topology_text
from rlctl.topology.load import load_topology
from rlctl.topology.model import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRecord:
    """A deployed topology, with the network that a Docker fleet has."""

    topology: Topology

    @classmethod
    def load(cls, path: Path) -> "FleetRecord | None":
        """The record, or None where nothing was deployed from here."""
        text = read_own(path)
        if text is None:
            return None
        try:
            return cls(topology=load_topology(text.encode("utf-8"), str(path)))
        except InvalidFile as failure:
            raise Refused(
                f"{path} does not hold a deployed topology: it is damaged, or was written by an earlier rlctl",
                hint="restore it; or remove it, and run `rlctl deploy` with the topology file as it was deployed",
            ) from failure

    def save(self, path: Path) -> None:
        """Remember it."""
        # The section redis is always that of the file; a drill's twin adds directives there that no file may hold.
        write_private(path, topology_text(replace(self.topology, redis=())), durable=True)

    def refusals(self, topology: Topology) -> tuple[RefusedEdit, ...]:
        """What deploy would refuse of this topology."""
        return refused_edits(self.topology, topology)
