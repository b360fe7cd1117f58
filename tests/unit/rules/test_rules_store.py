"""Revisions, the pointer and the history in a server, intact and damaged."""

import json
from typing import Any, cast

import pytest

from rlctl.errors import NotFound, Refused, RlctlError, Unreachable
from rlctl.limits.rule import CHANNEL, HISTORY_KEY, POINTER_KEY, Version, revision_key
from rlctl.rules.store import (
    Pointer,
    read_entries,
    read_pointer,
    revision_number,
    set_pointer,
    store_revision,
    stored_revision,
)
from rlctl.system.redis import Closed, CommandFailed, NodeLink
from tests.unit.rules.documents import EXAMPLE, revision
from tests.unit.servers import Server

STORED = revision(EXAMPLE, 3)


def link(server: Server) -> NodeLink:
    return cast("NodeLink", server)


def pointing(*entries: object, **fields: str) -> NodeLink:
    return link(Server(hashes={POINTER_KEY: fields}, lists={HISTORY_KEY: [json.dumps(entry) for entry in entries]}))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("12", 12),
        ("9" * 15, 10**15 - 1),
        ("9" * 16, None),
        ("", None),
        ("-1", None),
        ("x", None),
        ("²", None),
    ],
)
def test_the_number_of_a_revision(text: str, number: int | None) -> None:
    assert revision_number(text) == number


ENTRIES = ({"revision": 8}, {"revision": 11}, {"revision": "12"}, ["torn"])


@pytest.mark.parametrize(
    ("fields", "number", "last"),
    [
        pytest.param({"revision": "3", "digest": "d", "last": "7"}, 3, 7, id="a pointer"),
        pytest.param({"revision": "3", "digest": "d"}, 3, 3, id="of an early version"),
        pytest.param({"revision": "x", "digest": "d", "last": "7"}, None, 11, id="no number: the history knows"),
        pytest.param({"revision": "x", "digest": "d", "last": "70"}, None, 70, id="no number, but the last one is"),
        pytest.param({"revision": "3", "digest": "d", "last": "y"}, 3, 11, id="no last number"),
        pytest.param({"revision": "30", "digest": "d", "last": "y"}, 30, 30, id="the pointer is the highest"),
    ],
)
def test_a_pointer(fields: dict[str, str], number: int | None, last: int) -> None:
    found = read_pointer(pointing(*ENTRIES, **fields))
    version = None if number is None else Version(revision=number, digest="d")
    assert found == Pointer(version=version, last=last, held=(fields["revision"], "d"))
    if version is not None:
        assert found.required() == version
        return
    with pytest.raises(Refused, match="is not valid: its revision is 'x'"):
        found.required()


def test_a_pointer_without_a_digest() -> None:
    found = read_pointer(pointing(revision="3"))
    assert found == Pointer(version=Version(revision=3, digest=""), last=3, held=("3", ""))


def test_without_a_pointer_no_rules_were_ever_applied() -> None:
    assert read_pointer(pointing(*ENTRIES)) is None


def test_a_stored_revision() -> None:
    server = link(Server(texts={revision_key(3): STORED.to_text(), revision_key(4): "{"}))
    assert stored_revision(server, 3) == STORED
    with pytest.raises(NotFound, match="has no revision 2 of the rules"):
        stored_revision(server, 2)
    with pytest.raises(Refused, match="revision 4 of the rules cannot be read: "):
        stored_revision(server, 4)


def moving(answer: int) -> Server:
    return Server(answer=lambda _command: answer)


BEFORE = Pointer(version=Version(revision=2, digest="two"), last=2, held=("2", "two"))


@pytest.mark.parametrize(("before", "held"), [(None, ("", "")), (BEFORE, ("2", "two"))], ids=["first", "later"])
def test_a_revision_is_stored_in_one_step(before: Pointer | None, held: tuple[str, str]) -> None:
    server = moving(1)
    store_revision(link(server), before, revision(EXAMPLE, 103), {"why": "apply"})
    [(verb, _script, *words)] = server.told
    assert (verb, words[0]) == ("EVAL", 4)
    assert words[1:5] == [POINTER_KEY, revision_key(103), revision_key(3), HISTORY_KEY]
    wanted = revision(EXAMPLE, 103)
    assert words[5:] == [*held, 103, wanted.version.digest, wanted.to_text(), '{"why": "apply"}', 100, CHANNEL, 3]


def test_going_back_stores_nothing() -> None:
    server = moving(1)
    set_pointer(link(server), BEFORE, Version(revision=1, digest="one"), {})
    assert server.told[0][7:12] == ("2", "two", 1, "one", "")


def test_another_operator_was_quicker() -> None:
    with pytest.raises(Refused, match="another operator changed"):
        store_revision(link(moving(0)), None, STORED, {})
    with pytest.raises(Refused, match="another operator changed"):
        set_pointer(link(moving(0)), BEFORE, STORED.version, {})


def test_entries_of_the_history() -> None:
    texts = [json.dumps({"revision": number}) for number in range(101)]
    assert [entry["revision"] for entry in read_entries(link(Server(lists={HISTORY_KEY: texts})))] == list(range(100))
    torn = {"why": "an entry that cannot be read"}
    damaged = ["{", "[1]", "", json.dumps({"why": "apply"}), "[" * 200_000]
    assert read_entries(link(Server(lists={HISTORY_KEY: damaged}))) == (torn, torn, torn, {"why": "apply"}, torn)


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        (Closed("connection reset"), Unreachable, "the primary that stores the rules failed: connection reset"),
        (CommandFailed("OOM full"), Refused, "127.0.0.1:7000 refuses to store the rules: OOM full"),
    ],
)
@pytest.mark.parametrize(
    "act",
    [
        read_pointer,
        read_entries,
        lambda server: stored_revision(server, 1),
        lambda server: store_revision(server, None, STORED, {}),
        lambda server: set_pointer(server, BEFORE, STORED.version, {}),
    ],
    ids=["read_pointer", "read_entries", "stored_revision", "store_revision", "set_pointer"],
)
def test_a_server_that_fails_is_named(act: Any, failure: Exception, error: type[RlctlError], text: str) -> None:
    def fail(_command: object) -> object:
        raise failure

    with pytest.raises(error) as caught:
        act(link(Server(answer=fail)))
    assert caught.value.message == text
    assert caught.value.hint
