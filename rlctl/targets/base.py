"""What every target can do: place processes, remove them, tell what it knows without asking them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from signal import Signals
from typing import Protocol

from rlctl.errors import RlctlError
from rlctl.observe.model import Address, OnDisk
from rlctl.render.acl import Version
from rlctl.system.host_facts import HostFacts
from rlctl.targets.trial import RefusedDirective
from rlctl.topology.nodes import NodeName, NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One node to bring up; `follow` is the primary that a replica of a Sentinel fleet or a sentinel starts with."""

    spec: NodeSpec
    follow: NodeSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What became of one node in a batch; no error means done."""

    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDrift:
    """What a host has otherwise than it should, or why nobody could look."""

    changes: tuple[str, ...] = ()
    problem: RlctlError | None = None
    refused: tuple[RefusedDirective, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagesLeft:
    """The packages that rlctl installed on hosts without a fleet: whether some were removed, and by host what stays."""

    changed: bool = False
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressListener:
    """Who follows a long call of a target: hears of it, and may end it by an exception at a safe point."""

    note: Callable[[str], None]
    check_stop: Callable[[], None]


NO_PROGRESS_LISTENER = ProgressListener(note=lambda _text: None, check_stop=lambda: None)


class OnThisMachine:
    """What targets have in common whose nodes all run here: no machine to prepare, nobody who starts a dead node."""

    def machines(self) -> Mapping[str, HostFacts | RlctlError]:
        """All is on this one."""
        return {}

    def drift(self) -> Mapping[str, HostDrift]:
        """This machine needs no preparing."""
        return {}

    def prepare(self, hosts: Sequence[str]) -> Mapping[str, NodeResult]:
        """There is nothing that `drift` could name."""
        return {host: NodeResult() for host in hosts}

    def settle_packages(self, *, remove: bool) -> PackagesLeft:  # noqa: ARG002 - the protocol's
        """Rlctl installs none on this machine."""
        return PackagesLeft()

    def suspend_restarts(self, seconds: float) -> None:
        """Nothing here starts a dead node but rlctl; containers have no restart policy."""


class Target(Protocol):
    """A place for processes. Calls are batches, because one call may cover many machines."""

    def check(self) -> str:
        """What a start would run, for people; an error names what is missing or does not fit."""

    def refused_directives(self, *, fetch: bool = False) -> tuple[RefusedDirective, ...] | None:
        """Directives of the section `redis` that the server refuses which the next start runs.

        None where that server is not on this machine yet; `fetch` brings it here first. Empty on hosts: their `drift`
        tells what they refuse.
        """

    def route(self, spec: NodeSpec) -> Address:
        """Where this machine reaches a node; others, and the nodes among themselves, use the node's own address."""

    def why_unproven(self, spec: NodeSpec) -> str | None:
        """Why what listens at the node's address may be another process than the node; None where it is the node's.

        Asked before a password is sent without TLS.
        """

    def machines(self) -> Mapping[str, HostFacts | RlctlError]:
        """Facts of the machines that the nodes run on, or why there are none; nothing where that is this one."""

    def drift(self) -> Mapping[str, HostDrift]:
        """What each host lacks for its nodes; nothing where places need no preparing."""

    def prepare(self, hosts: Sequence[str]) -> Mapping[str, NodeResult]:
        """Put these hosts right; start and stop nothing."""

    def converge(self, launches: Sequence[Launch]) -> Mapping[NodeName, NodeResult]:
        """Write the files that are rlctl's and start what does not run."""

    def configure(self, versions: Mapping[NodeSpec, Version]) -> Mapping[NodeName, NodeResult]:
        """Write the files that are rlctl's for running servers of these versions; start nothing."""

    def remove(self, names: Sequence[NodeName]) -> Mapping[NodeName, NodeResult]:
        """Stop the processes that rlctl started, and delete their files."""

    def settle_packages(self, *, remove: bool) -> PackagesLeft:
        """Which packages stay on hosts without a fleet; `remove` first removes those that nothing else uses."""

    def inspect(self, specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
        """What processes and files there are, without asking the servers."""

    def placed(self) -> Sequence[NodeName]:
        """All nodes of the fleet that this target holds, whether the topology still names them or not."""

    def running_without_folder(self) -> Sequence[NodeName]:
        """Nodes that run although their folder was removed under them."""

    def signal(self, specs: Sequence[NodeSpec], number: Signals) -> None:
        """Signal the servers of these nodes; one that is gone needs none."""

    def suspend_restarts(self, seconds: float) -> None:
        """Nothing but rlctl starts a dead node for so long, however rlctl ends; 0 ends it at once."""

    def log(self, name: NodeName) -> str:
        """What a node's server said."""

    def rotate_logs(self) -> None:
        """Rotate what grows."""
