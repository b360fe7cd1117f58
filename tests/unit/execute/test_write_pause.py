"""A pause of writes is bounded, prolonged in time or known to have lapsed, and lifted over a fresh connection."""

from collections.abc import Sequence
from typing import cast

import pytest

from rlctl.execute.write_pause import ANSWERED_S, PAUSE_S, WritePause
from rlctl.system.clock import Clock
from rlctl.system.redis import Closed, CommandFailed, NodeLink


class FakeLink:
    """Answers as a primary does, and remembers what it was told."""

    def __init__(self, pause: object = "OK", *, is_gone: bool = False) -> None:
        self.told: list[tuple[object, ...]] = []
        self._pause = pause
        self._is_gone = is_gone

    def pipeline(self, commands: Sequence[tuple[object, ...]]) -> list[object]:
        self.told += commands
        return [self._pause, "role:master\r\nmaster_repl_offset:4711\r\n"]

    def call(self, *command: object) -> object:
        self.told.append(command)
        if self._is_gone:
            raise Closed("gone")
        return "OK"

    def close(self) -> None:
        self.told.append(("closed",))


class FakeClock:
    """Stands still unless told to go on."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


def made(link: FakeLink) -> tuple[WritePause, FakeClock]:
    clock = FakeClock()
    return WritePause(cast("NodeLink", link), cast("Clock", clock)), clock


def test_it_is_bounded_and_tells_the_offset() -> None:
    link = FakeLink()
    pause, _clock = made(link)
    assert pause.extend() == 4711
    assert link.told == [("CLIENT", "PAUSE", 5_000, "WRITE"), ("INFO", "replication")]


@pytest.mark.parametrize(("after_s", "lapsed"), [(PAUSE_S - 0.1, False), (PAUSE_S, True)])
def test_a_pause_that_was_prolonged_too_late_has_lapsed(after_s: float, *, lapsed: bool) -> None:
    pause, clock = made(FakeLink())
    pause.extend()
    clock.at_s += after_s
    pause.extend()
    clock.at_s += 0.1
    pause.extend()
    assert pause.has_lapsed == lapsed


def test_a_server_that_refuses_is_told() -> None:
    with pytest.raises(CommandFailed, match="NOPERM"):
        made(FakeLink(CommandFailed("NOPERM no")))[0].extend()


@pytest.mark.parametrize("is_gone", [False, True])
def test_it_is_lifted_over_a_fresh_connection(*, is_gone: bool) -> None:
    link = FakeLink(is_gone=is_gone)
    made(link)[0].lift()
    assert link.told == [("closed",), ("CLIENT", "UNPAUSE"), ("closed",)]


def test_paused_clients_get_their_answers_before_they_are_hung_up_on() -> None:
    link = FakeLink()
    pause, clock = made(link)
    pause.lift()
    lifted_s = clock.at_s
    pause.disconnect_clients()
    assert clock.at_s == lifted_s + ANSWERED_S
    assert link.told == [
        *(("closed",), ("CLIENT", "UNPAUSE"), ("closed",)),
        *(("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "KILL", "TYPE", "pubsub"), ("closed",)),
    ]
