"""Client process of a drill: loads the fleet, and records the outcome of every operation.

It uses raw pipelined sockets, not a client library. A library retries a write whose answer was lost, follows
redirections and reports READONLY as a lost connection, so its caller cannot know which writes were acknowledged. At ten
thousand operations a second, a library would also use a whole core.
"""

import contextlib
import json
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rlctl.drills.engine.client_spec import NodeAddress
from rlctl.drills.engine.requests import Answers, BatchBuilder, ClientWork, read_answers, redirect
from rlctl.drills.engine.wire import CHUNK, Credentials, open_channel
from rlctl.drills.record.ops import NOWHERE, Batch, OpOutcome
from rlctl.lab.partition import ClientSource

FLUSH_S = 0.05
# Timeout of a connect. It is short, because a service that searches for its primary does not wait long for one node.
CONNECT_S = 0.25
# Delay before a refused client tries again, as in a service with a short back-off.
BACK_OFF_S = 0.01
# Operations that are overdue by more than this are not sent, because the callers of a real service would have given up.
BACKLOG_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings of one client.

    A `pinned` client uses only the first address, because the client is isolated with that node or has an old slot map.
    """

    places: tuple[NodeAddress, ...]
    work: ClientWork
    credentials: Credentials
    connections: int
    depth: int
    rate: int
    timeout_s: float
    pinned: bool
    source: ClientSource
    history: Path

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ClientSettings":
        """Read the settings that the engine wrote to standard input."""
        places = tuple(NodeAddress(**place) for place in data.pop("places"))
        work, credentials = ClientWork.from_json(data.pop("work")), Credentials.from_json(data.pop("entry"))
        source, history = ClientSource.from_json(data.pop("source")), Path(data.pop("history"))
        return cls(places=places, work=work, credentials=credentials, source=source, history=history, **data)


class ControlledClient:
    """Base class of clients. It begins, bursts and stops on the engine's commands, and records the operations."""

    def __init__(self, history: Path) -> None:
        self.burst = False
        self.stopped = threading.Event()
        self.refusals: Counter[str] = Counter()
        self.hops = 0
        self._history = history
        self._done: deque[Batch] = deque()
        self._next = 0
        self._numbering = threading.Lock()

    def reserve_numbers(self, count: int) -> int:
        """Reserve `count` operation numbers; return the first."""
        with self._numbering:
            first = self._next
            self._next += count
        return first

    def record(self, batch: Batch, errors: Sequence[str] = ()) -> None:
        """Record the outcomes of a batch."""
        self._done.append(batch)
        self.refusals.update(error.split(" ", 1)[0] for error in errors)

    def run(self, threads: Sequence[threading.Thread]) -> None:
        """Wait for `go`, then run the threads until the engine sends `stop` or ends."""
        with self._history.open("ab") as sink:
            commands = _Commands(self)
            commands.wait_for_go()
            for thread in threads:
                thread.start()
            while not self.stopped.wait(FLUSH_S):
                self._flush(sink)
            for thread in threads:
                thread.join()
            self._flush(sink)
        _report({"refusals": dict(self.refusals), "hops": self.hops, "attempted": self._next})

    def _flush(self, sink: BinaryIO) -> None:
        """Write the batches recorded since the last flush, so that they survive a kill of this process."""
        while self._done:
            sink.write(self._done.popleft().pack())
        sink.flush()


class Client(ControlledClient):
    """A client that sends raw commands and classifies every answer."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings.history)
        self.settings = settings
        self.requests = BatchBuilder(settings.work)

    def load(self) -> None:
        """Load the fleet with one thread for each connection."""
        connections = [_Connection(self, number) for number in range(self.settings.connections)]
        self.run([threading.Thread(target=connection.run) for connection in connections])


class _Commands:
    """The engine's commands on standard input: `go`, `burst`, `stop`. The end of input stops the client too."""

    def __init__(self, client: ControlledClient) -> None:
        self._client = client
        self._go = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_for_go(self) -> None:
        """Report that the client is ready, and wait until the engine sends `go` or ends."""
        _report({"ready": True})
        self._go.wait()

    def _listen(self) -> None:
        for line in sys.stdin:
            match line.strip():
                case "go":
                    self._go.set()
                case "burst":
                    self._client.burst = True
                case _:
                    break
        self._client.stopped.set()
        self._go.set()


class _Connection:
    """One connection and its thread, which sends a batch, reads its answers, and sends the next batch."""

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self._number = number
        self._settings = client.settings
        self._at = 0
        self._channel: socket.socket | None = None
        self._between_s = client.settings.depth * client.settings.connections / client.settings.rate

    def run(self) -> None:
        """Send at a fixed rate (open loop): a late batch does not delay the due time of the next batch."""
        due_s = time.monotonic() + self._between_s * self._number / self._settings.connections
        while not self._client.stopped.is_set():
            late_s = time.monotonic() - due_s
            if late_s < 0:
                self._client.stopped.wait(min(-late_s, FLUSH_S))
                continue
            if late_s > BACKLOG_S:
                due_s += self._drop(int(late_s / self._between_s))
            self._send_one()
            due_s += self._between_s
        self._hang_up()

    def _drop(self, batches: int) -> float:
        """Record overdue operations as not sent. Return the seconds by which the next due time moves."""
        count = min(batches * self._settings.depth, 0xFFFF)
        now_s = time.monotonic()
        first = self._client.reserve_numbers(count)
        codes = bytes([OpOutcome.NOT_SENT]) * count
        self._note(NOWHERE, first, now_s, now_s, codes)
        return count / self._settings.depth * self._between_s

    def _send_one(self) -> None:
        if self._channel is None and not self._connect():
            return
        place, count = self._at, self._settings.depth
        first = self._client.reserve_numbers(count)
        requests = self._client.requests
        message, flags = requests.batch(first, count, burst=self._client.burst, clock_us=self._clock_us(place))
        sent_s = time.monotonic()
        answers = self._exchange(message, flags)
        self._note(place, first, sent_s, time.monotonic(), answers.codes, answers.errors)
        if not answers.complete:
            self._hang_up()
            self._use_next_node()
        elif answers.errors:
            self._react(answers.errors[0])

    def _clock_us(self, place: int) -> int | None:
        work = self._settings.work
        if work.clock_us is None:
            return None
        return work.clock_us + int(time.monotonic() * 1_000_000) + (work.skew_us if place else 0)

    def _exchange(self, message: bytes, flags: bytes) -> Answers:
        requests, replicas = self._client.requests, self._settings.work.wait_replicas
        data = b""
        try:
            assert self._channel is not None
            self._channel.sendall(message)
            while not (answers := read_answers(data, flags, requests, replicas)).complete:
                chunk = self._channel.recv(CHUNK)
                if not chunk:
                    break
                data += chunk
        except OSError:
            # After a timeout or a reset, operations without an answer are indeterminate.
            return read_answers(data, flags, requests, replicas)
        return answers

    def _react(self, error: str) -> None:
        """Follow a redirection, or switch nodes if the current node refuses writes. A pinned client only waits."""
        target = redirect(error)
        if self._settings.pinned:
            pass
        elif target is not None:
            self._go_to(target.host, target.port)
            return
        elif error.startswith(("READONLY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM")):
            self._hang_up()
            self._use_next_node()
        self._client.stopped.wait(BACK_OFF_S)

    def _go_to(self, host: str, port: int) -> None:
        places = [(place.host, place.port) for place in self._settings.places]
        if (host, port) in places and places.index((host, port)) != self._at:
            self._client.hops += 1
            self._hang_up()
            self._at = places.index((host, port))

    def _use_next_node(self) -> None:
        """Switch to the next node of the shard, unless the client is pinned."""
        if not self._settings.pinned:
            self._client.hops += 1
            self._at = (self._at + 1) % len(self._settings.places)
        self._client.stopped.wait(BACK_OFF_S)

    def _connect(self) -> bool:
        """Connect. On failure, record a batch as refused, since the batch was never sent, and return False."""
        place = self._settings.places[self._at]
        started_s = time.monotonic()
        try:
            self._channel = open_channel(
                place, self._settings.credentials, timeout_s=CONNECT_S, source=self._settings.source
            )
            self._channel.settimeout(self._settings.timeout_s)
        except OSError as failure:
            self._hang_up()
            count = self._settings.depth
            first = self._client.reserve_numbers(count)
            codes = bytes([OpOutcome.REFUSED]) * count
            self._note(self._at, first, started_s, time.monotonic(), codes, [f"unreachable {failure}"] * count)
            self._use_next_node()
            return False
        return True

    def _note(
        self, node: int, first: int, sent_s: float, done_s: float, codes: bytes, errors: Sequence[str] = ()
    ) -> None:
        batch = Batch(node=node, connection=self._number, first=first, sent_s=sent_s, done_s=done_s, codes=codes)
        self._client.record(batch, errors)

    def _hang_up(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.close()
            self._channel = None


def _report(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the settings from the first line of standard input, then load the fleet."""
    Client(ClientSettings.from_json(json.loads(sys.stdin.readline()))).load()


if __name__ == "__main__":
    main()
