"""Compares a prediction with a scratch server, which rlctl fills with users through the real scripts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import psutil

from rlctl.capacity.layout.allocator import Allocator, classes_of
from rlctl.capacity.predict import predict
from rlctl.capacity.request import SLOTS, MemoryRequest, ServerVersion
from rlctl.capacity.synthetic_users import calls_of, key_names
from rlctl.errors import Refused, Unreachable
from rlctl.limits.release import Release, Script
from rlctl.observe.info import ServerInfo, cluster_info
from rlctl.observe.parse import required
from rlctl.scripts.loader import load_scripts
from rlctl.system.clock import Clock, wait_until
from rlctl.system.process import ProcessRunner
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.system.scratch_server import ScratchServer, scratch_server
from rlctl.targets.server_program import ServerProgram, dotted, find_any_server

TOLERANCE = 0.10
MOST_OF_MEMORY = 0.5
SETTLE_S = 30.0
# The most entries in one pipeline, so that the server answers in time and its buffers are small.
_BATCH_ENTRIES = 10_000
_MOST_BATCH = 500
_STEADY_BYTES = 512
# DEBUG HTSTATS lists a second table while the server moves keys to it. Because used_memory includes both tables, a
# measurement waits until only one table is left.
_REHASHING = "rehashing target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Predicted and measured bytes for each user."""

    server: ServerVersion
    allocator: Allocator
    users: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """The relative error; 0.1 for a prediction that is 10 % too high."""
        return self.predicted / self.measured - 1

    @property
    def is_good(self) -> bool:
        """Whether the error is within the tolerance."""
        return abs(self.error) <= TOLERANCE

    def to_json(self) -> dict[str, object]:
        return {
            "server": self.server.value,
            "allocator": self.allocator.value,
            "users": self.users,
            "predicted_bytes_per_user": self.predicted,
            "measured_bytes_per_user": self.measured,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrator:
    """Compares predictions with the local server binary."""

    release: Release
    clock: Clock
    check_stop: Callable[[], None]

    def run(self, request: MemoryRequest, users: int, wanted: Mapping[str, object]) -> Calibration:
        """Measure `users` users. Raises Refused if the server version or allocator in `wanted` is not the local one."""
        program = find_any_server(ProcessRunner())
        server = _family(program)
        _check_wanted("--server", wanted.get("server"), server.value)
        asked = replace(request, server=server, users=users)
        self._check_memory(asked)
        with scratch_server(program.path, _directives(asked), self.clock) as scratch:
            allocator = _allocator(scratch)
            _check_wanted("--allocator", wanted.get("allocator"), allocator.value)
            asked = replace(asked, allocator=allocator)
            measured = self._measure(scratch, asked)
        return Calibration(
            server=server,
            allocator=allocator,
            users=users,
            predicted=predict(asked, self.states).bytes_per_user,
            measured=measured,
        )

    @property
    def states(self) -> Mapping[str, int]:
        """The state format of each script."""
        return {script.name: script.state for script in self.release.scripts}

    def _check_memory(self, request: MemoryRequest) -> None:
        needed, free = predict(request, self.states).total_bytes, psutil.virtual_memory().available
        if needed > free * MOST_OF_MEMORY:
            raise Refused(
                f"{request.users} users would take {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free here",
                hint="use fewer --calibrate-users (10000 at least) or a lower --limit",
            )

    def _measure(self, scratch: ScratchServer, request: MemoryRequest) -> float:
        script = next(one for one in self.release.scripts if one.name == request.algorithm)
        keys = key_names(request, request.users + 1)
        # The first use of a command allocates a latency histogram, so one key is added and removed before the first
        # reading of used_memory.
        warm_up = next(keys)
        with _linked(scratch) as link:
            _prepare(link, request, self.clock)
            _load(link, script)
            self._fill(link, request, script, iter([warm_up]))
            link.pipeline([("UNLINK", warm_up), ("DBSIZE",)])
        before = self._used(scratch)
        with _linked(scratch) as link:
            _load(link, script)
            self._fill(link, request, script, keys)
            stored = link.call("DBSIZE")
        if stored != request.users:
            raise Unreachable(f"the scratch server holds {stored} of {request.users} keys", hint="run it again")
        return (self._used(scratch) - before) / request.users

    def _fill(self, link: NodeLink, request: MemoryRequest, script: Script, keys: Iterator[str]) -> None:
        calls = calls_of(request)
        batch = max(1, min(_MOST_BATCH, _BATCH_ENTRIES // request.limit))
        while names := list(islice(keys, batch)):
            self.check_stop()
            commands: list[tuple[object, ...]] = [
                ("EVALSHA", script.sha1, 1, name, *args) for name in names for args in calls
            ]
            if not request.has_ttl:
                commands += [("PERSIST", name) for name in names]
            refused = [reply for reply in link.pipeline(commands) if isinstance(reply, CommandFailed)]
            if refused:
                raise Unreachable(f"the scratch server refused a call: {refused[0]}", hint="use other values")

    def _used(self, scratch: ScratchServer) -> int:
        """Flush the scripts, wait until other clients are gone and tables are not rehashing, and return used_memory."""
        with _linked(scratch) as link:
            link.call("SCRIPT", "FLUSH", "SYNC")
        readings = [0]

        def is_steady() -> bool:
            self.check_stop()
            with _linked(scratch) as link:
                is_rehashing = _REHASHING in str(link.call("DEBUG", "HTSTATS", 0))
                info = ServerInfo(link.call("INFO", "memory", "clients"))
            readings.append(required(info.used_bytes, "used_memory"))
            is_alone = info.clients == 1
            return is_alone and not is_rehashing and abs(readings[-1] - readings[-2]) <= _STEADY_BYTES

        wait_until(is_steady, timeout_s=SETTLE_S, clock=self.clock, what="the scratch server settles", every_s=0.15)
        return readings[-1]


@contextmanager
def _linked(scratch: ScratchServer) -> Iterator[NodeLink]:
    """Open a connection and close it soon, because the server frees a connection's buffers only then."""
    link = scratch.link()
    try:
        yield link
    except (LinkFailure, CommandFailed) as failure:
        raise Unreachable(
            f"the scratch server failed: {failure}", hint="run it again with fewer --calibrate-users"
        ) from failure
    finally:
        link.close()


def _prepare(link: NodeLink, request: MemoryRequest, clock: Clock) -> None:
    """Assign all slots to a cluster of one node, because a node without slots refuses calls."""
    if request.slots is None:
        return
    link.call("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
    wait_until(
        lambda: cluster_info(link.call("CLUSTER", "INFO")).is_ok,
        timeout_s=SETTLE_S,
        clock=clock,
        what="the scratch server's cluster is ok",
    )


def _load(link: NodeLink, script: Script) -> None:
    problem = load_scripts(link, [script])
    if problem is not None:
        raise Unreachable(
            f"the scratch server refused the script: {problem}", hint="set RLCTL_REDIS_SERVER to another binary"
        )


def _directives(request: MemoryRequest) -> dict[str, str]:
    """Directives that change the memory layout, and permission for DEBUG HTSTATS."""
    found = {
        "zset-max-listpack-entries": str(request.zset_max_listpack_entries),
        "enable-debug-command": "local",
    }
    if not request.shares_integers:
        found |= {"maxmemory": "4096gb", "maxmemory-policy": request.policy.value}
    if request.slots is not None:
        found["cluster-enabled"] = "yes"
    return found


def _family(program: ServerProgram) -> ServerVersion:
    server = ServerVersion.of(program.flavor, program.version)
    if server is None:
        raise Refused(
            f"{program.path} is {program.flavor} {dotted(program.version)}, and rlctl has no formula for this version",
            hint=f"set RLCTL_REDIS_SERVER to a binary of one of {', '.join(one.value for one in ServerVersion)}",
        )
    return server


def _allocator(scratch: ScratchServer) -> Allocator:
    with _linked(scratch) as link:
        found = classes_of(str(link.call("MEMORY", "MALLOC-STATS")))
    if found is None:
        raise Refused(
            "the scratch server does not use jemalloc, and rlctl has formulas for jemalloc only",
            hint="set RLCTL_REDIS_SERVER to another binary",
        )
    return found


def _check_wanted(option: str, wanted: object, found: str) -> None:
    if wanted is not None and wanted != found:
        raise Refused(
            f"{option} {wanted} was requested, but the local server is {found}",
            hint=f"leave {option} out, or set RLCTL_REDIS_SERVER to another binary",
        )
