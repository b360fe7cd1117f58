"""users.acl: the rights of each Redis user on data nodes and sentinels, for the server's version."""

import hashlib
from collections.abc import Iterable, Mapping

from rlctl.secrets import FleetSecrets, Secret, User
from rlctl.services import key_prefix, user_of
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


def users_of(spec: NodeSpec, secrets: FleetSecrets) -> dict[str, Secret]:
    """The users of a data node or sentinel, with their passwords."""
    users = (user for user in User if not (spec.is_sentinel and user is User.REPLICA))
    services = {user_of(service): password for service, password in secrets.services.items()}
    return {user.value: secrets.password(user) for user in users} | services


def node_acl(spec: NodeSpec, secrets: FleetSecrets, version: Version, commands: tuple[str, ...]) -> str:
    """The ACL file of a data node or sentinel."""
    return sentinel_acl(secrets, version) if spec.is_sentinel else data_node_acl(secrets, version, commands)


def data_node_acl(secrets: FleetSecrets, version: Version, commands: tuple[str, ...]) -> str:
    """The ACL file of a data node. `commands` are the commands that the scripts call.

    The users that run scripts get the right to these commands, because the server checks each command in a script
    against the rights of the user that called EVALSHA.
    """
    # ioredis runs INFO at each connect and warns if the server denies INFO. coredis runs ROLE on the primary that
    # Sentinel reports, and fails if the server denies ROLE. Both are allowed, since their replies contain no secret.
    limiter = (
        _libraries(version)
        + _CLUSTER_CLIENT
        + ("info", "role", "evalsha", "evalsha_ro", "time", "subscribe", "unsubscribe")
    )
    monitor = (*_libraries(version), *_CLUSTER_READS, "info", "role", "dbsize", "time")
    return _file(
        secrets,
        # The default user is off, but a server replays its append-only file as this user. Without these rights, the
        # server drops transactions and writes of scripts (redis #14541, valkey #3983).
        "~* &* +@all",
        {
            User.ADMIN: "~* &* +@all",
            User.LIMITER: _runtime(None, limiter + commands),
            User.REPLICA: _allow(("psync", "replconf", "ping")),
            User.SENTINEL: f"{_HELLO} {_allow((*_FAILOVER_BY_SENTINEL, 'hello'))}",
            User.MONITOR: _allow(monitor),
        },
        {service: _runtime(service, limiter + commands) for service in secrets.services},
    )


def sentinel_acl(secrets: FleetSecrets, version: Version) -> str:
    """The ACL file of a sentinel. Limiters may only look up nodes; other sentinels may only run failover commands."""
    peers = ("ping", "publish", "hello", "client|setname", "sentinel|is-master-down-by-addr")
    lookups = (*_libraries(version), "subscribe", "unsubscribe", "psubscribe", "punsubscribe", *_SENTINEL_LOOKUPS)
    lookup_rules = f"&* {_allow(lookups)}"
    return _file(
        secrets,
        "",
        {
            User.ADMIN: "~* &* +@all",
            User.LIMITER: lookup_rules,
            User.SENTINEL: f"{_HELLO} {_allow(peers)}",
            User.MONITOR: _allow((*_libraries(version), "info", "role", *_SENTINEL_READS)),
        },
        dict.fromkeys(secrets.services, lookup_rules),
    )


def loaded_revision(acl_file: str) -> str | None:
    """The revision in an ACL file, even if the server has rewritten the file; None if the file has no revision."""
    for line in acl_file.splitlines():
        if line.startswith(f"user {REVISION_USER} "):
            return next((word[1:] for word in line.split() if word.startswith("#")), None)
    return None


def user_rules(acl_file: str) -> dict[str, tuple[str, ...]]:
    """The rules of each user in an ACL file or in the reply of ACL LIST, which has the same form."""
    return {name: tuple(rules) for _user, name, *rules in map(str.split, acl_file.splitlines())}


def differing_users(acl_file: str, listed: Iterable[str]) -> tuple[str, ...]:
    """The users whose passwords, keys or channels differ between ACL LIST and the file.

    Commands are not compared, because Redis 7.0 does not list them as the file does. It lists a category with nearly
    the same commands, followed by the exceptions, such as `+@fast -role`.
    """
    wanted, found = _access(acl_file), _access("\n".join(listed))
    names = sorted({*wanted, *found} - {REVISION_USER})
    return tuple(name for name in names if wanted.get(name) != found.get(name))


def _access(users: str) -> Mapping[str, frozenset[str]]:
    """Each user's passwords, keys and channels, as a set because servers list them in any order."""
    bare = {name: {word.strip("()") for word in rules} for name, rules in user_rules(users).items()}
    marks = ("#", "~", "%", "&", "on", "off", "nopass")
    return {name: frozenset(word for word in words if word.startswith(marks)) for name, words in bare.items()}


def _libraries(version: Version) -> tuple[str, ...]:
    return (*_LIBRARIES, "client|setinfo") if version >= SETINFO_SINCE else _LIBRARIES


def _allow(commands: tuple[str, ...]) -> str:
    return "-@all " + " ".join(f"+{command}" for command in dict.fromkeys(commands))


def _runtime(service: str | None, commands: tuple[str, ...]) -> str:
    """Rights of a user that runs the scripts, on the keys of one service (None: the keys of all services)."""
    return f"~{key_prefix(service)}* &rlctl:* {_allow(commands)} ({_allow(_RULE_READS)} %R~rlctl:*)"


def _file(secrets: FleetSecrets, default_rules: str, rules: Mapping[User, str], services: Mapping[str, str]) -> str:
    lines = [f"user default reset off {default_rules}".rstrip() + "\n"]
    lines += [_user(user, secrets.password(user), rule) for user, rule in rules.items()]
    lines += [_user(user_of(service), secrets.services[service], rule) for service, rule in services.items()]
    body = "".join(lines)
    return body + f"user {REVISION_USER} reset off #{hashlib.sha256(body.encode()).hexdigest()}\n"


def _user(name: str, password: Secret, rule: str) -> str:
    return f"user {name} reset on #{password.sha256()} {rule}\n"
