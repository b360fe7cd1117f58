"""Open a fleet: topology, secrets, target and connections for one operation."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.errors import AccessDenied, Refused, RlctlError
from rlctl.limits.release import Release
from rlctl.observe.collect import Collector
from rlctl.observe.connect import Connector
from rlctl.observe.model import Observed, Presence
from rlctl.plan.desired import Desired
from rlctl.plan.unproven import is_unproven, proof_hint
from rlctl.render.acl import Version, loaded_revision, node_acl
from rlctl.scripts.release import load_release
from rlctl.secrets import Authority, FleetSecrets, generate, with_services
from rlctl.state import vault
from rlctl.state.home import FleetFolder, Home
from rlctl.state.record import FleetRecord
from rlctl.system.clock import Clock, SystemClock
from rlctl.system.files import make_private_folder, write_private
from rlctl.targets.base import NO_PROGRESS_LISTENER, ProgressListener, Target
from rlctl.targets.choice import open_target, resolved
from rlctl.targets.server_program import parse_version
from rlctl.topology.change import RefusedEdit, as_deployed, summary
from rlctl.topology.model import TargetName, Topology
from rlctl.topology.nodes import NodeName, all_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSession:
    """Everything that an operation needs of one fleet.

    If deploy would refuse the topology file, `topology` has the nodes of the fleet's record, and `refusals` says why.
    """

    topology: Topology
    refusals: tuple[RefusedEdit, ...]
    home: Home
    folder: FleetFolder
    secrets: FleetSecrets
    release: Release
    # The secrets that were stored before; None for a fleet without stored secrets.
    found: FleetSecrets | None
    target: Target
    connector: Connector
    collector: Collector
    clock: Clock

    @property
    def is_new(self) -> bool:
        """Whether the fleet has no stored secrets, so that new ones were generated."""
        return self.found is None

    @property
    def new_services(self) -> tuple[str, ...]:
        """The services of a deployed fleet whose passwords were generated just now."""
        return added_services(self.secrets, self.found)

    def observe(self) -> Observed:
        """Query every node; raises AccessDenied if servers answer and this machine has no secrets for the fleet."""
        observed = self.collector.collect()
        if self.is_new:
            _check_no_servers(self.topology, observed)
        return observed

    def check_deployable(self) -> None:
        """Raise Refused for edits that deploy cannot carry out, and AccessDenied if secrets are missing or unusable."""
        check_refusals(self.refusals)
        check_savable(self.secrets, self.found)
        if self.topology.security.tls and self.secrets.authority is not None:
            _check_authority_usable(self.topology, self.secrets.authority)
        if self._lacks_secrets and self.topology.target is TargetName.HOSTS and self._placed_nodes():
            raise no_secrets(self.topology)

    def check_removable(self) -> None:
        """Raise AccessDenied if nodes run on hosts and the secrets are missing.

        A fleet without running nodes can be removed without its secrets.
        """
        if self._lacks_secrets and self.topology.target is TargetName.HOSTS and self._has_running_node():
            raise no_secrets(self.topology)

    def desired(self, observed: Observed) -> Desired:
        """Return the desired state, with the users that each running server should have loaded."""
        scripts = {script.name: script.sha1 for script in self.release.scripts}
        users = self.users(observed) if self.topology.security.acl else {}
        revisions = {name: loaded_revision(text) or "" for name, text in users.items()}
        return Desired(topology=self.topology, revisions=revisions, scripts=scripts, refusals=self.refusals)

    def versions(self, observed: Observed) -> dict[NodeName, Version]:
        return {node.name: parse_version(node.version) for node in observed.up if node.version}

    def users(self, observed: Observed) -> dict[NodeName, str]:
        """Return the ACL file that each running server should have loaded."""
        specs = {spec.name: spec for spec in all_nodes(self.topology)}
        found: dict[tuple[bool, Version], str] = {}
        for name, version in self.versions(observed).items():
            kind = specs[name].is_sentinel, version
            if kind not in found:
                found[kind] = node_acl(specs[name], self.secrets, version, self.release.commands)
        return {name: found[specs[name].is_sentinel, version] for name, version in self.versions(observed).items()}

    def save(self) -> None:
        """Store the record of a fleet that is about to change, and its secrets if they changed."""
        save(self.topology, self.folder, self.secrets, found=self.found)

    @property
    def is_recorded(self) -> bool:
        """Whether the stored record equals this topology."""
        return FleetRecord.load(self.folder.record) == FleetRecord(topology=self.topology)

    @property
    def _lacks_secrets(self) -> bool:
        """Whether no secrets were stored when the fleet was opened, and no deploy has stored any since."""
        return self.is_new and not self.folder.secrets.exists()

    def _placed_nodes(self) -> set[NodeName]:
        """The nodes placed on hosts that answer; `target.placed` also lists the nodes of hosts that do not answer."""
        silent = {host for host, found in self.target.machines().items() if isinstance(found, RlctlError)}
        return set(self.target.placed()) - {spec.name for spec in all_nodes(self.topology) if spec.host in silent}

    def _has_running_node(self) -> bool:
        found = self.target.inspect(all_nodes(self.topology)).values()
        return any(disk.running for disk in found) or bool(self.target.running_without_folder())


def save(topology: Topology, folder: FleetFolder, secrets: FleetSecrets, *, found: FleetSecrets | None) -> None:
    """Store the record of a fleet that is about to change, and the secrets if they differ from the stored `found`."""
    make_private_folder(folder.root)
    if secrets != found and not vault.is_from_environment():
        vault.write(folder.secrets, secrets)
    if secrets.authority is not None:
        write_private(folder.ca, secrets.authority.certificate)
    FleetRecord(topology=topology).save(folder.record)


def check_savable(secrets: FleetSecrets, found: FleetSecrets | None) -> None:
    """Raise AccessDenied if new passwords belong in the file that RLCTL_SECRETS names, which rlctl never writes."""
    added = added_services(secrets, found)
    if added and vault.is_from_environment():
        raise AccessDenied(
            f"the file in RLCTL_SECRETS has no password of service {', '.join(added)}",
            hint="unset RLCTL_SECRETS and run `rlctl deploy` where the secrets are, then `rlctl secrets export FILE`",
        )


def added_services(secrets: FleetSecrets, found: FleetSecrets | None) -> tuple[str, ...]:
    """Return the services whose passwords were generated just now; empty if the fleet had no secrets before."""
    return () if found is None else tuple(name for name in secrets.services if name not in found.services)


def no_secrets(topology: Topology) -> AccessDenied:
    """Return the error for a deployed fleet whose secrets are missing on this machine.

    New secrets are no remedy, because they would lock out the operator that deployed the fleet.
    """
    return AccessDenied(
        f"the hosts have nodes of a fleet {topology.name}, and its secrets are not on this machine",
        hint="`rlctl secrets import FILE`, or set RLCTL_SECRETS=FILE; if it is another fleet: choose another name",
    )


def new_secrets(topology: Topology) -> FleetSecrets:
    """Generate the secrets of a new fleet."""
    authority = None
    if topology.security.tls:
        from rlctl.system.tls import new_authority  # noqa: PLC0415  costs start-up time that only TLS pays

        authority = new_authority(topology.name)
    return with_services(generate(topology.name, authority), topology.security.services)


@contextmanager
def open_fleet(
    topology: Topology, home: Home, release: Release | None = None, listener: ProgressListener = NO_PROGRESS_LISTENER
) -> Iterator[FleetSession]:
    """Open a fleet with a release of scripts (None: the shipped release); close its connections at the end."""
    with _opened(topology, home, check_openable(topology, home), release or load_release(), listener) as fleet:
        yield fleet


def check_openable(topology: Topology, home: Home) -> FleetSecrets | None:
    """Check, before anything is written, that the fleet can be opened; return its stored secrets, if any.

    Raises AccessDenied if the fleet was deployed from this machine and its secrets are missing.
    """
    home.check()
    folder = home.fleet(topology.name)
    found = vault.read(folder.secrets, topology.name)
    if found is None and (folder.record.exists() or folder.nodes.exists()):
        raise AccessDenied(
            f"fleet {topology.name} was deployed from this machine, but its secrets are missing",
            hint="restore them: `rlctl secrets import FILE`, or set RLCTL_SECRETS=FILE; the fleet rejects new ones",
        )
    return found


def check_refusals(found: Sequence[RefusedEdit]) -> None:
    """Raise Refused if the topology has edits that deploy cannot carry out."""
    if found:
        raise Refused(summary(found), hint=found[0].hint)


@contextmanager
def open_fleet_for_removal(
    topology: Topology, home: Home, listener: ProgressListener = NO_PROGRESS_LISTENER
) -> Iterator[FleetSession]:
    """Open a fleet for `rlctl destroy`, even if its secrets are missing or its topology has changed."""
    home.check()
    found = vault.read(home.fleet(topology.name).secrets, topology.name)
    with _opened(topology, home, found, load_release(), listener) as fleet:
        yield fleet


@contextmanager
def _opened(
    topology: Topology, home: Home, found: FleetSecrets | None, release: Release, listener: ProgressListener
) -> Iterator[FleetSession]:
    folder = home.fleet(topology.name)
    record = FleetRecord.load(folder.record)
    refused = () if record is None else record.refusals(topology)
    if record is not None and refused:
        topology = as_deployed(topology, record.topology)
    topology = resolved(topology, record)
    secrets = new_secrets(topology) if found is None else with_services(found, topology.security.services)
    check_authority(topology, secrets)
    clock = SystemClock()
    target = open_target(topology, secrets, home, release.commands, clock, listener)
    connector = Connector(topology, secrets, target.route, target.why_unproven)
    try:
        yield FleetSession(
            topology=topology,
            refusals=refused,
            home=home,
            folder=folder,
            secrets=secrets,
            release=release,
            found=found,
            target=target,
            connector=connector,
            collector=Collector(topology, secrets, release, connector, target.inspect, clock, is_new=found is None),
            clock=clock,
        )
    finally:
        connector.close()


def check_authority(topology: Topology, secrets: FleetSecrets) -> None:
    """Raise AccessDenied if the topology asks for TLS and the secrets have no certificate authority."""
    if topology.security.tls and secrets.authority is None:
        raise AccessDenied(
            f"the secrets of fleet {topology.name} have no certificate authority, but the topology says tls: true",
            hint="import the secrets of the fleet that was deployed with TLS",
        )


def _check_authority_usable(topology: Topology, authority: Authority) -> None:
    from rlctl.system.tls import read_authority  # noqa: PLC0415  costs start-up time that only TLS pays

    try:
        read_authority(authority)
    except ValueError as failure:
        raise AccessDenied(
            f"the secrets of fleet {topology.name} have no usable certificate authority: {failure}",
            hint="`rlctl secrets import FILE`, or set RLCTL_SECRETS=FILE, with the secrets of the deployed fleet",
        ) from failure


def _check_no_servers(topology: Topology, observed: Observed) -> None:
    closed = [node for node in observed.nodes if node.presence is Presence.DENIED or is_unproven(node)]
    if closed:
        missing = f"; if only the proof is missing: {proof_hint(topology)}" if any(map(is_unproven, closed)) else ""
        raise AccessDenied(
            f"servers answer at the addresses of fleet {topology.name}, and this machine has no secrets for it: "
            f"{closed[0].evidence}",
            hint="if it is this fleet: `rlctl secrets import FILE` or RLCTL_SECRETS; "
            f"if not: choose another base_port{missing}",
        )
