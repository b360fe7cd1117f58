"""What `scripts` reads from a fleet and writes there: the registry, the history, the rights of the runtime user."""

import json
from typing import Any

import pytest

from rlctl.errors import NotFound, Unreachable
from rlctl.execute.fleet_records import HISTORY_KEY, RELEASE_KEY
from rlctl.execute.locking import primary_for_key
from rlctl.execute.progress import Progress
from rlctl.operations import scripts
from rlctl.operations.script_drift import DriftClass, Registered
from rlctl.plan.planner import Plan
from rlctl.plan.steps import LoadScripts, LoadUsers, Step
from rlctl.secrets import FleetSecrets, Secret, User
from rlctl.system.redis import Closed, CommandFailed
from rlctl.topology.model import Topology
from tests.unit.fleets import FLEET_ID, REVISION, changed, cluster, fresh, healthy, killed, name, watched
from tests.unit.servers import RELEASE, Server, Servers

APPLIED = Registered(release=RELEASE.version, digest=RELEASE.digest, state="applied")
FIELDS = {"release": RELEASE.version, "digest": RELEASE.digest}
# The registry and the history lie on different shards.
WIDE = cluster(shards=5)


def keeper_name(servers: Servers, key: str) -> str:
    spec = primary_for_key(servers.as_fleet(), servers.observed, key)
    assert spec is not None
    return spec.name


def keeping(topology: Topology, **fields: str) -> Servers:
    """A fleet whose registry holds these fields."""
    servers = Servers(topology, healthy(topology))
    servers.admin[keeper_name(servers, RELEASE_KEY)].hashes[RELEASE_KEY] = dict(fields)
    return servers


def without_registry() -> Servers:
    """A cluster whose primary of the registry is gone."""
    servers = Servers(cluster(), healthy(cluster()))
    return Servers(cluster(), killed(servers.observed, keeper_name(servers, RELEASE_KEY)))


class Notes(Progress):
    """Progress that keeps its notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def step(self, *_what: object) -> None:
        pass

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_the_status_of_a_fleet(topology: Topology) -> None:
    servers = keeping(topology, **FIELDS, state="applied")
    status = scripts.read_scripts(servers.as_fleet())
    assert (status.registered, status.has_registry, status.observed) == (APPLIED, True, servers.observed)
    document = status.to_json()
    assert document["schema"] == "rlctl.scripts-status/1"
    assert document["applied"] == {"release": RELEASE.version, "state": "applied"}
    assert len(status.rows) == sum(not spec.name.startswith("sentinel") for spec in servers.observed.nodes)
    assert {drift.kind for drift in status.drift} == {DriftClass.UNREACHABLE}, "no node has told its scripts"


def test_a_fleet_without_a_registry() -> None:
    status = scripts.read_scripts(without_registry().as_fleet())
    assert (status.registered, status.has_registry, status.to_json()["applied"]) == (None, False, None)


def test_a_fleet_to_which_no_release_was_applied() -> None:
    status = scripts.read_scripts(keeping(cluster()).as_fleet())
    assert (status.registered, status.has_registry, status.to_json()["applied"]) == (None, True, None)


@pytest.mark.parametrize("read", [scripts.read_scripts, scripts.fleet_history])
def test_a_fleet_that_is_not_deployed(read: Any) -> None:
    with pytest.raises(NotFound, match="fleet limiter is not deployed") as caught:
        read(Servers(cluster(), fresh(cluster())).as_fleet())
    assert caught.value.hint


@pytest.mark.parametrize("topology", [cluster(), WIDE, watched()], ids=["cluster", "wide cluster", "sentinel"])
@pytest.mark.parametrize("state", ["pending", "applied", "dirty"])
def test_a_release_is_registered(topology: Topology, state: str) -> None:
    servers = Servers(topology, healthy(topology))
    scripts._register(servers.as_fleet(), servers.observed, state)
    assert servers.admin[keeper_name(servers, RELEASE_KEY)].hashes[RELEASE_KEY] == FIELDS | {"state": state}
    entries = [json.loads(text) for text in servers.admin[keeper_name(servers, HISTORY_KEY)].lists[HISTORY_KEY]]
    if state == "pending":
        assert entries == []
        return
    [entry] = entries
    assert scripts.fleet_history(servers.as_fleet()) == (entry,)
    assert entry.pop("by")
    assert entry == FIELDS | {"kind": "scripts", "state": state, "at": "2026-01-02T03:04:05+00:00"}


def test_a_release_is_registered_where_the_history_cannot_be_kept() -> None:
    servers = Servers(WIDE, healthy(WIDE))
    lost = keeper_name(servers, HISTORY_KEY)
    servers.observed = killed(servers.observed, lost)
    scripts._register(servers.as_fleet(), servers.observed, "applied")
    assert servers.admin[keeper_name(servers, RELEASE_KEY)].hashes[RELEASE_KEY]["state"] == "applied"
    assert lost not in servers.admin
    with pytest.raises(Unreachable, match="stores the history does not answer"):
        scripts.fleet_history(servers.as_fleet())


def test_without_a_registry_nothing_is_written() -> None:
    servers = without_registry()
    scripts._register(servers.as_fleet(), servers.observed, "applied")
    scripts.register_first(servers.as_fleet(), servers.observed, Notes())
    assert not servers.admin


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, FIELDS | {"state": "applied"}, id="the first release"),
        pytest.param({"release": "0.0.1"}, {"release": "0.0.1"}, id="a later one"),
    ],
)
def test_only_the_first_release_comes_with_a_deploy(before: dict[str, str], after: dict[str, str]) -> None:
    servers, notes = keeping(watched(), **before), Notes()
    scripts.register_first(servers.as_fleet(), servers.observed, notes)
    assert servers.admin["node-0"].hashes[RELEASE_KEY] == after
    assert notes.texts == []


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (scripts.register_first, "the release was not registered: "),
        (scripts._mark_dirty, "the release was not registered as dirty: "),
    ],
)
def test_a_registry_that_fails_is_a_note(act: Any, text: str) -> None:
    servers, notes = keeping(watched()), Notes()
    servers.admin["node-0"].answer = lambda _command: CommandFailed("OOM full")
    act(servers.as_fleet(), servers.observed, notes)
    assert notes.texts == [f"{text}127.0.0.1:7000 refuses to store the registry: OOM full"]


def test_a_failed_apply_marks_the_release_dirty() -> None:
    servers, notes = keeping(watched()), Notes()
    scripts._mark_dirty(servers.as_fleet(), servers.observed, notes)
    assert (servers.admin["node-0"].hashes[RELEASE_KEY]["state"], notes.texts) == ("dirty", [])


def test_the_plan_of_scripts_is_a_part_of_the_whole_plan() -> None:
    observed = changed(killed(healthy(cluster()), "node-5"), "node-0", acl_revision="old", scripts=frozenset())
    servers = Servers(cluster(), observed)
    plan = scripts.script_plan(servers.as_fleet(), observed)
    assert {type(step) for step in plan.steps} <= {LoadScripts, LoadUsers}
    assert any(isinstance(step, LoadUsers) and step.node == "node-0" for step in plan.steps)


def planned(*steps: Step) -> Plan:
    return Plan(fleet="", topology="", observed="", steps=steps)


def users(*nodes: str) -> Plan:
    return planned(*(LoadUsers(node=name(node), revision=REVISION) for node in nodes))


class Secretive(Servers):
    """A fleet whose users have passwords."""

    def as_fleet(self) -> Any:
        found: Any = super().as_fleet()
        found.secrets = FleetSecrets(
            name="limiter",
            fleet_id=FLEET_ID,
            passwords={user: Secret(f"password-of-{user}-0000") for user in User},
            authority=None,
        )
        found.versions = lambda _observed: dict.fromkeys((node.name for node in self.observed.nodes), (7, 0, 15))
        return found


RIGHTS: list[object] = ["commands", "-@all +get +gone", "keys", "~rl:*", "channels", "&rlctl:*"]


def gained_and_lost(answer: object, *nodes: str) -> tuple[set[str], set[str], list[str]]:
    servers = Secretive(watched(), healthy(watched()))
    for node in servers.observed.nodes:
        servers.admin[node.name] = Server(answer=lambda _command: answer)
    change = scripts.read_rights(servers.as_fleet(), servers.observed, users(*nodes))
    assert change is not None
    asked = [node for node, server in servers.admin.items() if server.told]
    return set(change.gained), set(change.lost), asked


def test_the_rights_of_the_runtime_user_before_and_after() -> None:
    gained, lost, asked = gained_and_lost(RIGHTS, "sentinel-0", "node-1", "node-2")
    assert asked == ["node-1"]
    assert lost == {"+gone"}
    assert "+evalsha" in gained
    assert not {"+get", "~rl:*", "&rlctl:*"} & gained


def test_channels_and_keys_are_rights_too() -> None:
    gained, lost, _asked = gained_and_lost([*RIGHTS[:2], "keys", "~old:*", "channels", "&old"], "node-0")
    assert lost == {"+gone", "~old:*", "&old"}
    assert {"~rl:*", "&rlctl:*"} <= gained


def test_without_the_user_every_right_is_gained() -> None:
    gained, lost, _asked = gained_and_lost([], "node-0")
    assert lost == set()
    assert {"+get", "+evalsha"} <= gained


@pytest.mark.parametrize(
    "plan", [planned(), users("sentinel-0"), planned(LoadScripts(node=name("node-0"), scripts=()))]
)
def test_without_new_users_no_rights_are_read(plan: Plan) -> None:
    servers = Secretive(watched(), healthy(watched()))
    assert scripts.read_rights(servers.as_fleet(), servers.observed, plan) is None
    assert not servers.admin


@pytest.mark.parametrize("failure", [Closed("gone"), CommandFailed("NOPERM")])
def test_a_node_that_does_not_tell_its_rights(failure: Exception) -> None:
    def fail(_command: object) -> object:
        raise failure

    servers = Secretive(watched(), healthy(watched()))
    servers.admin["node-0"].answer = fail
    with pytest.raises(Unreachable, match=f"^cannot read the rights of user limiter on node-0: {failure}$"):
        scripts.read_rights(servers.as_fleet(), servers.observed, users("node-0"))
