"""Options that the commands of `rlctl capacity` share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.layout.listpack import MOST_TEXT
from rlctl.capacity.parse_request import MOST_CAP, MOST_LIMIT, MOST_USERS, RequestParser
from rlctl.capacity.request import SLOTS, Algorithm, ServerVersion
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
    click.option("--server", type=_words(ServerVersion), help="Server whose memory layout to use [redis-8.0]."),
    click.option(
        "--allocator",
        type=_words(Allocator),
        help="Size classes to use: those of Debian's jemalloc, or of the jemalloc in upstream releases [upstream].",
    ),
)
_NODE = (
    *_SERVER,
    click.option(
        "--policy",
        type=_words(EvictionPolicy),
        help="maxmemory-policy of the server; with LRU and LFU, integers are not shared.",
    ),
    click.option("--cluster", is_flag=True, default=None, help="Server runs in cluster mode."),
)
_SIZES = (
    click.option("--algorithm", type=_words(Algorithm), help="Algorithm of the rule."),
    click.option(
        "--limit", type=click.IntRange(1, MOST_LIMIT), help="Requests, tokens or leases of a user [100; concurrent 50]."
    ),
    click.option("--users", type=click.IntRange(1, MOST_USERS), help="Users on one primary [1000000]."),
    click.option("--key-length", type=click.IntRange(1, MOST_TEXT), help="Length of a key's name in bytes [40]."),
    click.option(
        "--member", help="Form of a log entry: ms, us, seq, relative, float or text:N [ms; concurrent text:36]."
    ),
    click.option("--score", help="Form of an entry's score: ms, us, relative or float [ms]."),
    click.option(
        "--rate", type=click.IntRange(1, MOST_LIMIT), help="For buckets: tokens that one period adds [the limit]."
    ),
    click.option("--period", help="For buckets: time in which --rate tokens are added [1s]."),
    click.option("--window", help="Length of the window or lease [60s]."),
    click.option("--no-ttl", is_flag=True, default=None, help="Keys do not expire."),
    click.option(
        "--zset-max-listpack-entries",
        type=click.IntRange(0, MOST_CAP),
        help="zset-max-listpack-entries of the server [128].",
    ),
    click.option("--slots", type=click.IntRange(1, SLOTS), help="With --cluster: slots of the node [16384]."),
)
server_options: tuple[Decorator, ...] = _SERVER
node_options: tuple[Decorator, ...] = _NODE
request_options: tuple[Decorator, ...] = (*_SIZES, *_NODE)
encoding_option = click.option("--encoding", help="Encoding, as listed by `rlctl capacity compare` [script].")
html_option = click.option("--html", type=click.Path(path_type=Path), help="HTML file for a report with charts.")


def with_options(*options: Decorator) -> Callable[[Function], Function]:
    """Add these options to a command, in this order."""

    def decorate(command: Function) -> Function:
        for option in options[::-1]:
            command = option(command)
        return command

    return decorate


def typed_options(options: dict[str, Any]) -> dict[str, object]:
    """Return the options that the user gave. `rlctl.capacity` has the defaults of the other options."""
    return {name: value for name, value in options.items() if value is not None}


def request_parser() -> RequestParser:
    """Return a parser of requests, for the scripts that come with rlctl."""
    return RequestParser(states={script.name: script.state for script in load_release().scripts})


def read_lines(source: str) -> str:
    """Return the text of a file, or of stdin for `-`."""
    if source == "-":
        return _decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "stdin")
    try:
        return _decoded(read_given(Path(source)), source)
    except FileNotFoundError as failure:
        raise NotFound(f"{source}: no such file", hint="give a file of JSON lines, or - for stdin") from failure
    except OSError as failure:
        raise InvalidFile(
            f"{source}:1: cannot be read: {failure.strerror}", hint="give a file that you may read"
        ) from failure


def _decoded(data: bytes, source: str) -> str:
    if len(data) > MOST_BYTES:
        raise InvalidFile(f"{source}:1: larger than {MOST_BYTES >> 20} MiB", hint="split the file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise InvalidFile(f"{source}:{line}: this is not UTF-8 text", hint="save the file as UTF-8") from failure


def write_page(app: App, path: Path | None, make: Callable[[], str]) -> None:
    """Write the report atomically if a path was given."""
    if path is not None:
        write_private(path, make())
        app.output.note(f"{path}: written")
