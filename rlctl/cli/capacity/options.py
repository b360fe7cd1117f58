"""The options of `rlctl capacity`, which is where its commands agree."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.layout.listpack import MOST_TEXT
from rlctl.capacity.parse_request import MOST_CAP, MOST_LIMIT, MOST_USERS, Asking
from rlctl.capacity.request import SLOTS, Algorithm, Server
from rlctl.cli.app import App
from rlctl.errors import InvalidFile, NotFound
from rlctl.scripts.release import load_release
from rlctl.system.files import MOST_BYTES, read_given, write_private
from rlctl.topology.model import EvictionPolicy

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]


def _words(kind: type[Any]) -> click.Choice[str]:
    return click.Choice([member.value for member in kind])


_SERVER = (
    click.option("--server", type=_words(Server), help="Memory layout [redis-8.0]."),
    click.option(
        "--allocator", type=_words(Allocator), help="Size classes: system jemalloc or the bundled [upstream]."
    ),
)
_PLACE = (
    *_SERVER,
    click.option("--policy", type=_words(EvictionPolicy), help="maxmemory-policy; LRU and LFU share no integers."),
    click.option("--cluster", is_flag=True, default=None, help="A member of a cluster."),
)
_SIZES = (
    click.option("--algorithm", type=_words(Algorithm), help="The limiter."),
    click.option(
        "--limit", type=click.IntRange(1, MOST_LIMIT), help="Requests, tokens or leases [100; concurrent 50]."
    ),
    click.option("--users", type=click.IntRange(1, MOST_USERS), help="Users on one primary [1000000]."),
    click.option("--key-length", type=click.IntRange(1, MOST_TEXT), help="Bytes of the whole key's name [40]."),
    click.option("--member", help="ms, us, seq, relative, float or text:N [ms; concurrent text:36]."),
    click.option("--score", help="ms, us, relative or float [ms]."),
    click.option("--rate", type=click.IntRange(1, MOST_LIMIT), help="Of buckets [the limit] ..."),
    click.option("--period", help="... every so often [1s]."),
    click.option("--window", help="Of windows, and the lease of concurrent [60s]."),
    click.option("--no-ttl", is_flag=True, default=None, help="Keys without an end."),
    click.option(
        "--zset-max-listpack-entries", type=click.IntRange(0, MOST_CAP), help="The server's cap of packed logs [128]."
    ),
    click.option("--slots", type=click.IntRange(1, SLOTS), help="With --cluster: slots that the node owns [16384]."),
)
server_options: tuple[Decorator, ...] = _SERVER
place_options: tuple[Decorator, ...] = _PLACE
question_options: tuple[Decorator, ...] = (*_SIZES, *_PLACE)
encoding_option = click.option("--encoding", help="As `rlctl capacity compare` lists them [script].")
html_option = click.option("--html", type=click.Path(path_type=Path), help="Write a chart as one HTML file.")


def with_options(*options: Decorator) -> Callable[[Function], Function]:
    """All these options, in this order."""

    def decorate(command: Function) -> Function:
        for option in options[::-1]:
            command = option(command)
        return command

    return decorate


def given(options: dict[str, Any]) -> dict[str, object]:
    """What was typed: defaults are the core's."""
    return {name: value for name, value in options.items() if value is not None}


def asking() -> Asking:
    """Questions about the scripts that come with rlctl."""
    return Asking(states={script.name: script.state for script in load_release().scripts})


def read_lines(source: str) -> str:
    """A file of JSON lines, or stdin."""
    if source == "-":
        return _decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "stdin")
    try:
        return _decoded(read_given(Path(source)), source)
    except FileNotFoundError as failure:
        raise NotFound(f"{source}: no such file", hint="name a file of JSON lines, or - for stdin") from failure
    except OSError as failure:
        raise InvalidFile(f"{source}:1: cannot be read: {failure.strerror}", hint="name a readable file") from failure


def _decoded(data: bytes, source: str) -> str:
    if len(data) > MOST_BYTES:
        raise InvalidFile(f"{source}:1: larger than {MOST_BYTES >> 20} MiB", hint="ask in smaller batches")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise InvalidFile(f"{source}:{line}: this is not UTF-8 text", hint="save the file as UTF-8") from failure


def write_page(app: App, path: Path | None, make: Callable[[], str]) -> None:
    """Write a report where one is wanted; the file is whole or not there."""
    if path is not None:
        write_private(path, make())
        app.output.note(f"{path}: written")
