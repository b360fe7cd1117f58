"""Predicted against measured: a scratch server is filled with users through the real scripts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import psutil

from rlctl.capacity.layout.allocator import Allocator, classes_of
from rlctl.capacity.predict import predict
from rlctl.capacity.request import SLOTS, Question, Server
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
# Entries that one write brings at most: the server answers in time, and its buffers stay small.
_BATCH_ENTRIES = 10_000
_MOST_BATCH = 500
_STEADY_BYTES = 512
# How servers name the second table in DEBUG HTSTATS. Both count in used_memory until the last key has moved.
_REHASHING = "rehashing target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was predicted and what `used_memory` says, in bytes a user."""

    server: Server
    allocator: Allocator
    users: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Predicted against measured; 0.1 is ten per cent too much."""
        return self.predicted / self.measured - 1

    @property
    def is_good(self) -> bool:
        """Whether the prediction can be relied on."""
        return abs(self.error) <= TOLERANCE

    def to_json(self) -> dict[str, object]:
        """As `predict --calibrate` shows it."""
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
    """What a calibration works with."""

    release: Release
    clock: Clock
    check_stop: Callable[[], None]

    def run(self, question: Question, users: int, wanted: Mapping[str, object]) -> Calibration:
        """Measure; Refused where server or allocator is not what was asked for."""
        program = find_any_server(ProcessRunner())
        server = _family(program)
        _check_wanted("--server", wanted.get("server"), server.value)
        asked = replace(question, server=server, users=users)
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

    def _check_memory(self, question: Question) -> None:
        needed, free = predict(question, self.states).total_bytes, psutil.virtual_memory().available
        if needed > free * MOST_OF_MEMORY:
            raise Refused(
                f"{question.users} users would take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free here",
                hint="fewer --calibrate-users (10000 at least) or a lower --limit",
            )

    def _measure(self, scratch: ScratchServer, question: Question) -> float:
        script = next(one for one in self.release.scripts if one.name == question.algorithm)
        keys = key_names(question, question.users + 1)
        # The first use of a command leaves a histogram that no user causes: one call and its removal come before.
        warm_up = next(keys)
        with _linked(scratch) as link:
            _prepare(link, question, self.clock)
            _load(link, script)
            self._fill(link, question, script, iter([warm_up]))
            link.pipeline([("UNLINK", warm_up), ("DBSIZE",)])
        before = self._used(scratch)
        with _linked(scratch) as link:
            _load(link, script)
            self._fill(link, question, script, keys)
            stored = link.call("DBSIZE")
        if stored != question.users:
            raise Unreachable(f"the scratch server holds {stored} of {question.users} keys", hint="try it again")
        return (self._used(scratch) - before) / question.users

    def _fill(self, link: NodeLink, question: Question, script: Script, keys: Iterator[str]) -> None:
        calls = calls_of(question)
        batch = max(1, min(_MOST_BATCH, _BATCH_ENTRIES // question.limit))
        while names := list(islice(keys, batch)):
            self.check_stop()
            commands: list[tuple[object, ...]] = [
                ("EVALSHA", script.sha1, 1, name, *args) for name in names for args in calls
            ]
            if not question.has_ttl:
                commands += [("PERSIST", name) for name in names]
            refused = [reply for reply in link.pipeline(commands) if isinstance(reply, CommandFailed)]
            if refused:
                raise Unreachable(f"the scratch server refuses a call: {refused[0]}", hint="try other values")

    def _used(self, scratch: ScratchServer) -> int:
        """used_memory without scripts, other connections and tables that still move."""
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
    """A connection for a moment; its buffers go with it."""
    link = scratch.link()
    try:
        yield link
    except (LinkFailure, CommandFailed) as failure:
        raise Unreachable(f"the scratch server failed: {failure}", hint="try it again, with fewer users") from failure
    finally:
        link.close()


def _prepare(link: NodeLink, question: Question, clock: Clock) -> None:
    """A cluster of one node takes calls once it owns all slots."""
    if question.slots is None:
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
        raise Unreachable(f"the scratch server does not take the script: {problem}", hint="name another server binary")


def _directives(question: Question) -> dict[str, str]:
    """What changes the layout (the cap, the policy together with maxmemory, the cluster), and DEBUG HTSTATS."""
    found = {
        "zset-max-listpack-entries": str(question.zset_max_listpack_entries),
        "enable-debug-command": "local",
    }
    if not question.shares_integers:
        found |= {"maxmemory": "4096gb", "maxmemory-policy": question.policy.value}
    if question.slots is not None:
        found["cluster-enabled"] = "yes"
    return found


def _family(program: ServerProgram) -> Server:
    server = Server.of(program.flavor, program.version)
    if server is None:
        raise Refused(
            f"{program.path} is {program.flavor} {dotted(program.version)}, for which there is no formula",
            hint=f"name one of {', '.join(one.value for one in Server)} in RLCTL_REDIS_SERVER",
        )
    return server


def _allocator(scratch: ScratchServer) -> Allocator:
    with _linked(scratch) as link:
        found = classes_of(str(link.call("MEMORY", "MALLOC-STATS")))
    if found is None:
        raise Refused("the scratch server does not use jemalloc: there is no formula", hint="name another binary")
    return found


def _check_wanted(option: str, wanted: object, found: str) -> None:
    if wanted is not None and wanted != found:
        raise Refused(
            f"{option} {wanted} was asked for, and the local server is {found}",
            hint=f"leave {option} out, or name another binary in RLCTL_REDIS_SERVER",
        )
