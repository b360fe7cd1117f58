"""Follows the fleet's rules beside the decisions, in a thread: told of news at once, and looking for itself anyway."""

import os
import threading
import time

from rlctl.errors import RlctlError
from rlctl.limiter.core.internal import defects_as_failures
from rlctl.limiter.core.rulebook import POINTER, SUBSCRIBE, RuleBook, fetch
from rlctl.limiter.threads.backend import Backend
from rlctl.limiter.threads.connection import Link
from rlctl.limits.failures import Failure

# A lost message is made good after this long.
LOOK_EVERY_S = 0.7
RETRY_S = 0.3


class RuleWatch:
    """Keeps a rule book up to date; decisions never wait for it."""

    def __init__(self, book: RuleBook, backend: Backend, timeout_s: float) -> None:
        self._book = book
        self._backend = backend
        self._timeout_s = timeout_s
        self._reset()

    def start(self, wait_s: float) -> None:
        """Follow from now on; wait for the first rules, but not for ever."""
        self._thread.start()
        self._first.wait(wait_s)

    def ensure(self) -> None:
        """A fork has no thread that would go on with what the parent began."""
        if self._pid != os.getpid():
            self._reset()
            self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._ended.set()
        ear = self._ear
        if ear is not None:
            ear.wake()
        if self._thread.is_alive():
            self._thread.join(self._timeout_s)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._ended = threading.Event()
        self._first = threading.Event()
        self._link: Link | None = None
        self._ear: Link | None = None
        self._thread = threading.Thread(target=self._run, name="rlctl-limiter rules", daemon=True)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with defects_as_failures:
                    self._follow()
            except (Failure, RlctlError) as failure:
                if not self._ended.is_set():
                    self._book.troubled(failure)
                    self._backend.search()
            self._hang_up()
            # Whoever waits for the first rules has waited for nothing.
            self._first.set()
            self._ended.wait(RETRY_S)

    def _follow(self) -> None:
        """Listen first and look then: what changes in between is heard."""
        keeper = self._backend.rules_keeper()
        self._link = link = self._backend.open_link(keeper)
        self._ear = ear = self._backend.open_link(keeper)
        self._backend.judge_rules(ear.exchange(SUBSCRIBE, self._deadline()), keeper)
        while not self._ended.is_set() and self._backend.rules_keeper() == keeper:
            self._look(link)
            ear.listen(time.monotonic() + LOOK_EVERY_S)

    def _look(self, link: Link) -> None:
        reply = self._backend.judge_rules(link.exchange(POINTER, self._deadline()), link.endpoint)
        version = self._book.news(reply)
        if version is not None:
            found = self._backend.judge_rules(link.exchange(fetch(version), self._deadline()), link.endpoint)
            self._book.learn(version, found)
        self._first.set()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s

    def _hang_up(self) -> None:
        for link in (self._link, self._ear):
            if link is not None:
                link.close()
        self._link = self._ear = None
