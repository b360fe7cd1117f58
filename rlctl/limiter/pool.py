"""The connections to one node, for many threads.

Connections are opened beside the decisions, never by them: a name look-up or a TLS handshake may take longer than a
decision's budget, and what opens too late for one decision serves the next.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable

from rlctl.limiter.failures import Cause, Failure
from rlctl.limiter.link import Link

# A connection that was used this recently is not looked at before it is used again.
_FRESH_S = 0.1
_OPENING_AT_ONCE = 8

Opener = Callable[[], Link]


class Pool:
    """Idle connections, newest first; takes one, waits for one, or has one opened."""

    def __init__(self, name: str, opener: Opener, *, limit: int) -> None:
        self._name = name
        self._opener = opener
        self._limit = limit
        self._reset()

    def take(self, now_s: float, deadline_s: float) -> Link:
        """A connection for this thread alone, until `give` or `drop`; Failure when the budget ends first."""
        if self._pid != os.getpid():
            # A fork shares sockets with its parent: replies would go to whoever reads first.
            self._reset()
        try:
            link = self._idle.pop()
        except IndexError:
            return self._wait(deadline_s)
        if not self._idle and now_s >= self._grow_at_s:
            self._grow(now_s)
        if now_s - link.used_at_s > _FRESH_S and link.is_stale():
            self.drop(link)
            return self.take(now_s, deadline_s)
        return link

    def give(self, link: Link, now_s: float) -> None:
        """Back after a good exchange."""
        link.used_at_s = now_s
        self._idle.append(link)
        if self._closed:
            self.clear()
        elif self._waiting:
            with self._changed:
                self._changed.notify()

    def drop(self, link: Link) -> None:
        """Not to be used again."""
        link.close()
        with self._changed:
            self._open -= 1

    def clear(self) -> None:
        """Hang up on what is idle: the server is gone or no longer the one to ask."""
        while self._idle:
            try:
                self.drop(self._idle.pop())
            except IndexError:
                return

    def close(self) -> None:
        """Hang up, and do not open again."""
        self._closed = True
        self.clear()
        with self._changed:
            self._changed.notify_all()

    def warm(self, count: int) -> None:
        """Have so many connections opened, without waiting."""
        with self._changed:
            self._start_opening(count)

    def wait_until_warm(self, deadline_s: float) -> None:
        """Wait until a connection is there, or none is being opened."""
        with self._changed:
            while not self._idle and self._opening:
                if not self._changed.wait(max(0.0, deadline_s - time.monotonic())):
                    return

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: deque[Link] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._waiting = 0
        self._opening = 0
        self._open = 0
        self._failed = 0
        self._grow_at_s = 0.0
        self._failure: Failure | None = None
        self._closed = False

    def _wait(self, deadline_s: float) -> Link:
        with self._changed:
            # Said before looking: whoever gives back after this look sees somebody waiting.
            self._waiting += 1
            failed_before = self._failed
            try:
                while True:
                    if self._idle:
                        return self._idle.pop()
                    self._raise_if_hopeless(failed_before)
                    self._start_opening(self._waiting)
                    left_s = deadline_s - time.monotonic()
                    if left_s <= 0 or not self._changed.wait(left_s):
                        raise Failure(Cause.NO_CONNECTION, f"{self._name}: no connection within the budget")
            finally:
                self._waiting -= 1

    def _raise_if_hopeless(self, failed_before: int) -> None:
        if self._closed:
            raise Failure(Cause.NO_CONNECTION, f"{self._name}: the limiter is closed")
        if self._failed != failed_before and self._failure is not None:
            raise Failure(self._failure.cause, self._failure.evidence)

    def _grow(self, now_s: float) -> None:
        """One connection more than threads so far, so that the next thread need not wait for its own."""
        with self._changed:
            self._grow_at_s = now_s + _FRESH_S
            self._start_opening(1)

    def _start_opening(self, wanted: int) -> None:
        """Under the lock."""
        room = min(wanted, _OPENING_AT_ONCE) - self._opening
        room = min(room, self._limit - self._open - self._opening)
        for _ in range(room):
            self._opening += 1
            threading.Thread(target=self._open_one, name=f"rlctl-limiter {self._name}", daemon=True).start()

    def _open_one(self) -> None:
        outcome: Link | Failure = Failure(Cause.ERROR, f"{self._name}: opening a connection went wrong")
        try:
            outcome = self._opener()
        except Failure as failure:
            outcome = failure
        finally:
            self._settle(outcome)

    def _settle(self, outcome: Link | Failure) -> None:
        with self._changed:
            self._opening -= 1
            if isinstance(outcome, Failure):
                self._failed += 1
                self._failure = outcome
                self._changed.notify_all()
                return
            self._open += 1
            self._idle.append(outcome)
            self._changed.notify_all()
        if self._closed:
            self.clear()
