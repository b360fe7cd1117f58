"""Proves a cut by PINGs on open connections across the cut, and on one connection that must keep working."""

import contextlib
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event, Thread

from rlctl.drills.engine.client_spec import NodeAddress
from rlctl.drills.engine.wire import Credentials, open_channel
from rlctl.lab.partition import ClientSource
from rlctl.lab.run_folder import RunJournal
from rlctl.system.clock import Clock

EVERY_S = 0.01
ANSWER_S = 0.2
RECORD_S = 0.5
_PING = b"PING\r\n"
Note = tuple[float, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One flow to probe, from a client's address to a node. With `is_across`, the cut must stop the flow."""

    name: str
    source: ClientSource
    place: NodeAddress
    is_across: bool


class Probes:
    """Probes each flow in its own thread. Probes never reconnect, because a new connection would hide the partition."""

    def __init__(self, probes: Sequence[Probe], authority: str | None, clock: Clock) -> None:
        self._planned_probes = probes
        self._credentials = Credentials(authority=authority)
        self._clock = clock
        self._stopped = Event()
        self._threads: list[Thread] = []

    def start(self, journal: RunJournal) -> None:
        """Open a connection for every flow, and send PINGs until `stop`. Call this before the cut."""
        for probe in self._planned_probes:
            channel = open_channel(probe.place, self._credentials, timeout_s=ANSWER_S * 5, source=probe.source)
            self._threads.append(Thread(target=self._ping_until_stopped, args=(probe, channel, journal), daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop sending."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _ping_until_stopped(self, probe: Probe, channel: socket.socket, journal: RunJournal) -> None:
        stream = _PingStream(channel)
        recorded_s = self._clock.monotonic()
        while not self._stopped.is_set():
            now_s = self._clock.monotonic()
            stream.ping(now_s)
            if now_s - recorded_s >= RECORD_S:
                journal.write("canary", name=probe.name, across=probe.is_across, notes=stream.notes(now_s))
                recorded_s = now_s
            self._stopped.wait(EVERY_S)
        stream.ping(self._clock.monotonic())
        journal.write("canary", name=probe.name, across=probe.is_across, notes=stream.notes(float("inf")))
        channel.close()


class _PingStream:
    """PINGs on one connection, sent without waiting for answers, so that even a cut of 20 ms stops some PINGs."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        # PINGs without an answer, the oldest first: when each was sent, and whether it was reported as lost.
        self._waiting: deque[tuple[float, bool]] = deque()
        self._notes: list[Note] = []

    def ping(self, now_s: float) -> None:
        """Read the answers that have arrived, and send the next PING."""
        self._read_answers(now_s)
        self._waiting.append((now_s, False))
        with contextlib.suppress(OSError):
            self._channel.send(_PING)

    def notes(self, now_s: float) -> list[Note]:
        """Return (sent, answered) times of PINGs since the last call; `answered` is None for a lost PING."""
        checked = [(at_s, True) if now_s - at_s > ANSWER_S else (at_s, done) for at_s, done in self._waiting]
        lost = [
            (at_s, None) for (at_s, done), (_, gone) in zip(self._waiting, checked, strict=True) if gone and not done
        ]
        self._waiting = deque(checked)
        notes, self._notes = [*self._notes, *lost], []
        return notes

    def _read_answers(self, now_s: float) -> None:
        """Assign each answer to the oldest PING that waits for an answer."""
        try:
            data = self._channel.recv(65_536)
        except OSError:
            return
        for _ in range(data.count(b"\n")):
            if self._waiting:
                at_s, was_lost = self._waiting.popleft()
                if not was_lost:
                    self._notes.append((at_s, now_s))
