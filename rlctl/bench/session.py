"""A bench session: connections to every primary, the keys of the bench, and their removal."""

import itertools
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rlctl.bench.stats import NO_COST, CommandCost, command_cost
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
from rlctl.operations.env import EnvUser, connection
from rlctl.operations.script_check import serving
from rlctl.operations.script_drift import missing
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink, Reply
from rlctl.topology.model import MIB
from rlctl.topology.nodes import NodeName, all_nodes

TIMEOUT_S = 5.0
# The keys of a bench take less memory than this. With less free memory, they could evict keys of services.
HEADROOM_BYTES = 16 * MIB
_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPrimary:
    """A primary and its connections.

    `limiter` and `admin` send the load, logged in as the users with these names. `control` sends all other commands.
    """

    name: NodeName
    slots: tuple[SlotRange, ...]
    limiter: Connection
    admin: Connection
    control: NodeLink

    def link(self, *, decisions: bool) -> Connection:
        """The connection for decisions (user limiter), or for other calls (user admin)."""
        return self.limiter if decisions else self.admin

    def owns(self, tag: bytes) -> bool:
        """Whether this primary owns keys with the hash tag; behind Sentinel it owns all keys."""
        slot = slot_of(tag)
        return not self.slots or any(first <= slot <= last for first, last in self.slots)

    def spent(self, command: str) -> CommandCost:
        return command_cost(ServerInfo(self._ask("INFO", "commandstats")), command)

    def cpu_s(self) -> float:
        """Processor time of all threads of the server since its start."""
        return required(ServerInfo(self._ask("INFO", "cpu")).cpu_s, "used_cpu_sys")

    def headroom_bytes(self) -> int | None:
        """Bytes left below maxmemory; None without maxmemory."""
        memory = ServerInfo(self._ask("INFO", "memory"))
        limit_bytes = required(memory.maxmemory_bytes, "maxmemory")
        return limit_bytes - required(memory.used_bytes, "used_memory") if limit_bytes else None

    def now_us(self) -> int:
        """Time of the server's clock, which the scripts use, in microseconds."""
        seconds, micros = self._ask("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def _ask(self, *command: object) -> Reply:
        try:
            return self.control.call(*command)
        except (LinkFailure, CommandFailed) as failure:
            raise Unreachable(
                f"{self.name}: {failure}", hint="`rlctl status` shows the state of the fleet"
            ) from failure


@dataclass(slots=True, kw_only=True)
class Session:
    """The primaries, and every key that the bench wrote to them."""

    primaries: Sequence[BenchPrimary]
    server: str
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    _written: dict[NodeName, set[bytes]] = field(default_factory=dict)
    _tags: dict[NodeName, list[bytes]] = field(default_factory=dict)

    def tags(self, primary: BenchPrimary, count: int) -> list[bytes]:
        """Return `count` hash tags whose keys are on this primary. The run id makes them unique."""
        known = self._tags.setdefault(primary.name, [])
        if len(known) < count:
            names = (f"rlctl-bench-{self.run_id}-{number}".encode() for number in itertools.count())
            known[:] = itertools.islice(filter(primary.owns, names), count)
        return known[:count]

    def will_write(self, primary: BenchPrimary, keys: Iterable[bytes]) -> None:
        """Record keys that are about to be written, so that `remove_keys` removes them."""
        self._written.setdefault(primary.name, set()).update(keys)

    def spent(self, command: str) -> CommandCost:
        """The cost of a command on all primaries."""
        return sum((primary.spent(command) for primary in self.primaries), NO_COST)

    def remove_keys(self, progress: Progress) -> None:
        """Unlink the recorded keys by name, because a search by pattern could match keys of services."""
        for primary in self.primaries:
            keys = sorted(self._written.pop(primary.name, ()))
            left = sum(_unlink(primary.control, keys[at : at + _AT_ONCE]) for at in range(0, len(keys), _AT_ONCE))
            if left:
                progress.note(
                    f"{primary.name}: {left} keys of the bench could not be removed; they expire within minutes"
                )


@contextmanager
def bench_session(fleet: FleetSession, progress: Progress) -> Iterator[Session]:
    """Connect to every serving primary; remove the keys of the bench on every exit."""
    observed = fleet.observe()
    if not observed.exists:
        raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="`rlctl deploy` deploys it")
    primaries: list[BenchPrimary] = []
    session = Session(primaries=primaries, server=_server(fleet, observed))
    try:
        for node in serving(fleet, observed):
            _check_scripts(fleet, node)
            primaries.append(_connect(fleet, node))
        if not primaries:
            raise Unreachable("no primary serves decisions", hint="`rlctl status` shows why, `rlctl deploy` repairs")
        _check_headroom(primaries)
        yield session
    except Failure as failure:
        raise Unreachable(
            f"a node failed during the measurement: {failure.evidence}",
            hint="`rlctl status` shows the state of the fleet",
        ) from failure
    finally:
        session.remove_keys(progress)
        for primary in primaries:
            primary.limiter.close()
            primary.admin.close()


def now_s() -> float:
    """Seconds of the performance counter, the clock for all measured times."""
    return time.perf_counter()


def _server(fleet: FleetSession, observed: Observed) -> str:
    """Flavor and versions of the serving primaries, such as `redis 8.0.2`."""
    versions = sorted({node.version for node in serving(fleet, observed) if node.version})
    return f"{fleet.topology.engine.flavor} {', '.join(versions)}"


def _connect(fleet: FleetSession, node: NodeFacts) -> BenchPrimary:
    spec = next(spec for spec in all_nodes(fleet.topology) if spec.name == node.name)
    where = Endpoint(*fleet.target.route(spec))
    links = [_open(fleet, who, where) for who in (EnvUser.LIMITER, EnvUser.ADMIN)]
    return BenchPrimary(
        name=node.name, slots=node.slots, limiter=links[0], admin=links[1], control=fleet.connector.link(spec)
    )


def _open(fleet: FleetSession, who: EnvUser, where: Endpoint) -> Connection:
    login = read_settings(connection(fleet, who).to_json()).login
    return Connection.open(where, login, tls_context(login), TIMEOUT_S)


def _check_scripts(fleet: FleetSession, node: NodeFacts) -> None:
    lacking = missing(fleet.release, node)
    if lacking:
        raise NotFound(
            f"{node.name} lacks {', '.join(script.name for script in lacking)}",
            hint="`rlctl scripts apply` loads the release",
        )


def _check_headroom(primaries: Sequence[BenchPrimary]) -> None:
    for primary in primaries:
        room = primary.headroom_bytes()
        if room is not None and room < HEADROOM_BYTES:
            raise Refused(
                f"{primary.name} is nearly full: {room // MIB}mb are left, and a bench needs {HEADROOM_BYTES // MIB}mb",
                hint="the keys of the bench could evict other keys; free memory or raise maxmemory first",
            )


def _unlink(link: NodeLink, keys: Sequence[bytes]) -> int:
    """Unlink keys. Return the number of keys that could not be unlinked."""
    try:
        replies = link.pipeline([("UNLINK", key) for key in keys])
    except LinkFailure:
        return len(keys)
    return sum(isinstance(reply, CommandFailed) for reply in replies)
