"""Trying directives on a server: each mistake is found, none is invented, and a known answer costs no start."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.errors import Unreachable
from rlctl.state.accepted import AcceptedDirectives
from rlctl.targets.trial import RefusedDirective, TrialServer, check_directives, refusals

NAMES = ("hz", "timeout", "databases", "tcp-backlog", "maxclients")
READY = "1:M 01 Jan 2026 00:00:00.000 * Ready to accept connections unix"


class Stand:
    """A server that refuses some lines, as Redis does: at the first of them, or without naming any."""

    def __init__(self, *wrong: str, deadly: tuple[str, ...] = (), broken: bool = False) -> None:
        self.wrong, self.deadly, self.broken = wrong, deadly, broken
        self.starts = 0

    def __call__(self, conf: str) -> str:
        self.starts += 1
        names = [line.split(" ")[0] for line in conf.splitlines()]
        for number, name in enumerate(names, start=1):
            if name in self.wrong:
                return f"*** FATAL CONFIG FILE ERROR ***\nReading, at line {number}\n>>> '{name} 1'\nno {name}\n"
        if self.broken or set(names) & set(self.deadly):
            return "1:M 01 Jan 2026 00:00:00.000 # Fatal: Out Of Memory\n"
        return READY


def refused(directive: str | None, error: str) -> RefusedDirective:
    return RefusedDirective(server="s", directive=directive, error=error)


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
def test_exactly_the_wrong_ones_are_found(given_names: set[str], wrong: set[str]) -> None:
    stand = Stand(*wrong)
    found = refusals("s", [(name, "1") for name in sorted(given_names)], stand)
    assert set(found) == {refused(name, f"no {name}") for name in given_names & wrong}
    assert stand.starts == len(found) + 1


def test_one_that_kills_without_being_named_is_found_alone() -> None:
    directives = [("databases", "9"), ("hz", "1"), ("timeout", "x")]
    found = refusals("s", directives, Stand("timeout", deadly=("databases",)))
    assert found == (refused("timeout", "no timeout"), refused("databases", "Fatal: Out Of Memory"))


def test_several_that_kill_only_together_have_no_name() -> None:
    def together(conf: str) -> str:
        return "Fatal: too much" if {"hz 1", "timeout 1"} <= set(conf.splitlines()) else READY

    assert refusals("s", [("hz", "1"), ("timeout", "1")], together) == (refused(None, "Fatal: too much"),)


def test_a_server_that_never_starts_is_not_the_files_fault() -> None:
    with pytest.raises(Unreachable, match="s does not start with an empty `redis:` section either: Fatal: Out Of"):
        refusals("s", [("hz", "1")], Stand(broken=True))


def test_a_line_that_is_not_of_the_file_is_not_blamed_on_it() -> None:
    with pytest.raises(Unreachable, match="unixsocket"):
        refusals("s", [("hz", "1")], Stand("unixsocket"))


def test_only_what_was_accepted_is_remembered(tmp_path: Path) -> None:
    accepted, stand = AcceptedDirectives(tmp_path / "accepted.json"), Stand("hz")
    server, newer = TrialServer(name="s", identity="7.0"), TrialServer(name="s", identity="8.0")
    good, bad = (("timeout", "1"),), (("hz", "1"),)
    assert check_directives(server, good, accepted, stand) == check_directives(server, good, accepted, stand) == ()
    assert stand.starts == 1
    check_directives(newer, good, accepted, stand)
    check_directives(server, (("timeout", "2"),), accepted, stand)
    assert stand.starts == 3
    assert check_directives(server, bad, accepted, stand) == check_directives(server, bad, accepted, stand) != ()
    assert stand.starts == 7
