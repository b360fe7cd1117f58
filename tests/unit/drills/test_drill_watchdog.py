"""What a watchdog is told: how long to wait for the next word, or that all is done."""

import os
from collections.abc import Iterator

import pytest

from rlctl.drills.engine import watchdog
from rlctl.drills.engine.watchdog import last_word
from rlctl.drills.engine.watchdog_client import DONE

LONG_S, SHORT_S = 600.0, 0.05


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where its input can be written."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream, os.fdopen(writing, "wb"):
        monkeypatch.setattr(watchdog.sys, "stdin", stream)
        yield writing


@pytest.mark.parametrize(
    ("words", "deadline_s", "last"),
    [
        pytest.param(f"{DONE}\n", LONG_S, DONE, id="done"),
        pytest.param(f"{LONG_S}\n{DONE}\n", SHORT_S, DONE, id="done right after a longer time"),
        pytest.param("", SHORT_S, None, id="nothing in time"),
        pytest.param(f"{SHORT_S}\n", LONG_S, None, id="nothing in the shorter time"),
        pytest.param(f"{LONG_S}\n{SHORT_S}\n", LONG_S, None, id="the last time counts"),
    ],
)
def test_what_was_said_last(told: int, words: str, deadline_s: float, last: str | None) -> None:
    os.write(told, words.encode())
    assert last_word(deadline_s) == last


def test_the_end_of_the_drill_is_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading) as stream:
        monkeypatch.setattr(watchdog.sys, "stdin", stream)
        assert last_word(LONG_S) == ""
