"""Proof that a cut cuts: words on live connections across it, and on one beside it that must go on."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event, Thread

from rlctl.drills.records import RunJournal
from rlctl.drills.wire import Entry, Place, open_channel
from rlctl.system.clock import Clock

EVERY_S = 0.01
ANSWER_S = 0.2
TELL_S = 0.5
_PING = b"PING\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Perch:
    """One flow to watch: from an address to a node; across the cut, or beside it."""

    name: str
    source: str | None
    place: Place
    is_across: bool


class Canaries:
    """One thread for each flow; a canary never connects anew while its flow is cut, as new connects prove nothing."""

    def __init__(self, perches: Sequence[Perch], authority: str | None, clock: Clock) -> None:
        self._perches = perches
        self._entry = Entry(authority=authority)
        self._clock = clock
        self._stopped = Event()
        self._threads: list[Thread] = []

    def start(self, journal: RunJournal) -> None:
        """Open every flow before the cut, and speak on it until `stop`."""
        for perch in self._perches:
            channel = open_channel(perch.place, self._entry, timeout_s=ANSWER_S * 5, source=perch.source)
            self._threads.append(Thread(target=self._sing, args=(perch, channel, journal), daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Be silent."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _sing(self, perch: Perch, channel: socket.socket, journal: RunJournal) -> None:
        channel.settimeout(ANSWER_S)
        told_s, notes = self._clock.monotonic(), list[tuple[float, bool]]()
        while not self._stopped.is_set():
            started_s = self._clock.monotonic()
            notes.append((started_s, _is_heard(channel)))
            if started_s - told_s >= TELL_S:
                journal.write("canary", name=perch.name, across=perch.is_across, notes=notes)
                told_s, notes = started_s, []
            self._stopped.wait(EVERY_S)
        journal.write("canary", name=perch.name, across=perch.is_across, notes=notes)
        channel.close()


def _is_heard(channel: socket.socket) -> bool:
    """Whether anything came back; an answer to an earlier word counts for this one too."""
    try:
        channel.sendall(_PING)
        return bool(channel.recv(4096))
    except OSError:
        return False
