"""A RESP server that misbehaves in one named way, which every client must survive."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

HOST = "127.0.0.1"
CHUNK = 65536
# Longer than every deadline of a test, but short enough for a thread to end.
STILL_S = 30.0
DECISION = b"*6\r\n:1\r\n:10\r\n:9\r\n:0\r\n:1000\r\n:0\r\n"
# A valid answer to HELLO.
HELLO = b"*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
Respond = Callable[["Connection", bytes], None]


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection, and the event that ends the server."""

    channel: socket.socket
    ended: threading.Event

    def send(self, data: bytes) -> None:
        self.channel.sendall(data)

    def drip(self, data: bytes, every_s: float) -> None:
        for at in range(len(data)):
            if self.ended.wait(every_s):
                return
            self.channel.sendall(data[at : at + 1])

    def pour(self, data: bytes) -> None:
        began_s = time.monotonic()
        while not self.ended.is_set() and time.monotonic() - began_s < STILL_S:
            self.channel.sendall(data)


def _says(answer: bytes) -> Respond:
    return lambda connection, _asked: connection.send(answer)


def _closes_after(answer: bytes) -> Respond:
    def respond(connection: Connection, _asked: bytes) -> None:
        connection.send(answer)
        connection.channel.shutdown(socket.SHUT_RDWR)

    return respond


def _slots(*entries: bytes) -> bytes:
    return b"*%d\r\n" % len(entries) + b"".join(entries)


# The answers to every request, by the name of the misbehaviour.
MODES: dict[str, Respond] = {
    "silent": lambda _speech, _asked: None,
    "closes": _closes_after(b""),
    "closes in mid-reply": _closes_after(DECISION[:11]),
    "drips": lambda connection, _asked: connection.drip(DECISION, 0.5),
    "pours texts": lambda connection, _asked: connection.pour(b"x" * CHUNK),
    "pours numbers": lambda connection, _asked: connection.pour(b"*200000\r\n" + b":1\r\n" * 1000),
    "pours replies": lambda connection, _asked: connection.pour(DECISION * 100),
    "http": _says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "ok": _says(b"+OK\r\n"),
    "an odd status": _says(b"+\xff\xfe\x1b[2J\r\n"),
    "a number": _says(b":5\r\n"),
    "nil": _says(b"$-1\r\n"),
    "a nil array": _says(b"*-1\r\n"),
    "an empty array": _says(b"*0\r\n"),
    "five numbers": _says(b"*5\r\n" + b":1\r\n" * 5),
    "texts for numbers": _says(b"*6\r\n" + b"$1\r\n1\r\n" * 6),
    "lists for numbers": _says(b"*6\r\n" + b"*1\r\n:1\r\n" * 6),
    "nil for numbers": _says(b"*6\r\n" + b"$-1\r\n" * 6),
    "an unknown reason": _says(DECISION[:-4] + b":99\r\n"),
    "huge numbers": _says(b"*6\r\n" + (b":" + b"9" * 5000 + b"\r\n") * 6),
    "digits of another script": _says("*6\r\n:²\r\n".encode() + b":1\r\n" * 5),
    "a huge bulk": _says(b"$2000000000\r\n"),
    "a huge array": _says(b"*2000000000\r\n"),
    "deep": _says(b"*1\r\n" * 200_000),
    "a map of RESP3": _says(b"%1\r\n+role\r\n+master\r\n"),
    "an unknown error": _says(b"-WHATEVER \xff\r\n"),
    "an empty error": _says(b"-\r\n"),
    "NOAUTH": _says(b"-NOAUTH Authentication required.\r\n"),
    "NOSCRIPT": _says(b"-NOSCRIPT No matching script.\r\n"),
    "LOADING": _says(b"-LOADING Redis is loading\r\n"),
    "BUSY": _says(b"-BUSY Redis is busy running a script\r\n"),
    "moved to nowhere": _says(b"-MOVED 99999 nowhere.invalid:99999\r\n"),
    "moved to here": _says(b"-MOVED 5 :0\r\n"),
    "moved to a name that is none": _says(b"-MOVED 5 " + b"a" * 300 + b":1\r\n"),
    "ask without an address": _says(b"-ASK\r\n"),
    "a huge slot map": _says(_slots(b"*3\r\n:0\r\n:99999999999\r\n*2\r\n$1\r\nh\r\n:1\r\n")),
    "a negative slot map": _says(_slots(b"*3\r\n:-99999999999\r\n:0\r\n*2\r\n$1\r\nh\r\n:1\r\n")),
    "all slots many times": _says(_slots(*[b"*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nh\r\n:1\r\n"] * 20_000)),
}


def _serve(channel: socket.socket, respond: Respond, ended: threading.Event, greeting: bytes) -> None:
    """Respond to each packet. If there is a greeting, it answers HELLO."""
    connection = Connection(channel, ended)
    with suppress(OSError), channel:
        while asked := channel.recv(CHUNK):
            if greeting and b"HELLO" in asked:
                connection.send(greeting)
            else:
                respond(connection, asked)


def _accept(door: socket.socket, respond: Respond, ended: threading.Event, greeting: bytes) -> None:
    with suppress(OSError):
        while True:
            channel, _where = door.accept()
            threading.Thread(target=_serve, args=(channel, respond, ended, greeting), daemon=True).start()


@contextmanager
def hostile(mode: str, port: int, *, greeting: bytes = b"") -> Iterator[int]:
    """Misbehave on this port until the block ends; with a greeting, only after a valid answer to HELLO."""
    ended = threading.Event()
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((HOST, port))
        door.listen()
        thread = threading.Thread(target=_accept, args=(door, MODES[mode], ended, greeting), daemon=True)
        thread.start()
        try:
            yield port
        finally:
            ended.set()
            # close() alone does not wake a thread that waits in accept().
            with suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=10)
