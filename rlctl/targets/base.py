"""The interface of a target: place, start and remove processes, and inspect them without a Redis connection."""

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
    """A node to start; `follow` is the primary that the replica will follow or that the sentinel will watch."""

    spec: NodeSpec
    follow: NodeSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """Result of one node or host in a batch; `error` is None if it succeeded."""

    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDrift:
    """Changes that a host still needs.

    `problem` says why the host could not be read. `refused` lists the directives that the host's server refuses.
    """

    changes: tuple[str, ...] = ()
    problem: RlctlError | None = None
    refused: tuple[RefusedDirective, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagesLeft:
    """Packages that rlctl installed on hosts that have no fleet any more.

    `changed` is True if packages were removed. `kept` has for each host a text that lists the packages that stay, and
    says why they stay.
    """

    changed: bool = False
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressListener:
    """Callbacks for a long call of a target.

    `note` gets progress lines for the operator. The target calls `check_stop` at safe points; an error that
    `check_stop` raises ends the call.
    """

    note: Callable[[str], None]
    check_stop: Callable[[], None]


NO_PROGRESS_LISTENER = ProgressListener(note=lambda _text: None, check_stop=lambda: None)


class OnThisMachine:
    """Methods that targets `local` and `docker` share, since neither has hosts to prepare or automatic restarts."""

    def machines(self) -> Mapping[str, HostFacts | RlctlError]:
        return {}

    def drift(self) -> Mapping[str, HostDrift]:
        return {}

    def prepare(self, hosts: Sequence[str]) -> Mapping[str, NodeResult]:
        return {host: NodeResult() for host in hosts}

    def settle_packages(self, *, remove: bool) -> PackagesLeft:  # noqa: ARG002 - the protocol's
        return PackagesLeft()

    def suspend_restarts(self, seconds: float) -> None:
        """Do nothing: dead local servers and containers are not restarted automatically."""


class Target(Protocol):
    """Runs a fleet's processes. Methods take batches of nodes, since one call may cover many machines."""

    def check(self) -> str:
        """Describe the server program that a start would run.

        Raises an error if a requirement of the start is not met.
        """

    def refused_directives(self, *, fetch: bool = False) -> tuple[RefusedDirective, ...] | None:
        """Directives of the section `redis` that the server would refuse at its next start.

        None if the image of that server is not on this machine yet; with `fetch` the target pulls the image first.
        Empty for target `hosts`, whose method `drift` returns the refused directives instead.
        """

    def route(self, spec: NodeSpec) -> Address:
        """The address at which this machine reaches a node. Other machines and nodes use the node's own address."""

    def why_unproven(self, spec: NodeSpec) -> str | None:
        """The reason to doubt that the node itself listens at its address; None if that is proven.

        Called before a password is sent without TLS, because another process at the address would get the password.
        """

    def machines(self) -> Mapping[str, HostFacts | RlctlError]:
        """Facts of each host, or why they could not be read; empty if all nodes run on this machine."""

    def drift(self) -> Mapping[str, HostDrift]:
        """Changes that each host still needs for its nodes; empty if all nodes run on this machine."""

    def prepare(self, hosts: Sequence[str]) -> Mapping[str, NodeResult]:
        """Apply the changes that these hosts need. Starts and stops no server."""

    def converge(self, launches: Sequence[Launch]) -> Mapping[NodeName, NodeResult]:
        """Write rlctl's files of these nodes, and start the nodes that do not run."""

    def configure(self, versions: Mapping[NodeSpec, Version]) -> Mapping[NodeName, NodeResult]:
        """Write rlctl's files of these nodes, whose servers have these versions. Starts no server."""

    def remove(self, names: Sequence[NodeName]) -> Mapping[NodeName, NodeResult]:
        """Stop the processes that rlctl started for these nodes, and delete the nodes' files."""

    def settle_packages(self, *, remove: bool) -> PackagesLeft:
        """Packages left on hosts that have no fleet. With `remove` the target removes the unused packages first."""

    def inspect(self, specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
        """Processes and files of these nodes, read without a connection to the servers."""

    def placed(self) -> Sequence[NodeName]:
        """All nodes of the fleet that have files on this target, even if the topology no longer has them."""

    def running_without_folder(self) -> Sequence[NodeName]:
        """Nodes that still run although their folder was removed."""

    def signal(self, specs: Sequence[NodeSpec], number: Signals) -> None:
        """Send a signal to the servers of these nodes; skips a node that does not run."""

    def suspend_restarts(self, seconds: float) -> None:
        """Suspend automatic restarts of dead nodes for `seconds`; 0 resumes the restarts.

        The suspension lasts for this time even if rlctl ends earlier.
        """

    def log(self, name: NodeName) -> str:
        """The log of a node's server."""

    def rotate_logs(self) -> None:
        """Rotate long logs, unless another program rotates them."""
