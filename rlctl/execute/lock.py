"""Allow one operation at a time on a fleet: a file lock on this machine, and a key in Redis for other machines."""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import LockHeld, Unreachable
from rlctl.execute.journal import current_user
from rlctl.system.files import cannot, open_own, read_damaged, write_all
from rlctl.system.process import ProcessId
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink

LOCK_KEY = "rlctl:{lock}"
TTL_MS = 30_000
REFRESH_S = 10.0
UNKNOWN_OWNER = "an unknown process"
# Only the owner may extend or delete the key, so a script compares the owner and changes the key in one atomic step.
REFRESH = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """The process that holds a lock."""

    user: str
    host: str
    process: ProcessId
    command: str
    since: float

    @classmethod
    def myself(cls, command: str) -> "LockOwner":
        """Describe this process; `command` is the rlctl command that it runs."""
        return cls(
            user=current_user(),
            host=socket.gethostname(),
            process=ProcessId.current(),
            command=command,
            since=time.time(),
        )

    def to_text(self) -> str:
        """Return the stored form, which is also the token that proves ownership of the key."""
        return json.dumps(
            {
                "owner": self.user,
                "host": self.host,
                "pid": self.process.pid,
                "started": self.process.started,
                "command": self.command,
                "since": self.since,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> "LockOwner | None":
        """Parse the stored form; None if another program wrote it."""
        try:
            record = json.loads(text)
            return cls(
                user=str(record["owner"]),
                host=str(record["host"]),
                process=ProcessId(pid=int(record["pid"]), started=float(record["started"])),
                command=str(record["command"]),
                since=float(record["since"]),
            )
        except (ValueError, KeyError, TypeError):
            return None

    def is_known_dead(self) -> bool:
        """Whether the process ran on this machine and has ended; False for processes of other machines."""
        return self.host == socket.gethostname() and not self.process.is_alive()

    def describe(self) -> str:
        """Describe the owner for a message: user, host, pid, command, age of the lock."""
        age = max(0, round(time.time() - self.since))
        return f"{self.user}@{self.host}, pid {self.process.pid}, `rlctl {self.command}`, for {age} s"


@contextmanager
def file_lock(path: Path, owner: LockOwner, *, wait: Callable[[], bool]) -> Iterator[None]:
    """Hold the file lock of this machine; the kernel releases it if the process ends.

    While another process holds the lock, calls `wait` repeatedly; raises LockHeld once `wait` returns False.
    """
    with _opened(path) as handle:
        while not _try_flock(handle):
            if not wait():
                raise _held(read_owner(path))
        _write(path, handle, owner)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)


def read_owner(path: Path) -> LockOwner | None:
    """Read the owner from the lock file; None if it cannot be read or parsed."""
    try:
        return LockOwner.from_text(read_damaged(path))
    except Unreachable:
        return None


def is_free(path: Path) -> bool:
    """Whether no process holds the file lock of this machine right now."""
    with _opened(path) as handle:
        return _try_flock(handle)


class FleetLock:
    """The lock key in Redis, extended in the background while the operation runs.

    `open_links` yields connections to the nodes that may store the key, the likeliest first. Several nodes may store
    it, because a failover during the operation moves the key to another node.
    """

    def __init__(self, open_links: Callable[[], Iterator[NodeLink]], owner: LockOwner) -> None:
        self._open_links = open_links
        self._token = owner.to_text()
        self._ended = threading.Event()
        self._taken_over = False
        self._thread: threading.Thread | None = None

    def acquire(self, *, wait: Callable[[], bool]) -> None:
        """Set the key, or raise LockHeld once `wait` returns False.

        Replaces the key of a process that ran on this machine and has ended.
        """
        with closing(next(self._open_links())) as link:
            while link.call("SET", LOCK_KEY, self._token, "NX", "PX", TTL_MS) is None:
                text = link.call("GET", LOCK_KEY)
                holder = LockOwner.from_text(text) if text else None
                if holder is not None and holder.is_known_dead():
                    link.call("EVAL", RELEASE, 1, LOCK_KEY, text)
                elif not wait():
                    raise _held(holder)
        self._thread = threading.Thread(target=self._refresh, daemon=True, name="fleet-lock")
        self._thread.start()

    @property
    def is_lost(self) -> bool:
        """Whether another operation has taken the lock."""
        return self._taken_over

    def release(self) -> None:
        """Delete the key; if no node answers, the key expires."""
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join()
        self._ask(lambda link: bool(link.call("EVAL", RELEASE, 1, LOCK_KEY, self._token)))

    def _refresh(self) -> None:
        while not self._ended.wait(REFRESH_S):
            self._extend()

    def _extend(self) -> None:
        """Extend the key. The lock is lost only if a node has the key of another owner.

        A node that has no key proves nothing: it may be a lagging replica.
        """
        foreign: list[bool] = []

        def is_kept(link: NodeLink) -> bool:
            kept = bool(link.call("EVAL", REFRESH, 1, LOCK_KEY, self._token, TTL_MS))
            foreign.append(not kept and link.call("EXISTS", LOCK_KEY) == 1)
            return kept

        if self._ask(is_kept):
            self._taken_over = False
        elif foreign:
            self._taken_over = any(foreign)

    def _ask(self, ask: Callable[[NodeLink], bool]) -> bool:
        """Call `ask` for each node until a call returns True; return False if no call does.

        During a failover, the key may be missing on all nodes. The file lock then still keeps out other processes of
        this machine.
        """
        for link in self._open_links():
            with closing(link), suppress(LinkFailure, CommandFailed):
                if ask(link):
                    return True
        return False


def _try_flock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        handle = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    except OSError as failure:
        raise cannot("open the lock file", path, failure) from failure
    try:
        yield handle
    finally:
        os.close(handle)


def _write(path: Path, handle: int, owner: LockOwner) -> None:
    try:
        os.ftruncate(handle, 0)
        write_all(handle, owner.to_text())
    except OSError as failure:
        raise cannot("write the lock file", path, failure) from failure


def _held(holder: LockOwner | None) -> LockHeld:
    owner = holder.describe() if holder else UNKNOWN_OWNER
    return LockHeld(
        f"the fleet is locked by {owner}",
        hint="wait with --wait, or see `rlctl unlock`; a lock expires at most 30 s after its owner has ended",
    )
