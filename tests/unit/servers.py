"""A fleet of servers in memory with hashes, lists and strings, which answer or fail as a test configures."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlctl.execute.session import FleetSession
from rlctl.limits.release import Release
from rlctl.observe.model import Observed
from rlctl.scripts.release import load_release
from rlctl.secrets import User
from rlctl.system.redis import CommandFailed
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeSpec
from tests.unit.fleets import desired_of

RELEASE = load_release()
Answer = Callable[[tuple[Any, ...]], object]


@dataclass
class Server:
    """A link to one server as one user. `answer` may raise; None lets the server answer."""

    endpoint: str = "127.0.0.1:7000"
    answer: Answer = lambda _command: None
    hashes: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    texts: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    told: list[tuple[Any, ...]] = field(default_factory=list)
    is_closed: bool = False

    def call(self, *command: Any) -> Any:
        answer = self._answer(command)
        if isinstance(answer, CommandFailed):
            raise answer
        return answer

    def pipeline(self, commands: Sequence[tuple[Any, ...]]) -> list[object]:
        return [self._answer(command) for command in commands]

    def close(self) -> None:
        self.is_closed = True

    def _answer(self, command: tuple[Any, ...]) -> object:
        self.told.append(command)
        answer = self.answer(command)
        return self._own_answer(command) if answer is None else answer

    def _own_answer(self, command: tuple[Any, ...]) -> object:
        match command:
            case ("HGETALL" | "HMGET" | "HSET" as verb, key, *words):
                return self._hash(verb, self.hashes[key], words)
            case ("LPUSH" | "LTRIM" | "LRANGE" as verb, key, *words):
                return self._list(verb, self.lists[key], words)
            case ("GET", key):
                return self.texts.get(key)
            case ("EXISTS", key):
                return int(key in self.texts)
            case ("READONLY",):
                return "OK"
            case ("UNLINK", _key):
                return 1
            case _:
                return CommandFailed(f"ERR unknown command {command[0]}")

    def _hash(self, verb: str, fields: dict[str, str], words: list[Any]) -> object:
        if verb == "HGETALL":
            return [word for pair in fields.items() for word in pair]
        if verb == "HMGET":
            return [fields.get(name) for name in words]
        fields.update(zip(words[0::2], words[1::2], strict=True))
        return len(words) // 2

    def _list(self, verb: str, items: list[str], words: list[Any]) -> object:
        if verb == "LPUSH":
            items[:0] = words
            return len(items)
        first, last = words
        if verb == "LRANGE":
            return items[first : last + 1]
        items[:] = items[first : last + 1]
        return "OK"


@dataclass
class FakeClock:
    """A clock that advances only by sleep()."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


@dataclass
class Servers:
    """The part of a FleetSession that `scripts` and `rules` use: links by node name and user."""

    topology: Topology
    observed: Observed
    release: Release = RELEASE
    admin: dict[str, Server] = field(default_factory=lambda: defaultdict(Server))
    runtime: dict[str, Server] = field(default_factory=lambda: defaultdict(Server))
    clock: FakeClock = field(default_factory=FakeClock)
    journal: Path = Path()

    def as_fleet(self) -> FleetSession:
        connector = SimpleNamespace(link=self._link, separate_link=self._separate_link)
        fleet: Any = SimpleNamespace(
            topology=self.topology,
            release=self.release,
            connector=connector,
            clock=self.clock,
            new_services=(),
            home=SimpleNamespace(journal=lambda _name: self.journal),
            observe=lambda: self.observed,
            desired=lambda _observed: desired_of(self.topology),
        )
        return fleet  # type: ignore[no-any-return]

    def _link(self, spec: NodeSpec) -> Server:
        return self.admin[spec.name]

    def _separate_link(self, spec: NodeSpec, user: User) -> Server:
        assert user is User.LIMITER
        return self.runtime[spec.name]
