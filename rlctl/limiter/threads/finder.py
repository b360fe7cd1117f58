"""Looks up who is in charge beside the decisions: one look-up at a time, and not too often."""

import os
import threading
import time
from collections.abc import Callable


class Finder:
    """Runs `find` in a thread of its own when asked to."""

    def __init__(self, find: Callable[[], None], least_s: float) -> None:
        self._find = find
        self._least_s = least_s
        self._reset()

    def request(self) -> None:
        """Look up now, unless that is being done or was done a moment ago."""
        if self._pid != os.getpid():
            # A fork has no thread that would ever finish what the parent began.
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
            # No more threads may be started now; without this no later look-up would ever start.
            self._done.set()
            raise

    def wait(self, seconds: float) -> None:
        """Wait for the end of the look-up that is running."""
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
