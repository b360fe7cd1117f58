"""Loading scripts on one node: which answers of the server count as loaded."""

from typing import Any, cast

import pytest

from rlctl.scripts.loader import load_scripts
from rlctl.system.redis import Closed, CommandFailed, NodeLink
from tests.unit.servers import RELEASE, Server

FIRST, SECOND = RELEASE.scripts[:2]
Command = tuple[Any, ...]


def load(loaded: list[object], held: object) -> str | None:
    answers = iter([*loaded, held])
    return load_scripts(cast("NodeLink", Server(answer=lambda _command: next(answers))), (FIRST, SECOND))


def test_scripts_are_loaded_and_then_looked_for() -> None:
    server = Server(
        answer=lambda command: (
            [1, 1] if "EXISTS" in command else [FIRST.sha1, SECOND.sha1][command[2:] == (SECOND.source,)]
        )
    )
    assert load_scripts(cast("NodeLink", server), (FIRST, SECOND)) is None
    assert server.told == [
        ("SCRIPT", "LOAD", FIRST.source),
        ("SCRIPT", "LOAD", SECOND.source),
        ("SCRIPT", "EXISTS", FIRST.sha1, SECOND.sha1),
    ]


@pytest.mark.parametrize(
    ("loaded", "held", "wrong"),
    [
        pytest.param([FIRST.sha1, SECOND.sha1], [1, 1], None, id="both"),
        pytest.param(
            [FIRST.sha1, CommandFailed("ERR compiling")], [1, 0], f"{SECOND.name}: ERR compiling", id="refused"
        ),
        pytest.param(
            [FIRST.sha1, "0" * 40],
            [1, 1],
            f"{SECOND.name}: the node loaded {'0' * 40}, the release has {SECOND.sha1}",
            id="another script",
        ),
        pytest.param(
            [FIRST.sha1, SECOND.sha1],
            [0, 1],
            f"{FIRST.name}: the node loaded {FIRST.sha1}, the release has {FIRST.sha1}",
            id="gone again",
        ),
        pytest.param([FIRST.sha1, SECOND.sha1], CommandFailed("NOPERM"), "NOPERM", id="EXISTS is refused"),
    ],
)
def test_what_a_server_answers(loaded: list[object], held: object, wrong: str | None) -> None:
    assert load(loaded, held) == wrong


def test_a_server_that_closes_the_connection() -> None:
    def close(_command: Command) -> object:
        raise Closed("gone")

    assert load_scripts(cast("NodeLink", Server(answer=close)), (FIRST,)) == "gone"
