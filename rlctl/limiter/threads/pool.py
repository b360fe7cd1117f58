"""The pool of connections to one node, for many threads.

Background threads open the connections, because a name look-up or a TLS handshake may take longer than a decision's
budget. If a connection opens too late for one decision, a later decision uses it.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable

from rlctl.limiter.core.internal import defects_as_failures, internal
from rlctl.limiter.threads.connection import Connection
from rlctl.limits.failures import Cause, Failure

# A connection that was used this recently is not checked for staleness.
_FRESH_S = 0.1
_OPENING_AT_ONCE = 8
# The longest wait of a thread for a connection while the node answers, as a multiple of the time for one exchange.
_MOST_WINDOWS = 32
# A thread that wakes up this much too late had to wait for the interpreter lock.
_LATE_S = 0.001

Opener = Callable[[], Connection]


class _Waiter:
    """A thread that waits in the queue for a connection."""

    __slots__ = ("_gate", "failure", "link")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self.link: Connection | None = None
        self.failure = Failure(Cause.NO_CONNECTION, "")

    def is_served(self, seconds: float) -> bool:
        """Wait at most `seconds` for `serve` or `end`; False if neither was called."""
        return self._gate.acquire(timeout=max(0.0, seconds))

    def serve(self, link: Connection) -> None:
        """End the wait; the waiting thread gets this connection."""
        self.link = link
        self._gate.release()

    def end(self, failure: Failure) -> None:
        """End the wait; the waiting thread raises this failure."""
        self.failure = failure
        self._gate.release()


class Pool:
    """The connections to one node, at most `limit`, and the threads that wait for a connection."""

    def __init__(self, name: str, opener: Opener, *, limit: int) -> None:
        self._name = name
        self._opener = opener
        self._limit = limit
        self._reset()

    def take(self, now_s: float, deadline_s: float) -> Connection:
        """Take a connection, to be returned by `give` or `drop`; Failure if no connection is free in time."""
        if self._pid != os.getpid():
            # A forked child shares its parent's sockets and must not use them, because each process would read the
            # other's replies.
            self._reset()
        try:
            link = self._idle.pop()
        except IndexError:
            return self._wait(now_s, deadline_s)
        if not self._idle and now_s >= self._grow_at_s:
            self._grow(now_s)
        if now_s - link.used_at_s > _FRESH_S and link.is_stale():
            self.drop(link)
            return self.take(now_s, deadline_s)
        return link

    def give(self, link: Connection, now_s: float) -> None:
        """Return a connection after a successful exchange."""
        link.used_at_s = now_s
        self._idle.append(link)
        if self._closed:
            self.clear()
        elif self._line:
            with self._changed:
                self._serve()

    def drop(self, link: Connection) -> None:
        """Close a connection that must not be used again."""
        link.close()
        with self._changed:
            self._open -= 1
            self._start_opening(len(self._line))

    def clear(self) -> None:
        """Close all idle connections, because the server is gone or is no longer a primary."""
        while self._idle:
            try:
                self.drop(self._idle.pop())
            except IndexError:
                return

    def close(self) -> None:
        """Close all connections; later calls of `take` raise Failure."""
        self._closed = True
        self.clear()
        with self._changed:
            self._end_waits(Failure(Cause.NO_CONNECTION, f"{self._name}: the limiter is closed"))
            self._changed.notify_all()

    def warm(self, count: int) -> None:
        """Open `count` connections in the background."""
        with self._changed:
            self._start_opening(count)

    def wait_until_warm(self, deadline_s: float) -> None:
        """Wait until a connection is idle, all attempts to open one have failed, or the deadline has passed."""
        with self._changed:
            while not self._idle and self._opening:
                if not self._changed.wait(max(0.0, deadline_s - time.monotonic())):
                    return

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: deque[Connection] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._line: deque[_Waiter] = deque()
        self._served_s = 0.0
        self._opening = 0
        self._open = 0
        self._grow_at_s = 0.0
        self._closed = False

    def _wait(self, now_s: float, deadline_s: float) -> Connection:
        waiter = _Waiter()
        with self._changed:
            if self._closed:
                raise Failure(Cause.NO_CONNECTION, f"{self._name}: the limiter is closed")
            # Add the waiter to the queue before `_serve`: a thread that returns a connection after that call finds the
            # waiter.
            self._line.append(waiter)
            self._serve()
            self._start_opening(len(self._line))
        until_s = deadline_s
        while not waiter.is_served(until_s - time.monotonic()):
            with self._changed:
                until_s = self._extended_wait(waiter, until_s, now_s, deadline_s - now_s)
        if waiter.link is None:
            failure = waiter.failure
            raise Failure(failure.cause, failure.evidence)
        return waiter.link

    def _extended_wait(self, waiter: "_Waiter", until_s: float, began_s: float, window_s: float) -> float:
        """Extend the wait of a thread for a connection, and return its new end.

        Ends the wait instead if the node is slow, or after `_MOST_WINDOWS` times the window.

        The wait continues only while this process is saturated. The process is saturated if other threads return
        connections, which shows that the node answers, or if this thread woke up late because of the interpreter lock.
        """
        now_s = time.monotonic()
        is_saturated = self._open > 0 and (now_s - until_s > _LATE_S or now_s - self._served_s < window_s)
        if waiter in self._line and not (is_saturated and now_s < began_s + _MOST_WINDOWS * window_s):
            self._line.remove(waiter)
            waiter.end(self._too_late(is_saturated=is_saturated))
        return now_s + window_s

    def _too_late(self, *, is_saturated: bool) -> Failure:
        if is_saturated:
            return Failure(Cause.SATURATED, f"{self._name}: more threads than this process can serve")
        return Failure(Cause.NO_CONNECTION, f"{self._name}: no connection within the budget")

    def _serve(self) -> None:
        """Give idle connections to the threads that have waited longest. The caller must hold the lock."""
        while self._line and self._idle:
            try:
                link = self._idle.pop()
            except IndexError:
                return
            self._served_s = time.monotonic()
            self._line.popleft().serve(link)

    def _end_waits(self, failure: Failure) -> None:
        """The caller must hold the lock."""
        while self._line:
            self._line.popleft().end(failure)

    def _grow(self, now_s: float) -> None:
        """Open a spare connection, so that the next thread does not have to wait."""
        with self._changed:
            self._grow_at_s = now_s + _FRESH_S
            self._start_opening(1)

    def _start_opening(self, wanted: int) -> None:
        """The caller must hold the lock."""
        room = min(wanted, _OPENING_AT_ONCE) - self._opening
        room = min(room, self._limit - self._open - self._opening)
        for _ in range(room):
            self._opening += 1
            try:
                threading.Thread(target=self._open_one, name=f"rlctl-limiter {self._name}", daemon=True).start()
            except RuntimeError as error:
                # The process cannot start more threads now, so no waiter may wait for this connection: it will not be
                # opened.
                self._not_opened(internal(error))
                return

    def _open_one(self) -> None:
        outcome: Connection | Failure
        try:
            with defects_as_failures:
                outcome = self._opener()
        except Failure as failure:
            outcome = failure
        self._settle(outcome)

    def _settle(self, outcome: Connection | Failure) -> None:
        with self._changed:
            if isinstance(outcome, Failure):
                self._not_opened(outcome)
                return
            self._opening -= 1
            self._open += 1
            self._idle.append(outcome)
            self._serve()
            self._start_opening(len(self._line))
            self._changed.notify_all()
        if self._closed:
            self.clear()

    def _not_opened(self, failure: Failure) -> None:
        """The caller must hold the lock."""
        self._opening -= 1
        self._end_waits(failure)
        self._changed.notify_all()
