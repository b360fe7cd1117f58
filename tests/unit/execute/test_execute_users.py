"""Users are set one by one, others deleted, all read back; a node that was not finished lacks the revision."""

from collections.abc import Sequence
from typing import cast

import pytest

from rlctl.execute.users import load_users, set_revision, set_users
from rlctl.render.acl import REVISION_USER
from rlctl.system.redis import Closed, CommandFailed, NodeLink
from rlctl.topology.nodes import NodeName

FILE = f"user default reset off\nuser limiter reset on #aa +ping\nuser {REVISION_USER} reset off #bb\n"
LISTED = ["user default off -@all", "user limiter on #aa -@all +ping"]
NODES = [NodeName("node-0"), NodeName("node-1")]


class FakeLink:
    """A server that lists these users, and refuses or closes the connection where it is told to."""

    def __init__(self, listed: Sequence[str] = LISTED, *, refuses: str = "", is_gone: bool = False) -> None:
        self.told: list[tuple[object, ...]] = []
        self.listed = list(listed)
        self._refuses = refuses
        self._is_gone = is_gone

    def pipeline(self, commands: Sequence[tuple[object, ...]]) -> list[object]:
        return [self._answer(command) for command in commands]

    def call(self, *command: object) -> object:
        answer = self._answer(command)
        if isinstance(answer, CommandFailed):
            raise answer
        return answer

    def _answer(self, command: tuple[object, ...]) -> object:
        if self._is_gone:
            raise Closed("gone")
        self.told.append(command)
        match command[1]:
            case "USERS":
                return [line.split()[1] for line in self.listed]
            case "LIST":
                return self.listed
            case "DELUSER":
                self.listed = [line for line in self.listed if line.split()[1] not in command]
                return 1
            case _:
                return CommandFailed("ERR no") if self._refuses in command else "OK"


def as_link(fake: FakeLink) -> NodeLink:
    return cast("NodeLink", fake)


def test_each_user_is_set_and_the_revision_is_left_as_it_was() -> None:
    fake = FakeLink()
    assert set_users(as_link(fake), FILE) is None
    assert fake.told == [
        ("ACL", "SETUSER", "default", "reset", "off"),
        ("ACL", "SETUSER", "limiter", "reset", "on", "#aa", "+ping"),
        ("ACL", "USERS"),
        ("ACL", "LIST"),
    ]
    assert set_revision(as_link(fake), FILE) is None
    assert fake.told[-1] == ("ACL", "SETUSER", REVISION_USER, "reset", "off", "#bb")


def test_a_user_that_the_file_does_not_know_is_deleted() -> None:
    fake = FakeLink([*LISTED, "user other on nopass -@all"])
    assert set_users(as_link(fake), FILE) is None
    assert ("ACL", "DELUSER", "other") in fake.told


@pytest.mark.parametrize(
    ("fake", "says"),
    [
        pytest.param(FakeLink(refuses="limiter"), "ERR no", id="refused"),
        pytest.param(FakeLink(is_gone=True), "gone", id="no answer"),
        pytest.param(FakeLink(LISTED[:1]), "the server does not list limiter as", id="not in force"),
    ],
)
def test_what_went_wrong(fake: FakeLink, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(set_users(as_link(fake), FILE))


@pytest.mark.parametrize("fake", [FakeLink(refuses=REVISION_USER), FakeLink(is_gone=True)])
def test_a_revision_that_cannot_be_set(fake: FakeLink) -> None:
    assert set_revision(as_link(fake), FILE) in {"ERR no", "gone"}


def test_a_node_that_failed_gets_neither_file_nor_revision() -> None:
    links = dict(zip(NODES, [FakeLink(refuses="limiter"), FakeLink()], strict=True))
    written: list[Sequence[NodeName]] = []
    errors = load_users(
        dict.fromkeys(NODES, FILE), lambda node: as_link(links[node]), lambda nodes: written.append(nodes) or {}
    )
    assert errors == {"node-0": "ERR no"}
    assert written == [["node-1"]]
    assert [REVISION_USER in str(links[node].told) for node in NODES] == [False, True]


def test_a_file_that_cannot_be_written_leaves_the_revision_as_it_was() -> None:
    fake = FakeLink()
    errors = load_users({NODES[0]: FILE}, lambda _node: as_link(fake), lambda nodes: dict.fromkeys(nodes, "disk full"))
    assert errors == {"node-0": "disk full"}
    assert REVISION_USER not in str(fake.told)
