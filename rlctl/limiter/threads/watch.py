"""Follows the fleet's rules in a background thread: by a subscription, and by polling in case a message is lost."""

import os
import threading
import time

from rlctl.errors import RlctlError
from rlctl.limiter.core.internal import defects_as_failures
from rlctl.limiter.core.rulebook import POINTER, SUBSCRIBE, RuleBook, read_command
from rlctl.limiter.threads.backend import Backend
from rlctl.limiter.threads.connection import Connection
from rlctl.limits.failures import Failure

# If the message about a change is lost, polling finds the change within this time.
POLL_EVERY_S = 0.7
RETRY_S = 0.3


class RuleWatch:
    """Keeps a rule book up to date in a background thread; decisions never wait for it."""

    def __init__(self, book: RuleBook, backend: Backend, timeout_s: float) -> None:
        self._book = book
        self._backend = backend
        self._timeout_s = timeout_s
        self._reset()

    def start(self, wait_s: float) -> None:
        """Start to follow the rules, and wait at most `wait_s` seconds for the first revision."""
        self._thread.start()
        self._first.wait(wait_s)

    def ensure(self) -> None:
        """Start the thread again after a fork: a child process does not inherit the thread."""
        if self._pid != os.getpid():
            self._reset()
            self._thread.start()

    def close(self) -> None:
        """Stop following the rules."""
        self._ended.set()
        subscription = self._subscription
        if subscription is not None:
            subscription.wake()
        if self._thread.is_alive():
            self._thread.join(self._timeout_s)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._ended = threading.Event()
        self._first = threading.Event()
        self._link: Connection | None = None
        self._subscription: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="rlctl-limiter rules", daemon=True)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with defects_as_failures:
                    self._follow()
            except (Failure, RlctlError) as failure:
                if not self._ended.is_set():
                    self._book.reading_failed(failure)
                    self._backend.refresh_routes()
            self._disconnect()
            # After the first failure, `start` must stop waiting.
            self._first.set()
            self._ended.wait(RETRY_S)

    def _follow(self) -> None:
        """Follow the rules until another node stores them.

        Subscribes before the first read of the rules. If the subscription began after the read, the limiter would miss
        a change that happens between the read and the subscription.
        """
        node = self._backend.rules_node()
        self._link = link = self._backend.open_connection(node)
        self._subscription = subscription = self._backend.open_connection(node)
        self._backend.check_rules_reply(subscription.exchange(SUBSCRIBE, self._deadline()), node)
        while not self._ended.is_set() and self._backend.rules_node() == node:
            self._poll(link)
            subscription.listen(time.monotonic() + POLL_EVERY_S)

    def _poll(self, link: Connection) -> None:
        reply = self._backend.check_rules_reply(link.exchange(POINTER, self._deadline()), link.endpoint)
        version = self._book.newer_version(reply)
        if version is not None:
            document = link.exchange(read_command(version), self._deadline())
            self._book.learn(version, self._backend.check_rules_reply(document, link.endpoint))
        self._first.set()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s

    def _disconnect(self) -> None:
        for link in (self._link, self._subscription):
            if link is not None:
                link.close()
        self._link = self._subscription = None
