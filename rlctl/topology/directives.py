"""The free `redis:` mapping: which directives rlctl governs itself, and which values one line can hold."""

import re
from collections.abc import Mapping

from rlctl.files.mistakes import shown

NAME_PATTERN = "[a-z][a-z0-9-]{0,63}"
_LONGEST = 1_000

_NAME = re.compile(NAME_PATTERN)
# How Redis splits a line: a quote ends its argument, and must be closed.
_ARGUMENT = r"""(?:[^\s"']+|[^\s"']*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))"""
_VALUE = re.compile(rf"(?:{_ARGUMENT}(?: +{_ARGUMENT})*)?")

_FILES = "rlctl keeps each node's files where it finds them again"
_PROCESS = "the target starts and stops the process"
_DOORS = "rlctl keeps its servers closed"
_ROLES = "roles belong to the fleet, which changes them in a failover"

# Directive -> the topology key that governs it, where there is one, else the reason.
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
    "bind-source-addr": _DOORS,
    "replicaof": _ROLES,
    "slaveof": _ROLES,
    "primaryof": _ROLES,
    "replica-read-only": _ROLES,
    "slave-read-only": _ROLES,
    "loadmodule": "a module would have to be on every machine; use a docker.image that brings it",
    "rename-command": "rlctl, its scripts and its users name commands as Redis does",
}
_KEY_PREFIXES: Mapping[str, str] = {"tls-": "security.tls", "cluster-": "cluster"}
_REASON_PREFIXES: Mapping[str, str] = {
    "replica-announce-": "rlctl decides which addresses nodes announce",
    "slave-announce-": "rlctl decides which addresses nodes announce",
    "unixsocket": _DOORS,
    "rdma-": _DOORS,
    "enable-": _DOORS,
    "syslog-": _PROCESS,
}
OWNED = tuple(sorted({*_KEYS, *_REASONS}))
OWNED_PREFIXES = (*_KEY_PREFIXES, *_REASON_PREFIXES)


def refuse_directive(name: str, value: str) -> str:
    """Why this directive cannot stand in `redis:`; "" when it can."""
    if not _NAME.fullmatch(name):
        return f"{shown(name)} is not a directive; write lower-case letters, digits and dashes"
    if key := _found(name, _KEYS, _KEY_PREFIXES):
        return f"rlctl writes this directive itself; write `{key}` instead"
    if reason := _found(name, _REASONS, _REASON_PREFIXES):
        return f"rlctl writes this directive itself ({reason}); delete it"
    return _refuse_value(value)


def _refuse_value(value: str) -> str:
    if len(value) > _LONGEST:
        return f"the value has {len(value)} characters; write at most {_LONGEST}"
    if not value.isprintable():
        return "the value holds a line break or control character; write it on one line"
    if not _VALUE.fullmatch(value):
        return f"{shown(value)} has a quote that Redis cannot match; close it, and put a space after it"
    return ""


def _found(name: str, exact: Mapping[str, str], prefixes: Mapping[str, str]) -> str:
    if name in exact:
        return exact[name]
    return next((text for prefix, text in prefixes.items() if name.startswith(prefix)), "")
