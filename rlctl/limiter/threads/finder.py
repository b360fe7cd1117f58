"""Looks up the fleet's primaries in a background thread.

Only one look-up runs at a time, and two look-ups have a minimum interval between them.
"""

import os
import threading
import time
from collections.abc import Callable


class Finder:
    """Runs `find` in a background thread on request, at least `least_s` seconds apart."""

    def __init__(self, find: Callable[[], None], least_s: float) -> None:
        self._find = find
        self._least_s = least_s
        self._reset()

    def request(self) -> None:
        """Start a look-up, unless a look-up is running or ended less than `least_s` seconds ago."""
        if self._pid != os.getpid():
            # A forked child does not inherit the parent's look-up thread, so a look-up that was running would never end
            # in the child.
            self._reset()
        if time.monotonic() < self._not_before_s:
            return
        with self._lock:
            if not self._done.is_set():
                return
            self._done.clear()
        try:
            threading.Thread(target=self._run, name="rlctl-limiter look-up", daemon=True).start()
        except RuntimeError:
            # The process cannot start more threads now. Without this call, the failed look-up would seem to be running,
            # and later requests would never start a look-up.
            self._done.set()
            raise

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` for the running look-up to end."""
        self._done.wait(max(0.0, seconds))

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._done.set()
        self._not_before_s = 0.0

    def _run(self) -> None:
        try:
            self._find()
        finally:
            self._not_before_s = time.monotonic() + self._least_s
            self._done.set()
