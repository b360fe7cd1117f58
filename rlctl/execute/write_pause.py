"""Holding back the writes of one primary for seconds at a time: a pause that outlives nobody who asked for it."""

import contextlib

from rlctl.observe.info import ServerInfo
from rlctl.observe.parse import required
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink

# So long writes stand still when rlctl dies in the middle of it.
PAUSE_S = 5.0
# The server takes up all paused writes at once; no answer to any of 2,000 a second was cut off after this.
ANSWERED_S = 0.1


class WritePause:
    """A pause of writes on one server, prolonged by each `hold`, over a connection of its own."""

    def __init__(self, link: NodeLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._until: float | None = None
        self.has_lapsed = False

    def extend(self) -> int:
        """Pause from now on; the offset up to which this primary has written."""
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
        """Let writes go on; a server that cannot be told does so by itself."""
        # Whatever became of the connection, the next call opens a new one.
        self._link.close()
        with contextlib.suppress(LinkFailure, CommandFailed):
            self._link.call("CLIENT", "UNPAUSE")
        self._link.close()

    def disconnect_clients(self) -> None:
        """Hang up on every client, as Sentinel does, so that they look the primary up again.

        Call it after `lift`, on a server that is a replica by now. It first gives the server time to answer READONLY
        to the paused writes: a client that gets no answer cannot know whether its write was made.
        """
        self._clock.sleep(ANSWERED_S)
        self._link.pipeline([("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "KILL", "TYPE", "pubsub")])
        self._link.close()
