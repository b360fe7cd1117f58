"""One node answers slowly, endlessly or with nonsense: it is named, and the other nodes are reported as usual."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from rlctl.system.redis import CommandFailed, Credentials, LinkFailure, NodeLink
from tests.local.driver import LocalFleet, cluster_document, wait_for
from tests.local.hostile_resp import HOST, MODES, hostile
from tests.seed import chance

ANSWER_S = 0.5
# The time of an answer, with a margin for a busy machine.
PATIENCE_S = 20.0
PAST_COUNTING = ["drips", "pours numbers", "a huge array", "deep", "huge numbers", "texts for numbers"]
OTHERS = [mode for mode in MODES if mode not in PAST_COUNTING]
# `make soak` runs all the others.
CHOSEN = OTHERS if "RLCTL_SOAK_S" in os.environ else chance("hostile nodes").sample(OTHERS, 3)
SHOWN = {"node-hung", "node-nonsense", "node-stranger", "node-foreign", "node-down", "node-denied", "node-loading"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A fleet without users: rlctl queries every listener, because no password can leak."""
    document = cluster_document(name="lied-to", security={"acl": False})
    made = LocalFleet(folder=tmp_path_factory.mktemp("lied-to"), document=document)
    made.write()
    try:
        made.deploy()
        made.kill("node-5")
        yield made
    finally:
        made.end_all()


@pytest.mark.parametrize("mode", MODES)
def test_a_call_ends_in_its_time_with_an_answer_or_a_named_failure(fleet: LocalFleet, mode: str) -> None:
    began_s = time.monotonic()
    with hostile(mode, fleet.base_port + 5) as port:
        link, told = NodeLink(HOST, port, Credentials(), timeout_s=ANSWER_S), f"{HOST}:{port}: "
        try:
            link.pipeline([("INFO",), ("CLUSTER", "NODES")])
        except LinkFailure as failure:
            told = str(failure)
        finally:
            link.close()
    assert told.startswith(f"{HOST}:{port}: ")
    assert len(told) < 400
    assert time.monotonic() - began_s < PATIENCE_S


@pytest.mark.parametrize("mode", MODES)
def test_status_names_the_node_and_judges_the_others(fleet: LocalFleet, mode: str) -> None:
    began_s = time.monotonic()
    with hostile(mode, fleet.base_port + 5):
        ran = fleet.run("status", "-o", "json", expect=None)
    assert time.monotonic() - began_s < PATIENCE_S
    assert ran.code in {11, 12}, ran.err
    nodes = {node["name"]: node["alive"] for node in ran.json()["nodes"]}
    assert nodes == {**dict.fromkeys(nodes, True), "node-5": False}
    assert {one["code"] for one in ran.json()["findings"] if one["subject"] == "node-5"} & SHOWN


@pytest.mark.parametrize("mode", [*PAST_COUNTING, *CHOSEN])
def test_no_command_waits_longer_or_calls_it_a_bug(fleet: LocalFleet, mode: str) -> None:
    with hostile(mode, fleet.base_port + 5):
        for words in (
            "deploy --yes",
            "doctor",
            "env",
            "unlock",
            "failover 1 --dry-run",
            "scripts status",
            "rules status",
        ):
            began_s = time.monotonic()
            ran = fleet.run(*words.split(), expect=None)
            assert ran.code != 1, (words, ran.err)
            assert time.monotonic() - began_s < PATIENCE_S, words


def test_an_interrupted_look_does_not_wait_for_the_node(fleet: LocalFleet) -> None:
    """Observing a silent node takes 2 s. A busy machine may need a second try to show that this one took less."""
    with hostile("silent", fleet.base_port + 5):
        assert min(_ends_after_s(fleet) for _ in range(3)) < 1.0


def _ends_after_s(fleet: LocalFleet) -> float:
    """Seconds until `status` ends after a Ctrl-C during its query of the silent node; inf if that came too late."""
    with fleet.spawn("status") as status:
        try:
            port = fleet.base_port + 5
            wait_for(lambda: status.poll() is not None or _has_connected(status.pid, port), "a question")
            began_s = time.monotonic()
            status.send_signal(signal.SIGINT)
            out, said = status.communicate(timeout=PATIENCE_S)
        finally:
            status.kill()
    assert status.returncode == 130 or out, said
    return time.monotonic() - began_s if status.returncode == 130 else float("inf")


def _has_connected(pid: int, port: int) -> bool:
    with suppress(psutil.Error):
        return any(one.raddr and one.raddr.port == port for one in psutil.Process(pid).net_connections("tcp"))
    return False


def test_an_error_reply_is_no_failure_of_the_link(fleet: LocalFleet) -> None:
    with hostile("NOSCRIPT", fleet.base_port + 5) as port:
        link = NodeLink(HOST, port, Credentials(), timeout_s=PATIENCE_S)
        [answer] = link.pipeline([("EVALSHA", "0" * 40, 0)])
        link.close()
    assert isinstance(answer, CommandFailed)
    assert answer.prefix == "NOSCRIPT"


@pytest.mark.parametrize("mode", OTHERS if "RLCTL_SOAK_S" in os.environ else ["drips", *CHOSEN[:1]])
def test_destroy_is_not_kept_from_its_work(fleet: LocalFleet, mode: str) -> None:
    fleet.deploy()
    fleet.kill("node-5")
    with hostile(mode, fleet.base_port + 5):
        fleet.run("destroy", "--confirm", "lied-to")
    assert fleet.processes() == []
