"""The fleet record: the topology of the last deploy, with which rlctl compares an edited topology file."""

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
    """The topology of the last deploy."""

    topology: Topology

    @classmethod
    def load(cls, path: Path) -> "FleetRecord | None":
        """Read the record; None if this machine has not deployed the fleet. Raises Refused if the file is damaged."""
        text = read_own(path)
        if text is None:
            return None
        try:
            return cls(topology=load_topology(text.encode("utf-8"), str(path)))
        except InvalidFile as failure:
            raise Refused(
                f"{path} has no valid topology: it is damaged, or an earlier rlctl wrote it",
                hint="restore the file; or delete it and run `rlctl deploy` with the topology file of the last deploy",
            ) from failure

    def save(self, path: Path) -> None:
        # The section `redis` is left out. rlctl always reads it from the topology file, and a drill's twin adds
        # directives that a topology file may not contain.
        write_private(path, topology_text(replace(self.topology, redis=())), durable=True)

    def refusals(self, topology: Topology) -> tuple[RefusedEdit, ...]:
        """The edits in `topology` that deploy refuses."""
        return refused_edits(self.topology, topology)
