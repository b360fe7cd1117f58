"""Pause the writes of one primary for a few seconds at a time, so that the pause ends soon if rlctl is killed."""

import contextlib

from rlctl.observe.info import ServerInfo
from rlctl.observe.parse import required
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink

# If rlctl is killed, writes remain paused for at most this long.
PAUSE_S = 5.0
# How long the server may need to answer the paused writes, all of which it executes when the pause ends. In a test with
# 2,000 writes a second, it answered all of them within this time.
ANSWERED_S = 0.1


class WritePause:
    """A pause of writes on one server. The pause ends PAUSE_S after the last `extend`. No other code may use `link`."""

    def __init__(self, link: NodeLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._until: float | None = None
        self.has_lapsed = False

    def extend(self) -> int:
        """Pause writes for PAUSE_S from now on; return the primary's replication offset."""
        asked = self._clock.monotonic()
        answers = self._link.pipeline([("CLIENT", "PAUSE", round(PAUSE_S * 1000), "WRITE"), ("INFO", "replication")])
        for answer in answers:
            if isinstance(answer, CommandFailed):
                raise answer
        if self._until is not None and self._clock.monotonic() >= self._until:
            self.has_lapsed = True
        self._until = asked + PAUSE_S
        return required(ServerInfo(answers[1]).written_offset, "master_repl_offset")

    def lift(self) -> None:
        """End the pause; if the server does not answer, the pause ends by itself."""
        # The connection may be broken; the next call opens a new one.
        self._link.close()
        with contextlib.suppress(LinkFailure, CommandFailed):
            self._link.call("CLIENT", "UNPAUSE")
        self._link.close()

    def disconnect_clients(self) -> None:
        """Close all client connections, as Sentinel does, so that clients look up the new primary.

        Call it after `lift`, once the server is a replica. The method first gives the server time to answer the paused
        writes with READONLY, because a client without an answer cannot know whether its write was carried out.
        """
        self._clock.sleep(ANSWERED_S)
        self._link.pipeline([("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "KILL", "TYPE", "pubsub")])
        self._link.close()
