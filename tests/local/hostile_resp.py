"""A RESP server that misbehaves in one named way: what a limiter, or any client, must outlive."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

HOST = "127.0.0.1"
CHUNK = 65536
# Long after every deadline that a test has, short enough for a thread to end.
STILL_S = 30.0
DECISION = b"*6\r\n:1\r\n:10\r\n:9\r\n:0\r\n:1000\r\n:0\r\n"
# What HELLO is answered with, so that the connection counts as good.
HELLO = b"*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
Speak = Callable[["Speech", bytes], None]


@dataclass(frozen=True, slots=True)
class Speech:
    """One connection, and when the server ends."""

    channel: socket.socket
    ended: threading.Event

    def say(self, data: bytes) -> None:
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


def _says(answer: bytes) -> Speak:
    return lambda speech, _asked: speech.say(answer)


def _closes_after(answer: bytes) -> Speak:
    def speak(speech: Speech, _asked: bytes) -> None:
        speech.say(answer)
        speech.channel.shutdown(socket.SHUT_RDWR)

    return speak


def _slots(*entries: bytes) -> bytes:
    return b"*%d\r\n" % len(entries) + b"".join(entries)


# By name: how every request is answered.
MODES: dict[str, Speak] = {
    "silent": lambda _speech, _asked: None,
    "closes": _closes_after(b""),
    "closes in mid-reply": _closes_after(DECISION[:11]),
    "drips": lambda speech, _asked: speech.drip(DECISION, 0.5),
    "pours texts": lambda speech, _asked: speech.pour(b"x" * CHUNK),
    "pours numbers": lambda speech, _asked: speech.pour(b"*200000\r\n" + b":1\r\n" * 1000),
    "pours replies": lambda speech, _asked: speech.pour(DECISION * 100),
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


def _serve(channel: socket.socket, speak: Speak, ended: threading.Event, greeting: bytes) -> None:
    """Answer each packet; what says HELLO is greeted first where there is a greeting."""
    speech = Speech(channel, ended)
    with suppress(OSError), channel:
        while asked := channel.recv(CHUNK):
            if greeting and b"HELLO" in asked:
                speech.say(greeting)
            else:
                speak(speech, asked)


def _accept(door: socket.socket, speak: Speak, ended: threading.Event, greeting: bytes) -> None:
    with suppress(OSError):
        while True:
            channel, _where = door.accept()
            threading.Thread(target=_serve, args=(channel, speak, ended, greeting), daemon=True).start()


@contextmanager
def hostile(mode: str, port: int, *, greeting: bytes = b"") -> Iterator[int]:
    """Misbehave on this port until the block ends; with a greeting only after a good HELLO."""
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
            # Closing alone does not wake a thread that waits in accept.
            with suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=10)
