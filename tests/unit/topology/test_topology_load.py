import pytest

from rlctl.errors import Exit, InvalidFile
from rlctl.files.mistakes import ImpossibleSettings, Problem
from rlctl.topology.load import load_topology, raise_at_lines
from rlctl.topology.model import (
    ClusterShape,
    Consistency,
    DockerPlace,
    Engine,
    EvictionPolicy,
    Fsync,
    HostEntry,
    Kind,
    Memory,
    Persistence,
    PersistenceMode,
    Security,
    SentinelShape,
    TargetName,
    Topology,
)

HEAD = "version: 1\nname: limiter\nkind: cluster\ntarget: local\n"
ON_HOSTS = HEAD.replace("local", "hosts")
ON_DOCKER = HEAD.replace("local", "docker")
SENTINEL = HEAD.replace("cluster", "sentinel")
POLICIES = ", ".join(EvictionPolicy)
SECTIONS = (
    "version, name, kind, target, cluster, sentinel, consistency, memory, persistence, engine, "
    "security, local, docker, drills, redis, hosts"
)
NAME_RULE = "write a lower-case letter, then up to 39 lower-case letters, digits or dashes, with no dash at the end"
MINIMAL = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.LOCAL)


def load(text: str) -> Topology:
    return load_topology(text.encode(), "t.yaml")


def refusal(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as refused:
        load(text)
    assert refused.value.exit_code is Exit.INVALID_FILE
    assert "rlctl init" in refused.value.hint
    return refused.value.message.splitlines()


def test_required_keys_are_enough() -> None:
    assert load(HEAD) == MINIMAL


@pytest.mark.parametrize("section", ["cluster", "local", "redis", "hosts"])
def test_an_empty_section_is_as_good_as_none(section: str) -> None:
    assert load(f"{HEAD}{section}:\n  # shards: 3\n") == MINIMAL


def test_everything_can_be_set() -> None:
    topology = load(
        "{version: 1, name: a-1, kind: sentinel, target: hosts,\n"
        "cluster: {shards: 5, replicas: 2, node_timeout: 500ms, full_coverage: yes},\n"
        "sentinel: {replicas: 3, sentinels: 5, quorum: 3, down_after: 2s, failover_timeout: 1m},\n"
        "consistency: {min_replicas: 1, max_lag: 3s},\n"
        "memory: {maxmemory: 1GB, policy: allkeys-lru},\n"
        "persistence: {mode: rdb, fsync: no},\n"
        "engine: {flavor: valkey, version: 8.10},\n"
        "redis: {maxclients: 010, activedefrag: yes, notify-keyspace-events: '', loglevel: notice},\n"
        "security: {acl: On, tls: TRUE},\n"
        "docker: {image: 'localhost:5000/valkey/valkey:8.1-alpine', subnet: 172.28.0.0/24},\n"
        "hosts: [{address: 10.0.0.1, name: a, zone: 1, user: ops, port: 2222, nodes: 4, base_port: 7100,"
        " sentinel: off}, {address: 10.0.0.2}]}\n"
    )
    assert topology == Topology(
        name="a-1",
        kind=Kind.SENTINEL,
        target=TargetName.HOSTS,
        cluster=ClusterShape(shards=5, replicas=2, node_timeout_ms=500, full_coverage=True),
        sentinel=SentinelShape(replicas=3, sentinels=5, quorum=3, down_after_ms=2_000, failover_timeout_ms=60_000),
        consistency=Consistency(min_replicas=1, max_lag_ms=3_000),
        memory=Memory(maxmemory_bytes=1024**3, policy=EvictionPolicy.ALLKEYS_LRU),
        persistence=Persistence(mode=PersistenceMode.RDB, fsync=Fsync.NO),
        engine=Engine(flavor="valkey", version="8.10"),
        redis=(
            ("activedefrag", "yes"),
            ("loglevel", "notice"),
            ("maxclients", "010"),
            ("notify-keyspace-events", ""),
        ),
        security=Security(acl=True, tls=True),
        docker=DockerPlace(image="localhost:5000/valkey/valkey:8.1-alpine", subnet="172.28.0.0/24"),
        hosts=(
            HostEntry(
                address="10.0.0.1",
                name="a",
                zone="1",
                user="ops",
                port=2_222,
                nodes=4,
                base_port=7_100,
                sentinel=False,
            ),
            HostEntry(address="10.0.0.2"),
        ),
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param(name, shown or name, id=case)
        for case, name, shown in [
            ("capital", "Limiter", ""),
            ("path", "../limiter", ""),
            ("slash", "a/b", ""),
            ("digit-first", "1a", ""),
            ("dash-last", "a-", ""),
            ("dot", "a.b", ""),
            ("41-letters", "a" * 41, ""),
            ("quoted-empty", "''", "`"),
            ("very-long", "a" * 500, "a" * 80 + "..."),
        ]
    ],
)
def test_impossible_names(name: str, shown: str) -> None:
    shown = "" if shown == "`" else shown
    text = HEAD.replace("name: limiter", f"name: {name}")
    assert refusal(text) == [f"t.yaml:2: name: `{shown}` is not valid; {NAME_RULE}"]


@pytest.mark.parametrize("name", ["a", "a1", "a--b", "a" * 40, "null-1"])
def test_possible_names(name: str) -> None:
    assert load(HEAD.replace("limiter", name)).name == name


WRONG_TYPES = [
    (
        "list-for-section",
        "cluster: [3]",
        "cluster: must be a mapping; write settings such as `cluster: {shards: 3}`",
    ),
    (
        "value-for-section",
        "memory: 1gb",
        "memory: must be a mapping; write settings such as `memory: {maxmemory: 256mb}`",
    ),
    (
        "value-for-redis",
        "redis: 7",
        "redis: must be a mapping; write settings such as `redis: {maxclients: 20000}`",
    ),
    (
        "value-for-hosts",
        "hosts: 10.0.0.1",
        "hosts: must be a list; write one `- address: 10.0.0.11` for each host",
    ),
    (
        "value-for-host",
        "hosts: [10.0.0.1]",
        "hosts[0]: must be a mapping; write settings such as `- address: 10.0.0.11`",
    ),
    (
        "host-without-address",
        "hosts: [{zone: a}]",
        "hosts[0].address: is missing; write a line such as `address: 10.0.0.11`",
    ),
    (
        "list-for-value",
        "cluster: {shards: [3]}",
        "cluster.shards: must be one value, not a list or mapping",
    ),
    (
        "nothing-for-value",
        "cluster: {shards: }",
        "cluster.shards: has no value; write one, or delete the line",
    ),
    (
        "null-for-value",
        "engine: {version: null}",
        "engine.version: has no value; write one, or delete the line",
    ),
    (
        "list-for-directive",
        "redis: {save: [1]}",
        "redis.save: must be one value, not a list or mapping",
    ),
    (
        "nothing-for-directive",
        "redis: {maxclients: }",
        "redis.maxclients: has no value; write one, or delete the line",
    ),
    (
        "quoted-number",
        'local: {base_port: "7000"}',
        "local.base_port: `7000` is quoted text; write the number without quotes",
    ),
    *(
        (
            f"number-{number}",
            f"local: {{base_port: {number}}}",
            f"local.base_port: `{number}` is not a whole number; write plain digits, such as 3",
        )
        for number in ["1:30", "0x1F", "07000", "7_000", "7000.0", "7e3", "+7000", "-0", "abc", "true"]
    ),
    (
        "enormous-number",
        f"local: {{base_port: {'9' * 5_000}}}",
        f"local.base_port: `{'9' * 80}...` is too large; write a smaller number",
    ),
    (
        "quoted-boolean",
        "security: {tls: 'yes'}",
        "security.tls: `yes` is quoted text; write true or false without quotes",
    ),
    ("number-for-boolean", "security: {tls: 1}", "security.tls: `1` is not a boolean; write true or false"),
    (
        "text-for-list",
        "security: {services: checkout}",
        "security.services: `checkout` is not a list; write one such as [checkout, search]",
    ),
    (
        "list-in-list",
        "security: {services: [[checkout]]}",
        "security.services[0]: must be one value, not a list or mapping",
    ),
    (
        "twice",
        "security: {services: [search, checkout, search]}",
        "security.services: `search` is given twice; keep one",
    ),
    *(
        (
            f"service-{name}",
            f"security: {{services: [checkout, '{name}']}}",
            f"security.services[1]: `{name}` is not valid; {NAME_RULE}",
        )
        for name in ["Search", "7", "a_b", "a:b", "a*", "{a}", "a-", "a" * 41]
    ),
    ("enum", "memory: {policy: lru}", f"memory.policy: `lru` is not known; write one of {POLICIES}"),
    (
        "enum-capital",
        "persistence: {mode: AOF}",
        "persistence.mode: `AOF` is not known; write one of aof, rdb, none",
    ),
    (
        "duration-plain",
        "cluster: {node_timeout: 5}",
        "cluster.node_timeout: `5` has no unit; write it with one, such as 5s",
    ),
    (
        "duration-zero",
        "consistency: {max_lag: 0}",
        "consistency.max_lag: `0` has no unit; write it with one, such as 5s",
    ),
    (
        "size-plain",
        "memory: {maxmemory: 256}",
        "memory.maxmemory: `256` has no unit; write it with one, such as 256mb",
    ),
    (
        "two-lines",
        'engine: {version: "8\\n0"}',
        "engine.version: `8\\n0` has an unprintable character; write printable text on one line",
    ),
    (
        "bidi",
        "engine: {version: 8\u202e0}",
        "engine.version: `8\\u202e0` has an unprintable character; write printable text on one line",
    ),
    (
        "unknown-near",
        "cluster: {node-timeout: 5s}",
        "the key `cluster.node-timeout` is unknown; did you mean `node_timeout`?",
    ),
    ("unknown-far", "drills: {x: 1}", "the key `drills.x` is unknown; known are allow"),
    ("unknown-section", "persistance: {}", "the key `persistance` is unknown; did you mean `persistence`?"),
    ("unknown-misplaced", "shards: 3", "the key `shards` is unknown; it belongs in `cluster`"),
    ("unknown-at-all", "zzz: 3", f"the key `zzz` is unknown; known are {SECTIONS}"),
    ("unknown-unprintable", '"\\x07zz": 3', "the text has an escaped control character; delete it"),
    (
        "unknown-in-host",
        "hosts: [{address: 10.0.0.1, adress: 1}]",
        "the key `hosts[0].adress` is unknown; did you mean `address`?",
    ),
    (
        "directive-two-lines",
        'redis: {"a\\nb": [1]}',
        "redis.a\\nb: must be one value, not a list or mapping",
    ),
]


@pytest.mark.parametrize(("line", "message"), [pytest.param(*case, id=name) for name, *case in WRONG_TYPES])
def test_wrong_types(line: str, message: str) -> None:
    assert refusal(f"{HEAD}\n# five and six\n{line}\n")[0] == f"t.yaml:7: {message}"


def test_an_item_of_a_list_is_blamed_at_its_own_line() -> None:
    [told] = refusal(HEAD + "security:\n  services:\n    - checkout\n    - Search\n")
    assert told.startswith("t.yaml:8: security.services[1]: `Search` is not valid; ")


def test_services_keep_their_order() -> None:
    assert load(HEAD + "security: {services: [search, checkout]}").security.services == ("search", "checkout")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("version", "t.yaml:2: version: is missing; write a line such as `version: 1`"),
        ("name", "t.yaml:2: name: is missing; write a line such as `name: limiter`"),
        ("kind", "t.yaml:2: kind: is missing; write a line such as `kind: cluster`"),
        ("target", "t.yaml:2: target: is missing; write a line such as `target: local`"),
    ],
)
def test_missing_keys_are_blamed_on_the_first_setting(key: str, message: str) -> None:
    lines = [line for line in HEAD.splitlines() if not line.startswith(key)]
    assert refusal("# a comment\n" + "\n".join(lines)) == [message]


@pytest.mark.parametrize("version", ["0", "2", "-1"])
def test_of_another_format_nothing_else_is_judged(version: str) -> None:
    text = HEAD.replace("version: 1", f"version: {version}") + "later: {}\nmemory: 5\n"
    assert refusal(text) == [f"t.yaml:1: version: {version} is not supported; write 1"]


def test_all_mistakes_are_told_in_line_order() -> None:
    assert refusal(
        "target: locl\n"
        "version: 1\n"
        "name: limiter\n"
        "sentinel:\n"
        "  quorum: 5\n"
        "memory: {maxmemory: 5, maxmemory: 6}\n"
        "redis:\n"
        "  port: 7000\n"
        "clutser: {}\n"
    ) == [
        "t.yaml:1: kind: is missing; write a line such as `kind: cluster`",
        "t.yaml:1: target: `locl` is not known; write one of local, docker, hosts",
        "t.yaml:5: sentinel.quorum: 5 is more than the 3 sentinels of the fleet; write at most 3, best 2",
        "t.yaml:6: `maxmemory` is given twice, first on line 6; keep one",
        "t.yaml:6: memory.maxmemory: `5` has no unit; write it with one, such as 256mb",
        "t.yaml:8: redis.port: rlctl writes this directive itself; set `local.base_port` instead",
        "t.yaml:9: the key `clutser` is unknown; did you mean `cluster`?",
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD.replace("cluster", "x") + "consistency: {min_replicas: 2}", id="kind"),
        pytest.param(HEAD.replace("local", "x") + "security: {acl: no}", id="target"),
        pytest.param(HEAD + "cluster: x\nconsistency: {min_replicas: 2}", id="section"),
        pytest.param(HEAD + "hosts: [{address: 10.0.0.11}, {zone: a}]", id="host"),
        pytest.param(HEAD + "hosts: [{address: 10.0.0.11}, 7]", id="host-whole"),
    ],
)
def test_nothing_is_concluded_from_what_cannot_be_read(text: str) -> None:
    assert len(refusal(text)) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("sentinel: {sentinels: 1}", 5, id="the-cause-when-the-symptom-is-a-default"),
        pytest.param("cluster:\n  shards:\n    2", 7, id="the-value's-own-line"),
        pytest.param("local:\n\n  base_port: 60000", 7, id="the-setting"),
    ],
)
def test_lines_of_what_contradicts(text: str, line: int) -> None:
    assert [message.split(":")[1] for message in refusal(HEAD + text)] == [str(line)]


def test_sections_of_the_other_kind_are_checked_too() -> None:
    assert refusal(f"{SENTINEL}cluster: {{shards: 2}}\ndocker: {{subnet: 10.0.0.0/24}}\n") == [
        "t.yaml:5: cluster.shards: 2 is out of range; write 3 to 1000",
        (
            "t.yaml:6: docker.subnet: `10.0.0.0/24` is not a network within 172.16.0.0/12; "
            "write auto, or a network such as 172.28.0.0/24"
        ),
    ]


def test_hosts_are_wanted_for_target_hosts() -> None:
    message = "hosts: target hosts needs at least one host; write one such as `hosts: [{address: 10.0.0.11}]`"
    assert refusal(ON_HOSTS) == [f"t.yaml:4: {message}"]
    assert refusal(f"{ON_HOSTS}\nhosts: []\n") == [f"t.yaml:6: {message}"]
    assert len(load(f"{ON_HOSTS}hosts:\n- address: 10.0.0.1\n").hosts) == 1


def test_a_flavor_wants_its_image() -> None:
    assert refusal(f"{ON_DOCKER}engine: {{flavor: valkey}}\n") == [
        (
            "t.yaml:5: docker.image: redis:8.0 is a redis image, but engine.flavor is valkey; "
            "write an image such as valkey/valkey:8.1, or change engine.flavor"
        )
    ]


def test_what_turns_out_impossible_later_is_named_at_its_line() -> None:
    text = f"{SENTINEL}redis:\n  hz: 10\n  timeout: 5\n"
    impossible = ImpossibleSettings(
        (
            Problem(paths=("redis.timeout",), text="redis.timeout: refused"),
            Problem(paths=("redis",), text="redis: refused together"),
            Problem(paths=("redis.gone",), text="redis.gone: refused"),
        ),
        hint="correct them",
    )
    with pytest.raises(InvalidFile) as caught:
        raise_at_lines(text.encode(), "t.yaml", impossible)
    first = text.splitlines().index("redis:") + 1
    assert caught.value.message.splitlines() == [
        f"t.yaml:{first}: redis: refused together",
        f"t.yaml:{first}: redis.gone: refused",
        f"t.yaml:{first + 2}: redis.timeout: refused",
    ]
    assert caught.value.hint == "correct them"
