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
    """A node to start; `follow` is the primary with which a replica of a Sentinel fleet or a sentinel starts."""

    spec: NodeSpec
    follow: NodeSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """Result of one node or host in a batch; without an error it succeeded."""

    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDrift:
    """Changes that a host still needs, or why it could not be read; `refused` are directives its server refuses."""

    changes: tuple[str, ...] = ()
    problem: RlctlError | None = None
    refused: tuple[RefusedDirective, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagesLeft:
    """Packages that rlctl installed on hosts that have no fleet any more.

    `changed`: some packages were removed. `kept`: the packages that stay on each host, or why they stay.
    """

    changed: bool = False
    kept: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressListener:
    """Callbacks for a long call of a target.

    `note` gets lines of progress for the operator. `check_stop` runs at safe points and raises to end the call.
    """

    note: Callable[[str], None]
    check_stop: Callable[[], None]


NO_PROGRESS_LISTENER = ProgressListener(note=lambda _text: None, check_stop=lambda: None)


class OnThisMachine:
    """The part of a target that is the same for `local` and `docker`: no host to prepare, and no automatic restarts."""

    def machines(self) -> Mapping[str, HostFacts | RlctlError]:
        return {}

    def drift(self) -> Mapping[str, HostDrift]:
        return {}

    def prepare(self, hosts: Sequence[str]) -> Mapping[str, NodeResult]:
        return {host: NodeResult() for host in hosts}

    def settle_packages(self, *, remove: bool) -> PackagesLeft:  # noqa: ARG002 - the protocol's
        return PackagesLeft()

    def suspend_restarts(self, seconds: float) -> None:
        """Do nothing: only rlctl starts a dead node here, and containers have no restart policy."""


class Target(Protocol):
    """Runs a fleet's processes. Methods take batches of nodes, since one call may cover many machines."""

    def check(self) -> str:
        """Describe the server program that a start would run; raises an error that names what is missing or unfit."""

    def refused_directives(self, *, fetch: bool = False) -> tuple[RefusedDirective, ...] | None:
        """Directives of the section `redis` that the server of the next start refuses.

        None if that server is not on this machine yet; `fetch` pulls it first. Empty for target hosts, whose `drift`
        has the refused directives.
        """

    def route(self, spec: NodeSpec) -> Address:
        """The address at which this machine reaches a node. Other machines and nodes use the node's own address."""

    def why_unproven(self, spec: NodeSpec) -> str | None:
        """The reason to doubt that the node itself listens at its address; None if that is proven.

        Called before a password is sent without TLS.
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
        """Write rlctl's files for running servers of these versions. Starts no server."""

    def remove(self, names: Sequence[NodeName]) -> Mapping[NodeName, NodeResult]:
        """Stop the processes of these nodes that rlctl started, and delete their files."""

    def settle_packages(self, *, remove: bool) -> PackagesLeft:
        """The packages that stay on hosts without a fleet; `remove` first removes those that nothing else uses."""

    def inspect(self, specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
        """Processes and files of these nodes, read without a connection to the servers."""

    def placed(self) -> Sequence[NodeName]:
        """All nodes of the fleet that have files here, also those that the topology no longer has."""

    def running_without_folder(self) -> Sequence[NodeName]:
        """Nodes that still run although their folder was removed."""

    def signal(self, specs: Sequence[NodeSpec], number: Signals) -> None:
        """Send a signal to the servers of these nodes; skips a node that does not run."""

    def suspend_restarts(self, seconds: float) -> None:
        """Suspend automatic restarts of dead nodes for `seconds`, even if rlctl ends meanwhile; 0 resumes them."""

    def log(self, name: NodeName) -> str:
        """The log of a node's server."""

    def rotate_logs(self) -> None:
        """Rotate long logs, unless another program rotates them."""
