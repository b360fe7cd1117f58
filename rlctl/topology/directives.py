"""Directives of the section `redis:`: those that rlctl writes itself, and the values that are valid."""

import re
from collections.abc import Mapping

from rlctl.files.mistakes import shown

NAME_PATTERN = "[a-z][a-z0-9-]{0,63}"
_LONGEST = 1_000

_NAME = re.compile(NAME_PATTERN)
# Redis splits a line in the same way: a closing quote ends the argument, so a space must follow.
_ARGUMENT = r"""(?:[^\s"']+|[^\s"']*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))"""
_VALUE = re.compile(rf"(?:{_ARGUMENT}(?: +{_ARGUMENT})*)?")

_FILES = "rlctl decides where the files of a node are"
_PROCESS = "the target starts and stops the process"
_LISTENING = "rlctl decides where servers listen and what they allow"
_ROLES = "a failover changes the roles of nodes"

# Directives that a key of the topology sets.
_KEYS: Mapping[str, str] = {
    "port": "local.base_port",
    "bind": "local.address",
    "appendonly": "persistence.mode",
    "save": "persistence.mode",
    "appendfsync": "persistence.fsync",
    "maxmemory": "memory.maxmemory",
    "maxmemory-policy": "memory.policy",
    "min-replicas-to-write": "consistency.min_replicas",
    "min-slaves-to-write": "consistency.min_replicas",
    "min-replicas-max-lag": "consistency.max_lag",
    "min-slaves-max-lag": "consistency.max_lag",
    "protected-mode": "security.acl",
    "aclfile": "security.acl",
    "user": "security.acl",
    "requirepass": "security.acl",
    "masterauth": "security.acl",
    "masteruser": "security.acl",
    "primaryauth": "security.acl",
    "primaryuser": "security.acl",
    "acl-pubsub-default": "security.acl",
    "cluster-enabled": "kind",
    "cluster-node-timeout": "cluster.node_timeout",
    "cluster-require-full-coverage": "cluster.full_coverage",
    "sentinel": "sentinel",
}
# Directives that no key sets, with the reason why they are refused.
_REASONS: Mapping[str, str] = {
    "dir": _FILES,
    "dbfilename": _FILES,
    "appendfilename": _FILES,
    "appenddirname": _FILES,
    "pidfile": _FILES,
    "logfile": _FILES,
    "include": _FILES,
    "daemonize": _PROCESS,
    "supervised": _PROCESS,
    "set-proc-title": _PROCESS,
    "proc-title-template": _PROCESS,
    "bind-source-addr": _LISTENING,
    "replicaof": _ROLES,
    "slaveof": _ROLES,
    "primaryof": _ROLES,
    "replica-read-only": _ROLES,
    "slave-read-only": _ROLES,
    "loadmodule": "a module would have to be on every machine; use a docker.image that has it",
    "rename-command": "rlctl and its scripts call commands by their original names",
}
_KEY_PREFIXES: Mapping[str, str] = {"tls-": "security.tls", "cluster-": "cluster"}
_REASON_PREFIXES: Mapping[str, str] = {
    "replica-announce-": "rlctl decides which addresses nodes announce",
    "slave-announce-": "rlctl decides which addresses nodes announce",
    "unixsocket": _LISTENING,
    "rdma-": _LISTENING,
    "enable-": _LISTENING,
    "syslog-": _PROCESS,
}
OWNED = tuple(sorted({*_KEYS, *_REASONS}))
OWNED_PREFIXES = (*_KEY_PREFIXES, *_REASON_PREFIXES)


def refuse_directive(name: str, value: str) -> str:
    """Why this directive is not allowed in `redis:`; "" if it is allowed."""
    if not _NAME.fullmatch(name):
        return f"{shown(name)} is not the name of a directive; write lower-case letters, digits and dashes"
    if key := _found(name, _KEYS, _KEY_PREFIXES):
        return f"rlctl writes this directive itself; set `{key}` instead"
    if reason := _found(name, _REASONS, _REASON_PREFIXES):
        return f"rlctl writes this directive itself ({reason}); delete it"
    return _refuse_value(value)


def _refuse_value(value: str) -> str:
    if len(value) > _LONGEST:
        return f"the value has {len(value)} characters; write at most {_LONGEST}"
    if not value.isprintable():
        return "the value has a line break or control character; write it on one line without them"
    if not _VALUE.fullmatch(value):
        return f"{shown(value)} has a quote that is not closed, or that no space follows; correct it"
    return ""


def _found(name: str, exact: Mapping[str, str], prefixes: Mapping[str, str]) -> str:
    if name in exact:
        return exact[name]
    return next((text for prefix, text in prefixes.items() if name.startswith(prefix)), "")
