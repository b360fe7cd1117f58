"""Sets up a drill's script and user in a fleet, copies its ledgers, and removes its user and keys."""

import contextlib
import secrets as randomness
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlctl.drills.engine.client_spec import NodeAddress
from rlctl.drills.engine.wire import Credentials, call_raw, open_channel
from rlctl.drills.record.ledger import Keys, Wrapped, wrap
from rlctl.errors import TimedOut, Unreachable
from rlctl.execute.session import FleetSession
from rlctl.lab.run_folder import RunFolder
from rlctl.lab.twin import READS_WHEN_DOWN
from rlctl.scripts.loader import load_scripts
from rlctl.secrets import User
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec, data_nodes

USER_PREFIX = "rlctl-drill-"
ALGORITHM = "fixed_window"
CONNECT_S = 2.0
READ_S = 20.0
REFUSED_S = 10.0
# Bytes of one entry in an answer to LRANGE: "$10", nine digits and a sign, and two line ends.
_ENTRY_BYTES = 17
_CLIENT_COMMANDS = ("ping", "wait", "setbit", "time")


def drill_script(fleet: FleetSession) -> Wrapped:
    """The shipped script, changed to append each operation to a ledger too."""
    shipped = fleet.release.script(ALGORITHM)
    if shipped is None:
        raise Unreachable(
            f"release {fleet.release.version} has no script {ALGORITHM}", hint="drills need this script; see --lua"
        )
    return wrap(shipped, (Path(__file__).parent / "ledger.lua").read_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixtures:
    """The drill's script, user and keys on one fleet."""

    fleet: FleetSession
    keys: Mapping[str, Keys]
    script: Wrapped
    password: str = field(repr=False)

    @classmethod
    def plan(cls, fleet: FleetSession, keys: Mapping[str, Keys]) -> "Fixtures":
        """Prepare the fixtures without changing the fleet. `keys` maps each client to its keys."""
        return cls(fleet=fleet, keys=keys, script=drill_script(fleet), password=randomness.token_urlsafe(24))

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients that have a ledger."""
        return tuple(self.keys)

    @property
    def user(self) -> str:
        return f"{USER_PREFIX}{next(iter(self.keys.values())).run}"

    @property
    def credentials(self) -> Credentials:
        """The credentials of the clients."""
        security, authority = self.fleet.topology.security, self.fleet.secrets.authority
        return Credentials(
            username=self.user if security.acl else None,
            password=self.password if security.acl else None,
            authority=authority.certificate if security.tls and authority is not None else None,
        )

    def set_up(self, nodes: Iterable[NodeSpec], *, with_script: bool = True) -> None:
        """Load the script and create the user on these nodes."""
        for spec in nodes:
            commands: list[tuple[object, ...]] = []
            if self.fleet.topology.security.acl:
                commands.append(("ACL", "SETUSER", self.user, "reset", "on", f">{self.password}", *self._rights()))
            if with_script:
                commands.append(("SCRIPT", "LOAD", self.script.source))
            with self._link(spec) as link:
                answers = link.pipeline(commands)
            refused = [str(answer) for answer in answers if isinstance(answer, CommandFailed)]
            if refused or (with_script and answers[-1] != self.script.sha1):
                raise Unreachable(f"{spec.name} refuses the drill's script or user: {refused}", hint="see its log")

    def load_release(self, spec: NodeSpec) -> None:
        """Load the shipped scripts that a restarted node lacks."""
        with self._link(spec) as link:
            failure = load_scripts(link, self.fleet.release.scripts)
        if failure is not None:
            raise Unreachable(f"{spec.name} refuses the release: {failure}", hint="see its log")

    def take_down(self) -> tuple[str, ...]:
        """Remove the user and the keys from every node. Return each node where the removal failed, and why."""
        left = []
        for spec in data_nodes(self.fleet.topology):
            try:
                self._remove(spec)
            except (LinkFailure, CommandFailed, TimedOut) as failure:
                left.append(f"{spec.name}: {failure}")
        return tuple(left)

    def residue(self) -> tuple[str, ...]:
        """Users and keys of drills that are still on the fleet. Nodes that do not answer are left out."""
        found = []
        for spec in data_nodes(self.fleet.topology):
            with contextlib.suppress(LinkFailure, CommandFailed), self._link(spec) as link:
                users = [str(user) for user in link.call("ACL", "USERS") if str(user).startswith(USER_PREFIX)]
                found += [f"{spec.name}: user {user}" for user in users]
                if link.call("ROLE")[0] == "master":
                    keys = int(self._on_own_slots(link, "EXISTS"))
                    found += [f"{spec.name}: {keys} keys"] if keys else []
        return tuple(found)

    def copy_ledgers(
        self, folder: RunFolder, moment: str, nodes: Sequence[NodeSpec], clients: Sequence[str], *, bits: bool
    ) -> tuple[str, ...]:
        """Copy each client's ledger from each node to the run's folder. Return the nodes that did not answer."""
        silent = []
        for spec in nodes:
            try:
                with self._readable(spec):
                    self._copy(folder, moment, spec, clients, bits=bits)
            except (OSError, LinkFailure):
                silent.append(spec.name)
        return tuple(silent)

    @contextmanager
    def _link(self, spec: NodeSpec) -> Iterator[NodeLink]:
        """Open a new connection, because Sentinel closes the connections of a node that it promotes."""
        link = self.fleet.connector.separate_link(spec)
        try:
            yield link
        finally:
            link.close()

    @contextmanager
    def _readable(self, spec: NodeSpec) -> Iterator[None]:
        """Inside this context, a cluster node answers reads even while its cluster is down."""
        if self.fleet.topology.kind is not Kind.CLUSTER or self._reads_when_down == "yes":
            yield
            return
        with self._link(spec) as link:
            link.call("CONFIG", "SET", READS_WHEN_DOWN, "yes")
            try:
                yield
            finally:
                link.call("CONFIG", "SET", READS_WHEN_DOWN, self._reads_when_down)

    @property
    def _reads_when_down(self) -> str:
        return dict(self.fleet.topology.redis).get(READS_WHEN_DOWN, "no")

    def _copy(self, folder: RunFolder, moment: str, spec: NodeSpec, clients: Sequence[str], *, bits: bool) -> None:
        admin = self._admin()
        channel = open_channel(NodeAddress.of(spec), admin, timeout_s=CONNECT_S)
        with channel:
            channel.settimeout(READ_S)
            if self.fleet.topology.kind is Kind.CLUSTER:
                call_raw(channel, b"READONLY", entry_bytes=0)
            for client in clients:
                key = self.keys[client].ledger(client).encode()
                words = (b"GET", key) if bits else (b"LRANGE", key, b"0", b"-1")
                raw = call_raw(channel, *words, entry_bytes=_ENTRY_BYTES)
                if raw.startswith(b"-"):
                    raise ConnectionRefusedError(raw.decode("utf-8", "replace").strip())
                folder.ledger(moment, spec.name, client).write_bytes(raw)

    def _admin(self) -> Credentials:
        security, authority = self.fleet.topology.security, self.fleet.secrets.authority
        return Credentials(
            username=User.ADMIN.value if security.acl else None,
            password=self.fleet.secrets.password(User.ADMIN).reveal() if security.acl else None,
            authority=authority.certificate if security.tls and authority is not None else None,
        )

    def _rights(self) -> tuple[str, ...]:
        commands = (*self.script.commands, "evalsha", *_CLIENT_COMMANDS)
        return (
            f"~{next(iter(self.keys.values())).prefix}*",
            "-@all",
            *(f"+{command}" for command in dict.fromkeys(commands)),
        )

    def _remove(self, spec: NodeSpec) -> None:
        """Remove the user and the keys from one node.

        A primary with `min-replicas-to-write` refuses the removal while too few replicas are in sync. The removal is
        then tried again for up to REFUSED_S.
        """

        def is_removed() -> bool:
            try:
                with self._link(spec) as link:
                    self._remove_over(link)
            except CommandFailed as failure:
                if failure.prefix != "NOREPLICAS":
                    raise
                return False
            return True

        what = "enough replicas in sync to take writes"
        wait_until(is_removed, timeout_s=REFUSED_S, clock=self.fleet.clock, what=what, every_s=0.1)

    def _remove_over(self, link: NodeLink) -> None:
        if self.fleet.topology.security.acl:
            link.call("ACL", "DELUSER", self.user)
        if self.fleet.topology.kind is Kind.CLUSTER:
            link.call("CONFIG", "SET", READS_WHEN_DOWN, self._reads_when_down)
        if link.call("ROLE")[0] == "master":
            self._on_own_slots(link, "UNLINK")

    def _on_own_slots(self, link: NodeLink, verb: str) -> int:
        """Send a command for the run's keys, and return the sum of the answers.

        A node answers MOVED for keys of another shard. This answer is ignored.
        """
        done = 0
        for client, keys in self.keys.items():
            [answer] = link.pipeline([(verb, *keys.all([client]))])
            if isinstance(answer, CommandFailed):
                if answer.prefix == "MOVED":
                    continue
                raise answer
            done += int(answer)
        return done
