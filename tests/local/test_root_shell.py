"""The root shell that waits for commands, here on this machine."""

from collections.abc import Iterator

import pytest

from rlctl.errors import TimedOut, Unreachable
from rlctl.system import root_shell
from rlctl.system.root_shell import RootShell


@pytest.fixture
def shell() -> Iterator[RootShell]:
    one = RootShell(["sh"], "host h1")
    yield one
    one.close()


def test_scripts_answer_in_turn(shell: RootShell) -> None:
    assert shell.run("echo one; echo two") == "one\ntwo"
    assert shell.run("cat <<'RULES'\na table\nRULES") == "a table"
    assert shell.run(":") == ""


def test_a_script_that_fails_says_why(shell: RootShell) -> None:
    with pytest.raises(Unreachable, match="host h1: no such thing"):
        shell.run("echo no such thing >&2; exit 3")
    assert shell.run("echo goes on") == "goes on"


def test_a_late_answer_is_not_taken_for_the_next_one(shell: RootShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_shell, "ANSWER_S", 0.2)
    with pytest.raises(TimedOut):
        shell.run("sleep 1; echo late")
    monkeypatch.setattr(root_shell, "ANSWER_S", 30.0)
    assert shell.run("echo now") == "now"


def test_a_connection_that_ended_is_told(shell: RootShell) -> None:
    with pytest.raises(Unreachable, match="the connection ended"):
        shell.run("kill -9 $$")
