"""The fleet as a bench holds it: connections to every primary, keys of its own, and their removal."""

import itertools
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rlctl.bench.stats import NOTHING_SPENT, Spent, command_spent
from rlctl.errors import NotFound, Refused, Unreachable
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.limiter.core.routes import slot_of
from rlctl.limiter.core.settings import Endpoint, read_settings
from rlctl.limiter.threads.connection import Connection, tls_context
from rlctl.limits.failures import Failure
from rlctl.observe.info import ServerInfo
from rlctl.observe.model import NodeFacts, Observed, SlotRange
from rlctl.observe.parse import required
from rlctl.operations.env import As, connection
from rlctl.operations.script_check import serving
from rlctl.operations.script_drift import missing
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink, Reply
from rlctl.topology.model import MIB
from rlctl.topology.nodes import NodeName, all_nodes

TIMEOUT_S = 5.0
# All keys of a bench take less; a server that is nearly full would evict other people's keys for them.
HEAD_ROOM_BYTES = 16 * MIB
_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Primary:
    """A node that decides: connections as the limiter, as the admin, and one beside the load to ask and to tidy up."""

    name: NodeName
    slots: tuple[SlotRange, ...]
    limiter: Connection
    admin: Connection
    control: NodeLink

    def link(self, *, decisions: bool) -> Connection:
        """Decisions are the limiter's, who may call nothing else."""
        return self.limiter if decisions else self.admin

    def owns(self, tag: bytes) -> bool:
        """Whether keys with this hash tag live here; behind Sentinel all do."""
        slot = slot_of(tag)
        return not self.slots or any(first <= slot <= last for first, last in self.slots)

    def spent(self, command: str) -> Spent:
        """What the server has counted for a command so far."""
        return command_spent(ServerInfo(self._ask("INFO", "commandstats")), command)

    def cpu_s(self) -> float:
        """Processor time of the server's main thread and helpers so far."""
        return required(ServerInfo(self._ask("INFO", "cpu")).cpu_s, "used_cpu_sys")

    def head_room_bytes(self) -> int | None:
        """What fits below maxmemory; None where there is no maxmemory."""
        memory = ServerInfo(self._ask("INFO", "memory"))
        limit_bytes = required(memory.maxmemory_bytes, "maxmemory")
        return limit_bytes - required(memory.used_bytes, "used_memory") if limit_bytes else None

    def now_us(self) -> int:
        """The server's clock, which decides."""
        seconds, micros = self._ask("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def _ask(self, *command: object) -> Reply:
        try:
            return self.control.call(*command)
        except (LinkFailure, CommandFailed) as failure:
            raise Unreachable(f"{self.name}: {failure}", hint="`rlctl status` shows how the fleet stands") from failure


@dataclass(slots=True, kw_only=True)
class Session:
    """Primaries, and every key that was made on them."""

    primaries: Sequence[Primary]
    server: str
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    _made: dict[NodeName, set[bytes]] = field(default_factory=dict)
    _tags: dict[NodeName, list[bytes]] = field(default_factory=dict)

    def tags(self, primary: Primary, count: int) -> list[bytes]:
        """So many identities on this primary; the run's number keeps them apart from anyone's."""
        known = self._tags.setdefault(primary.name, [])
        if len(known) < count:
            names = (f"rlctl-bench-{self.run_id}-{number}".encode() for number in itertools.count())
            known[:] = itertools.islice(filter(primary.owns, names), count)
        return known[:count]

    def made(self, primary: Primary, keys: Iterable[bytes]) -> None:
        """Remember keys before they are written."""
        self._made.setdefault(primary.name, set()).update(keys)

    def spent(self, command: str) -> Spent:
        """The sum over all primaries."""
        return sum((primary.spent(command) for primary in self.primaries), NOTHING_SPENT)

    def remove_keys(self, progress: Progress) -> None:
        """Unlink what was made, key by key: nothing is searched for, so that nothing else can be hit."""
        for primary in self.primaries:
            keys = sorted(self._made.pop(primary.name, ()))
            left = sum(_unlink(primary.control, keys[at : at + _AT_ONCE]) for at in range(0, len(keys), _AT_ONCE))
            if left:
                progress.note(f"{primary.name}: {left} keys of the bench could not be removed; they end by themselves")


@contextmanager
def bench_session(fleet: FleetSession, progress: Progress) -> Iterator[Session]:
    """Connect to every serving primary; what the bench wrote is removed however it ends."""
    observed = fleet.observe()
    if not observed.exists:
        raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="`rlctl deploy` makes it")
    primaries: list[Primary] = []
    session = Session(primaries=primaries, server=_server(fleet, observed))
    try:
        for node in serving(fleet, observed):
            _check_scripts(fleet, node)
            primaries.append(_connect(fleet, node))
        if not primaries:
            raise Unreachable("no primary serves decisions", hint="`rlctl status` shows why, `rlctl deploy` repairs")
        _check_head_room(primaries)
        yield session
    except Failure as failure:
        raise Unreachable(
            f"a node failed while it was measured: {failure.evidence}", hint="`rlctl status` shows how the fleet stands"
        ) from failure
    finally:
        session.remove_keys(progress)
        for primary in primaries:
            primary.limiter.close()
            primary.admin.close()


def now_s() -> float:
    """The clock of all that is timed."""
    return time.perf_counter()


def _server(fleet: FleetSession, observed: Observed) -> str:
    """Flavor and versions, as they would stand beside a figure."""
    versions = sorted({node.version for node in serving(fleet, observed) if node.version})
    return f"{fleet.topology.engine.flavor} {', '.join(versions)}"


def _connect(fleet: FleetSession, node: NodeFacts) -> Primary:
    spec = next(spec for spec in all_nodes(fleet.topology) if spec.name == node.name)
    where = Endpoint(*fleet.target.route(spec))
    links = [_open(fleet, who, where) for who in (As.LIMITER, As.ADMIN)]
    return Primary(
        name=node.name, slots=node.slots, limiter=links[0], admin=links[1], control=fleet.connector.link(spec)
    )


def _open(fleet: FleetSession, who: As, where: Endpoint) -> Connection:
    login = read_settings(connection(fleet, who).to_json()).login
    return Connection.open(where, login, tls_context(login), TIMEOUT_S)


def _check_scripts(fleet: FleetSession, node: NodeFacts) -> None:
    lacking = missing(fleet.release, node)
    if lacking:
        raise NotFound(
            f"{node.name} lacks {', '.join(script.name for script in lacking)}",
            hint="`rlctl scripts apply` loads the release",
        )


def _check_head_room(primaries: Sequence[Primary]) -> None:
    for primary in primaries:
        room = primary.head_room_bytes()
        if room is not None and room < HEAD_ROOM_BYTES:
            raise Refused(
                f"{primary.name} is nearly full: {room} bytes below its maxmemory, a bench wants {HEAD_ROOM_BYTES}",
                hint="its keys could push out others; make room first",
            )


def _unlink(link: NodeLink, keys: Sequence[bytes]) -> int:
    """How many of them are still there."""
    try:
        replies = link.pipeline([("UNLINK", key) for key in keys])
    except LinkFailure:
        return len(keys)
    return sum(isinstance(reply, CommandFailed) for reply in replies)
