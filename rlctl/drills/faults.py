"""What a drill can break: cuts by the means at hand, and the fleet's processes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from rlctl.drills.cuts import Grudge, no_rules, rules
from rlctl.drills.model import Flow
from rlctl.system.sandbox import PacketFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """When something was done: not before the first, not after the second; what is between is ambiguous."""

    before_s: float
    after_s: float


class Faults(Protocol):
    """Cuts between nodes. Each heals by itself when rlctl is killed; `abilities` says which flows can be cut."""

    method: str
    abilities: frozenset[Flow]

    def prepare(self) -> None:
        """Have ready whatever takes time."""

    def cut(self, grudge: Grudge) -> None:
        """Put the cut into effect."""

    def mend(self) -> None:
        """Undo our cuts and nothing else; right at any time, and twice."""

    def residue(self) -> Iterable[str]:
        """What is still in force of ours."""

    def close(self) -> None:
        """Let go of helpers."""


class SandboxFaults:
    """Packet rules in the drill's own network namespace; they die with it."""

    method = "packet rules in a private network namespace"
    abilities = frozenset(Flow)

    def __init__(self, packets: PacketFilter, run: str) -> None:
        self._packets = packets
        self._run = run

    def prepare(self) -> None:
        """Have the packet filter's program wait for its rules."""
        self._packets.prepare()

    def cut(self, grudge: Grudge) -> None:
        """Drop the packets of these pairs."""
        self._packets.apply(rules(grudge, self._run))

    def mend(self) -> None:
        """Remove our table."""
        self._packets.apply(no_rules(self._run))

    def residue(self) -> Iterable[str]:
        """Our table, where it is still there."""
        return [line for line in self._packets.listing().splitlines() if line.startswith("table ")]

    def close(self) -> None:
        """Let the waiting program go."""
        self._packets.close()
