"""A fleet of servers in memory: what the scripts' commands read and write there, and a server that fails."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from rlctl.execute.fleet import Fleet
from rlctl.observe.model import Observed
from rlctl.scripts.model import Release
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
    """A link to one server, as one user; `answer` may raise, or return None to let the server answer itself."""

    endpoint: str = "127.0.0.1:7000"
    answer: Answer = lambda _command: None
    hashes: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
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
            case ("HGETALL", key):
                return [word for pair in self.hashes[key].items() for word in pair]
            case ("HSET", key, *words):
                self.hashes[key] |= dict(zip(words[0::2], words[1::2], strict=True))
                return len(words) // 2
            case ("LPUSH", key, text):
                self.lists[key].insert(0, text)
                return len(self.lists[key])
            case ("LTRIM", key, first, last):
                self.lists[key] = self.lists[key][first : last + 1]
                return "OK"
            case ("LRANGE", key, first, last):
                return self.lists[key][first : last + 1]
            case ("UNLINK", _key):
                return 1
            case _:
                return CommandFailed(f"ERR unknown command {command[0]}")


@dataclass
class Servers:
    """What scripts/ needs of a Fleet: its nodes by name, and the links as the limiter's user apart."""

    topology: Topology
    observed: Observed
    release: Release = RELEASE
    admin: dict[str, Server] = field(default_factory=lambda: defaultdict(Server))
    runtime: dict[str, Server] = field(default_factory=lambda: defaultdict(Server))

    def as_fleet(self) -> Fleet:
        connector = SimpleNamespace(link=self._link, separate_link=self._separate_link)
        fleet: Any = SimpleNamespace(
            topology=self.topology,
            release=self.release,
            connector=connector,
            clock=SimpleNamespace(now=lambda: datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)),
            observe=lambda: self.observed,
            desired=lambda _observed: desired_of(self.topology),
        )
        return fleet  # type: ignore[no-any-return]

    def _link(self, spec: NodeSpec) -> Server:
        return self.admin[spec.name]

    def _separate_link(self, spec: NodeSpec, user: User) -> Server:
        assert user is User.LIMITER
        return self.runtime[spec.name]
