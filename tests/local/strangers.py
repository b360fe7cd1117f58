"""Listeners and servers on a fleet's ports that rlctl did not start."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.local.driver import wait_for

HOST = "127.0.0.1"
HANDSHAKE_BYTES = 4096


@dataclass(slots=True, kw_only=True)
class Listener:
    """A TCP listener that answers each connection with the same bytes, or never, and records what it received."""

    port: int
    answer: bytes
    received: list[bytes] = field(default_factory=list)

    def serve(self, channel: socket.socket) -> None:
        with suppress(OSError), channel:
            while data := channel.recv(HANDSHAKE_BYTES):
                self.received.append(data)
                if self.answer:
                    channel.sendall(self.answer)


@contextmanager
def listener(port: int, answer: bytes = b"") -> Iterator[Listener]:
    """Listen until the block ends."""
    made = Listener(port=port, answer=answer)
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((HOST, port))
        door.listen()
        thread = threading.Thread(target=_accept, args=(door, made), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            # close() alone does not wake a thread that waits in accept().
            with suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=10)


def _accept(door: socket.socket, made: Listener) -> None:
    with suppress(OSError):
        while True:
            channel, _where = door.accept()
            threading.Thread(target=made.serve, args=(channel,), daemon=True).start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A Redis server that does not belong to the fleet."""

    process: subprocess.Popen[bytes]
    port: int
    password: str | None

    def call(self, *words: object) -> object:
        """Run one command on the server."""
        client = Redis(host=HOST, port=self.port, password=self.password, decode_responses=True, protocol=2)
        try:
            return client.execute_command(*words)
        finally:
            client.close()

    @property
    def is_untouched(self) -> bool:
        """Whether the server is still the same process."""
        return self.process.poll() is None

    def answers(self) -> bool:
        try:
            return bool(self.call("PING"))
        except (RedisError, OSError):
            return False


@contextmanager
def foreign_server(folder: Path, port: int, *directives: str, password: str | None = None) -> Iterator[Foreign]:
    """Run a server until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    login = ["--requirepass", password] if password else []
    place = ["--port", str(port), "--bind", HOST, "--dir", str(folder), "--save", ""]
    with (folder / "output.log").open("wb") as sink:
        process = subprocess.Popen(["redis-server", *place, *login, *directives], cwd=folder, stdout=sink, stderr=sink)
    try:
        made = Foreign(process=process, port=port, password=password)
        wait_for(made.answers, f"the foreign server on port {port} answers")
        yield made
    finally:
        process.kill()
        process.wait(timeout=30)
