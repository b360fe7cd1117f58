"""users.acl: who may do what on data nodes and on sentinels, for the server's version."""

import hashlib

from rlctl.secrets import FleetSecrets, User
from rlctl.topology.nodes import NodeSpec

Version = tuple[int, ...]

REVISION_USER = "rlctl-acl-revision"
SETINFO_SINCE: Version = (7, 2)

_LIBRARIES = ("ping", "hello", "command", "client|setname", "client|id")
_CLUSTER_READS = ("cluster|slots", "cluster|shards", "cluster|nodes", "cluster|info", "cluster|myid")
_CLUSTER_CLIENT = (*_CLUSTER_READS, "readonly", "readwrite", "asking", "wait")
_SENTINEL_LOOKUPS = (
    *("sentinel|get-master-addr-by-name", "sentinel|master", "sentinel|masters"),
    *("sentinel|replicas", "sentinel|slaves", "sentinel|sentinels"),
)
_SENTINEL_READS = (*_SENTINEL_LOOKUPS, "sentinel|ckquorum", "sentinel|myid")
_RULE_READS = ("get", "mget", "hget", "hmget", "hgetall", "exists", "type")
_FAILOVER_BY_SENTINEL = (
    *("ping", "info", "role", "publish", "subscribe", "slaveof", "replicaof", "multi", "exec"),
    *("config|rewrite", "client|setname", "client|kill", "script|kill"),
)
_HELLO = "&__sentinel__:hello"


def users_of(spec: NodeSpec) -> tuple[User, ...]:
    """The users that a node of either kind lets in."""
    return tuple(user for user in User if not (spec.is_sentinel and user is User.REPLICA))


def node_acl(spec: NodeSpec, secrets: FleetSecrets, version: Version, commands: tuple[str, ...]) -> str:
    """The ACL file of a node of either kind."""
    return sentinel_acl(secrets, version) if spec.is_sentinel else data_node_acl(secrets, version, commands)


def data_node_acl(secrets: FleetSecrets, version: Version, commands: tuple[str, ...]) -> str:
    """The ACL file of a data node; `commands` are what the scripts call, which evalsha checks against the caller."""
    limiter = _libraries(version) + _CLUSTER_CLIENT + ("evalsha", "evalsha_ro", "time", "subscribe", "unsubscribe")
    rules = f"({_allow(_RULE_READS)} %R~rlctl:*)"
    monitor = (*_libraries(version), *_CLUSTER_READS, "info", "role", "dbsize", "time")
    return _file(
        secrets,
        # Nobody can log in as it, but a server replays its log as this user and drops every transaction, and every
        # script's writes, that it may not make (redis #14541, valkey #3983).
        "~* &* +@all",
        {
            User.ADMIN: "~* &* +@all",
            User.LIMITER: f"~rl:* &rlctl:* {_allow(limiter + commands)} {rules}",
            User.REPLICA: _allow(("psync", "replconf", "ping")),
            User.SENTINEL: f"{_HELLO} {_allow((*_FAILOVER_BY_SENTINEL, 'hello'))}",
            User.MONITOR: _allow(monitor),
        },
    )


def sentinel_acl(secrets: FleetSecrets, version: Version) -> str:
    """The ACL file of a sentinel: the same people, and peers that only talk about failovers."""
    peers = ("ping", "publish", "hello", "client|setname", "sentinel|is-master-down-by-addr")
    lookups = (*_libraries(version), "subscribe", "unsubscribe", "psubscribe", "punsubscribe", *_SENTINEL_LOOKUPS)
    return _file(
        secrets,
        "",
        {
            User.ADMIN: "~* &* +@all",
            User.LIMITER: f"&* {_allow(lookups)}",
            User.SENTINEL: f"{_HELLO} {_allow(peers)}",
            User.MONITOR: _allow((*_libraries(version), "info", "role", *_SENTINEL_READS)),
        },
    )


def loaded_revision(acl_file: str) -> str | None:
    """The revision in an ACL file, also after the server has saved it in its own words."""
    for line in acl_file.splitlines():
        if line.startswith(f"user {REVISION_USER} "):
            return next((word[1:] for word in line.split() if word.startswith("#")), None)
    return None


def _libraries(version: Version) -> tuple[str, ...]:
    return (*_LIBRARIES, "client|setinfo") if version >= SETINFO_SINCE else _LIBRARIES


def _allow(commands: tuple[str, ...]) -> str:
    return "-@all " + " ".join(f"+{command}" for command in dict.fromkeys(commands))


def _file(secrets: FleetSecrets, nobody: str, rules: dict[User, str]) -> str:
    lines = [f"user default reset off {nobody}".rstrip() + "\n"]
    lines += [f"user {user} reset on #{secrets.password(user).sha256()} {rule}\n" for user, rule in rules.items()]
    body = "".join(lines)
    return body + f"user {REVISION_USER} reset off #{hashlib.sha256(body.encode()).hexdigest()}\n"
