"""users.acl: the rights of each user for each version, without plain passwords."""

import hashlib
from dataclasses import replace

import pytest

from rlctl.render.acl import (
    REVISION_USER,
    Version,
    data_node_acl,
    differing_users,
    loaded_revision,
    node_acl,
    sentinel_acl,
    user_rules,
    users_of,
)
from rlctl.secrets import FleetSecrets, Secret, User
from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.nodes import NodeSpec, all_nodes
from tests.unit.fleets import FLEET_ID

SECRETS = FleetSecrets(
    name="limiter",
    fleet_id=FLEET_ID,
    passwords={user: Secret(f"password-of-{user}-0000") for user in User},
    authority=None,
)
COMMANDS = ("get", "set", "zadd")


def data_acl(secrets: FleetSecrets, version: Version) -> str:
    return data_node_acl(secrets, version, COMMANDS)


OLD, NEW = (7, 0, 15), (7, 2)
RENDERERS = pytest.mark.parametrize("render", [data_acl, sentinel_acl], ids=["data node", "sentinel"])
VERSIONS = pytest.mark.parametrize("version", [OLD, NEW, (8, 0, 1)], ids=["7.0", "7.2", "8.0"])
SETINFO = "+client|setinfo"

LIMITER = (
    "~rl:* &rlctl:* -@all +ping +hello +command +client|setname +client|id "
    "+cluster|slots +cluster|shards +cluster|nodes +cluster|info +cluster|myid +readonly +readwrite +asking +wait "
    "+info +role +evalsha +evalsha_ro +time +subscribe +unsubscribe "
    "+get +set +zadd "
    "(-@all +get +mget +hget +hmget +hgetall +exists +type %R~rlctl:*)"
)
DATA_NODE = {
    "rlctl": "~* &* +@all",
    "limiter": LIMITER,
    "replica": "-@all +psync +replconf +ping",
    "sentinel": (
        "&__sentinel__:hello -@all +ping +info +role +publish +subscribe +slaveof +replicaof +multi +exec "
        "+config|rewrite +client|setname +client|kill +script|kill +hello"
    ),
    "monitor": (
        "-@all +ping +hello +command +client|setname +client|id "
        "+cluster|slots +cluster|shards +cluster|nodes +cluster|info +cluster|myid +info +role +dbsize +time"
    ),
}
LOOKUPS = (
    "+sentinel|get-master-addr-by-name +sentinel|master +sentinel|masters "
    "+sentinel|replicas +sentinel|slaves +sentinel|sentinels"
)
SENTINEL = {
    "rlctl": "~* &* +@all",
    "limiter": (
        "&* -@all +ping +hello +command +client|setname +client|id "
        f"+subscribe +unsubscribe +psubscribe +punsubscribe {LOOKUPS}"
    ),
    "sentinel": "&__sentinel__:hello -@all +ping +publish +hello +client|setname +sentinel|is-master-down-by-addr",
    "monitor": (
        "-@all +ping +hello +command +client|setname +client|id "
        f"+info +role {LOOKUPS} +sentinel|ckquorum +sentinel|myid"
    ),
}


def sha256(user: str) -> str:
    return hashlib.sha256(f"password-of-{user}-0000".encode()).hexdigest()


def whole(rules: dict[str, str], nobody: str = "") -> str:
    users = [f"user {user} reset on #{sha256(user)} {rule}\n" for user, rule in rules.items()]
    body = f"user default reset off{nobody}\n" + "".join(users)
    return body + f"user {REVISION_USER} reset off #{hashlib.sha256(body.encode()).hexdigest()}\n"


def rule_of(text: str, user: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"user {user} ")]
    return line.split()[2:]


def test_a_data_node() -> None:
    assert data_node_acl(SECRETS, OLD, COMMANDS) == whole(DATA_NODE, " ~* &* +@all")


def test_a_sentinel() -> None:
    assert sentinel_acl(SECRETS, OLD) == whole(SENTINEL)


def of_services(*services: str) -> FleetSecrets:
    return replace(SECRETS, services={name: Secret(f"password-of-limiter-{name}-0000") for name in services})


def test_a_service_has_the_rights_of_the_limiter_on_its_own_keys() -> None:
    users = {f"limiter-{name}": LIMITER.replace("~rl:*", f"~rl:{name}:*") for name in ("checkout", "search")}
    assert data_node_acl(of_services("checkout", "search"), OLD, COMMANDS) == whole(DATA_NODE | users, " ~* &* +@all")


def test_a_service_only_looks_up_on_sentinels() -> None:
    assert sentinel_acl(of_services("checkout"), OLD) == whole(SENTINEL | {"limiter-checkout": SENTINEL["limiter"]})


def test_the_users_of_a_node_are_those_of_its_file() -> None:
    secrets = of_services("checkout")
    data, sentinel = (node_named(name) for name in ("node-0", "sentinel-0"))
    for spec in (data, sentinel):
        names = set(user_rules(node_acl(spec, secrets, NEW, COMMANDS))) - {"default", REVISION_USER}
        assert users_of(spec, secrets).keys() == names
    assert users_of(data, secrets)["limiter-checkout"] == secrets.services["checkout"]
    assert "replica" not in users_of(sentinel, secrets)


def node_named(name: str) -> NodeSpec:
    topology = Topology(name="limiter", kind=Kind.SENTINEL, target=TargetName.LOCAL)
    return next(spec for spec in all_nodes(topology) if spec.name == name)


@RENDERERS
@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        pytest.param((7, 0), False, id="7.0"),
        pytest.param((7, 0, 15), False, id="7.0.15"),
        pytest.param((7, 2), True, id="7.2"),
        pytest.param((7, 2, 4), True, id="7.2.4"),
        pytest.param((8, 0), True, id="8.0"),
    ],
)
def test_libraries_name_themselves_where_the_server_knows_how(render: object, version: Version, has_it: bool) -> None:  # noqa: FBT001
    text = render(SECRETS, version)
    for user in ("limiter", "monitor"):
        assert (SETINFO in rule_of(text, user)) is has_it
    assert SETINFO not in rule_of(text, "sentinel")


@VERSIONS
def test_no_password_is_written_in_plain(version: Version) -> None:
    text = data_node_acl(SECRETS, version, COMMANDS) + sentinel_acl(SECRETS, version)
    assert "password-of" not in text
    assert ">" not in text
    assert "nopass" not in text


@VERSIONS
def test_the_limiter_cannot_bring_its_own_code_or_change_the_server(version: Version) -> None:
    for text in (data_node_acl(SECRETS, version, COMMANDS), sentinel_acl(SECRETS, version)):
        commands = {word[1:].split("|")[0] for word in rule_of(text, "limiter") if word.startswith("+")}
        forbidden = {"eval", "eval_ro", "script", "config", "function", "fcall", "debug", "flushall", "keys", "acl"}
        assert not commands & forbidden
        assert "-@all" in rule_of(text, "limiter")


@VERSIONS
def test_the_monitor_reads_no_secrets_and_no_keys(version: Version) -> None:
    for text in (data_node_acl(SECRETS, version, COMMANDS), sentinel_acl(SECRETS, version)):
        rule = rule_of(text, "monitor")
        assert not [word for word in rule if word.startswith(("~", "%", "&", "+config", "+acl"))]


@RENDERERS
def test_the_default_user_is_off(render: object) -> None:
    text = render(SECRETS, OLD)
    first = text.splitlines()[0]
    assert first.startswith("user default reset off")
    assert " on" not in first
    assert ">" not in first
    assert "nopass" not in first


def test_a_data_node_replays_its_log_as_a_user_who_may_write() -> None:
    rule = rule_of(data_node_acl(SECRETS, OLD, COMMANDS), "default")
    assert {"off", "~*", "&*", "+@all"} <= set(rule)


def test_replicas_have_no_user_on_sentinels() -> None:
    assert "user replica" not in sentinel_acl(SECRETS, OLD)


@RENDERERS
def test_the_revision_survives_the_servers_own_words(render: object) -> None:
    text = render(SECRETS, OLD)
    revision = loaded_revision(text)
    assert revision is not None
    saved = (
        "user default off sanitize-payload resetchannels -@all\n"
        f"user {REVISION_USER} off sanitize-payload #{revision} resetchannels -@all\n"
    )
    assert loaded_revision(saved) == revision


def test_the_revision_follows_from_users_and_version() -> None:
    other = FleetSecrets(
        name="limiter",
        fleet_id=FLEET_ID,
        passwords=SECRETS.passwords | {User.MONITOR: Secret("another-password-000")},
        authority=None,
    )
    texts = [
        data_node_acl(SECRETS, OLD, COMMANDS),
        data_node_acl(SECRETS, NEW, COMMANDS),
        data_node_acl(other, OLD, COMMANDS),
        sentinel_acl(SECRETS, OLD),
    ]
    assert len({loaded_revision(text) for text in texts}) == len(texts)
    assert loaded_revision(data_node_acl(SECRETS, (7, 0), COMMANDS)) == loaded_revision(
        data_node_acl(SECRETS, OLD, COMMANDS)
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("user default on nopass ~* &* +@all\n", id="somebody else's"),
        pytest.param(f"user {REVISION_USER} off resetchannels -@all\n", id="no hash"),
        pytest.param(f"user {REVISION_USER}-2 off #abc\n", id="another user"),
    ],
)
def test_no_revision(text: str) -> None:
    assert loaded_revision(text) is None


FILE = (
    "user default reset off\n"
    "user limiter reset on #aa ~rl:* &rlctl:* -@all +ping +info (-@all +get %R~rlctl:*)\n"
    f"user {REVISION_USER} reset off #bb\n"
)
DEFAULT = "user default off sanitize-payload resetchannels -@all"
LISTED = (
    "user limiter on sanitize-payload #aa ~rl:* resetchannels &rlctl:* -@all +info +ping "
    "(%R~rlctl:* resetchannels -@all +get)"
)


def test_the_rules_of_each_user() -> None:
    rules = user_rules(FILE)
    assert list(rules) == ["default", "limiter", REVISION_USER]
    assert rules["limiter"][:3] == ("reset", "on", "#aa")
    assert rules["limiter"][-2:] == ("+get", "%R~rlctl:*)")


@pytest.mark.parametrize(
    ("listed", "differing"),
    [
        pytest.param([DEFAULT, LISTED], (), id="the server's own words and order"),
        pytest.param([DEFAULT, LISTED, f"user {REVISION_USER} off #cc -@all"], (), id="another revision"),
        pytest.param([DEFAULT], ("limiter",), id="missing"),
        pytest.param([DEFAULT, LISTED, "user other on nopass ~* +@all"], ("other",), id="one too many"),
        pytest.param([DEFAULT, LISTED.replace("+info +ping", "+@fast -role")], (), id="commands by category"),
        pytest.param([DEFAULT, LISTED.replace(" on ", " off ")], ("limiter",), id="off"),
        pytest.param([DEFAULT, LISTED.replace("#aa", "nopass")], ("limiter",), id="any password"),
        pytest.param([DEFAULT, LISTED.replace("#aa", "#aa #dd")], ("limiter",), id="another password"),
        pytest.param([DEFAULT, LISTED.replace("~rl:*", "~*")], ("limiter",), id="other keys"),
        pytest.param([DEFAULT, LISTED.replace("&rlctl:*", "&*")], ("limiter",), id="other channels"),
        pytest.param(["user default on nopass ~* &* +@all", LISTED], ("default",), id="an open default user"),
    ],
)
def test_users_that_differ_from_the_file(listed: list[str], differing: tuple[str, ...]) -> None:
    assert differing_users(FILE, listed) == differing
