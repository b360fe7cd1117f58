"""The registry of a fleet: the release in force, and the history of its releases."""

import json
from typing import Any, cast

import pytest

from rlctl.errors import Refused, RlctlError, Unreachable
from rlctl.execute.fleet_records import (
    HISTORY_KEY,
    KEPT,
    RELEASE_KEY,
    add_to_history,
    read_history,
    read_registered,
    write_registered,
)
from rlctl.operations.script_drift import Registered
from rlctl.system.redis import Closed, CommandFailed, NodeLink
from tests.unit.servers import Server

REGISTERED = Registered(release="1.0.0", digest="d", state="pending")


def link(server: Server) -> NodeLink:
    return cast("NodeLink", server)


def test_only_entries_of_one_kind_are_read_newest_first() -> None:
    newest, oldest, other = {"kind": "scripts", "n": 2}, {"kind": "scripts", "n": 1}, {"kind": "rules", "n": 3}
    texts = [*map(json.dumps, (newest, other)), "{torn", '["scripts"]', "null", json.dumps(oldest)]
    server = link(Server(lists={HISTORY_KEY: texts}))
    assert read_history(server, "scripts") == (newest, oldest)
    assert read_history(server, "rules") == (other,)
    assert read_history(server, "locks") == ()


def test_the_history_keeps_the_last_hundred_entries() -> None:
    server = Server()
    for number in range(KEPT + 2):
        add_to_history(link(server), {"n": number, "kind": "scripts"})
    assert [entry["n"] for entry in read_history(link(server), "scripts")] == list(range(KEPT + 1, 1, -1))
    assert (len(server.lists[HISTORY_KEY]), KEPT) == (100, 100)
    assert server.lists[HISTORY_KEY][-1] == '{"kind": "scripts", "n": 2}'


def test_a_longer_history_is_read_up_to_the_hundredth_entry() -> None:
    texts = [json.dumps({"kind": "scripts", "n": number}) for number in range(KEPT + 2)]
    assert len(read_history(link(Server(lists={HISTORY_KEY: texts})), "scripts")) == KEPT


def test_what_is_written_is_read_back() -> None:
    server = Server()
    assert read_registered(link(server)) is None
    write_registered(link(server), REGISTERED)
    assert server.hashes[RELEASE_KEY] == {"release": "1.0.0", "digest": "d", "state": "pending"}
    assert read_registered(link(server)) == REGISTERED


def test_fields_of_a_torn_registry_are_empty() -> None:
    server = Server(hashes={RELEASE_KEY: {"release": "1.0.0"}})
    assert read_registered(link(server)) == Registered(release="1.0.0", digest="", state="")


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        (Closed("connection reset"), Unreachable, "the primary that stores the registry failed: connection reset"),
        (CommandFailed("OOM full"), Refused, "127.0.0.1:7000 refuses to store the registry: OOM full"),
    ],
)
@pytest.mark.parametrize(
    "act",
    [
        read_registered,
        lambda server: write_registered(server, REGISTERED),
        lambda server: add_to_history(server, {}),
        lambda server: read_history(server, "scripts"),
    ],
    ids=["read_registered", "write_registered", "remember", "read_history"],
)
def test_a_server_that_fails_is_named(act: Any, failure: Exception, error: type[RlctlError], text: str) -> None:
    def fail(_command: object) -> object:
        raise failure

    with pytest.raises(error) as caught:
        act(link(Server(answer=fail)))
    assert str(caught.value) == text
    assert caught.value.hint
