"""A topology file with edits that deploy refuses: every other command works on the fleet as it was deployed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.local.driver import LocalFleet, cluster_document, is_gone, sentinel_document, wait_for

MakeFleet = Callable[[dict[str, Any]], LocalFleet]
DIFFERS = "topology-differs"
# Each command must work and have the exit code of a healthy fleet.
COMMANDS = [
    (("env",), 0),
    (("scripts", "status"), 0),
    (("scripts", "plan"), 0),
    (("scripts", "apply", "--yes"), 0),
    (("limit", "--algorithm", "sliding_counter", "--limit", "5", "--window", "1m", "ada"), 0),
    (("rules", "status"), 0),
    (("capacity", "measure", "--interval", "100ms", "--sample", "10"), 0),
    (("failover", "0", "--dry-run"), 10),
    (("fence", "node-0", "--dry-run"), 10),
    (("unlock",), 0),
]


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LocalFleet]]:
    """One deployed fleet of each kind. Every test writes its own topology file."""
    made: dict[str, LocalFleet] = {}
    for kind, document in (("cluster", cluster_document()), ("sentinel", sentinel_document())):
        made[kind] = LocalFleet(folder=tmp_path_factory.mktemp(kind), document=document)
        made[kind].write()
    try:
        for fleet in made.values():
            fleet.deploy()
        yield made
    finally:
        for fleet in made.values():
            fleet.end_all()


def change(fleet: LocalFleet, document: dict[str, Any], **changes: Any) -> None:
    """The document with these settings merged into its sections."""
    merged = {key: document[key] | value if isinstance(value, dict) else value for key, value in changes.items()}
    fleet.document = document | merged
    fleet.write()


@pytest.fixture
def shrunk(request: pytest.FixtureRequest, fleets: dict[str, LocalFleet]) -> Iterator[LocalFleet]:
    """A fleet whose file has fewer replicas than were deployed. With the previous file it is healthy again."""
    fleet = fleets[request.param]
    document = fleet.document
    replicas = {"cluster": 0, "sentinel": 1}[request.param]
    change(fleet, document, **{request.param: {"replicas": replicas}})
    try:
        yield fleet
    finally:
        fleet.document = document
        fleet.write()
        fleet.deploy()


KINDS = pytest.mark.parametrize("shrunk", ["cluster", "sentinel"], indirect=True)


@KINDS
def test_status_and_doctor_show_the_deployed_fleet(shrunk: LocalFleet) -> None:
    """Also while a former replica that the file no longer has is the primary and owns slots."""
    shrunk.run("failover", "0", "--yes")
    wait_for(lambda: len(shrunk.status(expect=None)["findings"]) == 1, "all nodes know of the failover")
    found = shrunk.status(expect=11)
    assert found["state"] == "degraded"
    assert [(one["code"], one["severity"], one["subject"]) for one in found["findings"]] == [
        (DIFFERS, "degraded", "fleet")
    ]
    assert ".replicas" in found["findings"][0]["text"]
    assert "deploy would refuse" in found["findings"][0]["text"]
    assert len(found["nodes"]) == 6
    assert all(node["alive"] for node in found["nodes"])
    [check] = [
        one for one in shrunk.run("doctor", "-o", "json", expect=None).json()["checks"] if one["name"] == DIFFERS
    ]
    assert check["severity"] == "warning"
    assert "deploy --dry-run" in check["fix"]
    assert DIFFERS in shrunk.run("doctor", "--gate", "deploy", expect=8).out
    assert DIFFERS in shrunk.run("status", "--views").err
    for words in (("deploy", "--yes"), ("deploy", "--dry-run")):
        assert ".replicas" in shrunk.run(*words, expect=8).err


@KINDS
@pytest.mark.parametrize(("words", "code"), [pytest.param(*one, id=" ".join(one[0][:2])) for one in COMMANDS])
def test_every_other_command_works_on_the_deployed_fleet(shrunk: LocalFleet, words: tuple[str, ...], code: int) -> None:
    ran = shrunk.run(*words, "-o", "json", expect=code)
    assert DIFFERS in ran.err
    if words[0] == "env":
        assert len(ran.json()["nodes"]) == (6 if shrunk.document["kind"] == "cluster" else 3)
    if words[:2] == ("scripts", "status"):
        assert len(ran.json()["nodes"]) == (6 if shrunk.document["kind"] == "cluster" else 3)
    if words[0] == "limit":
        assert ran.json()["source"] == "redis"
    assert shrunk.run("history", "-o", "json").json()["operations"][0]["command"] == "deploy"


@KINDS
def test_a_node_that_the_file_no_longer_names_is_fenced_and_missed(shrunk: LocalFleet) -> None:
    last = "node-5" if shrunk.document["kind"] == "cluster" else "node-2"
    shrunk.run("fence", last, "--confirm", shrunk.name)
    wait_for(lambda: found_in(shrunk) == {(DIFFERS, "fleet"), ("node-fenced", last)}, "the fence, and nothing else")
    shrunk.run("unfence", last, "--yes")
    shrunk.kill(last)
    wait_for(lambda: {("node-down", last), (DIFFERS, "fleet")} <= found_in(shrunk), "the dead node is missed")


def found_in(fleet: LocalFleet) -> set[tuple[str, str]]:
    return {(one["code"], one["subject"]) for one in fleet.status(expect=None)["findings"]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"cluster": {"shards": 4}}, "cluster.shards", id="shards"),
        pytest.param({"target": "docker"}, "target local", id="target"),
        pytest.param({"kind": "sentinel"}, "kind cluster", id="kind"),
        pytest.param({"local": {"base_port": 10_500}}, "local.base_port", id="base port"),
        pytest.param({"security": {"tls": True}}, "security.tls", id="tls"),
    ],
)
def test_other_edits_that_deploy_refuses(fleets: dict[str, LocalFleet], changes: dict[str, Any], says: str) -> None:
    fleet = fleets["cluster"]
    document = fleet.document
    change(fleet, {"security": {}} | document, **changes)
    try:
        found = fleet.status(expect=11)
        assert [one["code"] for one in found["findings"]] == [DIFFERS]
        assert says in found["findings"][0]["text"]
        assert says in fleet.run("deploy", "--yes", expect=8).err
    finally:
        fleet.document = document
        fleet.write()


def test_edits_that_deploy_can_do_are_judged_by_the_file(fleets: dict[str, LocalFleet]) -> None:
    fleet = fleets["cluster"]
    document = fleet.document
    change(fleet, document, cluster={"replicas": 0}, memory={"maxmemory": "72mb"})
    try:
        findings = fleet.status(expect=11)["findings"]
        assert {one["code"] for one in findings} == {DIFFERS, "setting-drift"}
        change(fleet, document, cluster={"replicas": 2})
        assert {one["code"] for one in fleet.status(expect=11)["findings"]} >= {"node-down"}
        assert DIFFERS not in {one["code"] for one in fleet.status(expect=11)["findings"]}
    finally:
        fleet.document = document
        fleet.write()
    assert fleet.status()["state"] == "healthy"


@pytest.mark.parametrize("changes", [{"cluster": {"replicas": 0}}, {"target": "docker"}], ids=["replicas", "target"])
def test_destroy_finds_what_was_deployed(make_fleet: MakeFleet, changes: dict[str, Any]) -> None:
    fleet = make_fleet(cluster_document())
    fleet.deploy()
    pids = [process.pid for process in fleet.processes()]
    change(fleet, fleet.document, **changes)
    report = fleet.run("destroy", "--confirm", fleet.name, "-o", "json").json()
    assert len(report["removed"]) == len(pids) == 6
    assert all(map(is_gone, pids))
