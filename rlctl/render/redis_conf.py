"""Configuration of data nodes. rlctl writes static.conf; the server never rewrites it."""

from dataclasses import dataclass
from pathlib import PurePath

from rlctl.render.text import Directive, conf_text, quote
from rlctl.secrets import FleetSecrets, User
from rlctl.topology.model import Kind, PersistenceMode, TargetName, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeSpec

# CONFIG_MIN_RESERVED_FDS of Redis: descriptors that a server reserves for its own files.
OWN_OPEN_FILES = 32
MAXCLIENTS = "maxclients"
_DEFAULT_MAXCLIENTS = 10_000
_DEFAULT_BACKLOG = 511
# Value of proto-max-bulk-len, the length of the longest string. With the default of 512mb, one SETRANGE of the runtime
# user could fill a node. The limiters need less than this value: a full rolling_ring takes 4,000,024 bytes, and a
# revision of 3,800 rules takes 1.8 million bytes.
_LONGEST_TEXT = 8 * 2**20
SNAPSHOT_POINTS = "3600 1 300 100 60 10000"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """Paths of one node's files, as the server sees them. Without a log file, the server logs to its output."""

    folder: PurePath
    own_settings: PurePath | None = None
    has_log: bool = True

    @property
    def settings(self) -> PurePath:
        """The folder of the files that rlctl writes."""
        return self.own_settings or self.folder

    @property
    def node_conf(self) -> PurePath:
        """The main configuration file of a data node. The server and Sentinel rewrite it."""
        return self.folder / "node.conf"

    @property
    def follow_conf(self) -> PurePath:
        """The file that names the primary of a server with a fixed start command. rlctl writes it before a start."""
        return self.folder / "follow.conf"

    @property
    def static_conf(self) -> PurePath:
        """Configuration file that rlctl writes. It is included last, so it takes precedence."""
        return self.settings / "static.conf"

    @property
    def sentinel_conf(self) -> PurePath:
        """Configuration file of a sentinel, which Sentinel rewrites."""
        return self.folder / "sentinel.conf"

    @property
    def cluster_conf(self) -> PurePath:
        """The file nodes.conf: the node's table of the cluster."""
        return self.folder / "nodes.conf"

    @property
    def acl(self) -> PurePath:
        return self.settings / "users.acl"

    @property
    def pid(self) -> PurePath:
        """The pid file, which the server writes when it starts to listen."""
        return self.folder / "redis.pid"

    @property
    def log(self) -> PurePath:
        return self.folder / "redis.log"

    @property
    def certificate(self) -> PurePath:
        return self.settings / "tls.crt"

    @property
    def key(self) -> PurePath:
        return self.settings / "tls.key"

    @property
    def ca(self) -> PurePath:
        """The CA certificate of the fleet."""
        return self.settings / "ca.crt"


def max_clients(topology: Topology) -> int:
    """`maxclients` of a data node. A server lowers it if its limit of open files is too small."""
    return _number(topology, MAXCLIENTS, _DEFAULT_MAXCLIENTS)


def open_files(topology: Topology) -> int:
    """Open files that a data node needs for its clients and for itself."""
    return max_clients(topology) + OWN_OPEN_FILES


def backlog(topology: Topology) -> int:
    """`tcp-backlog`: connections that may wait to be accepted."""
    return _number(topology, "tcp-backlog", _DEFAULT_BACKLOG)


def _number(topology: Topology, name: str, default: int) -> int:
    """A number from the section `redis` of the topology, else `default`."""
    text = dict(topology.redis).get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def tunables(topology: Topology) -> dict[str, str]:
    """The directives that the topology sets on a data node, with values in the form of CONFIG GET."""
    mode = topology.persistence.mode
    settings = {
        "maxmemory": str(topology.memory.maxmemory_bytes),
        "maxmemory-policy": topology.memory.policy.value,
        "proto-max-bulk-len": str(_LONGEST_TEXT),
        "appendonly": "yes" if mode is PersistenceMode.AOF else "no",
        "appendfsync": topology.persistence.fsync.value,
        "save": SNAPSHOT_POINTS if mode is PersistenceMode.RDB else "",
        "min-replicas-to-write": str(topology.consistency.min_replicas),
        "min-replicas-max-lag": str(topology.consistency.max_lag_ms // 1000),
        # With the default, the primary delays each transfer to a new replica by 5 s, to wait for other replicas that
        # could share it.
        "repl-diskless-sync-delay": "0",
    }
    if topology.kind is Kind.CLUSTER:
        settings |= {
            "cluster-node-timeout": str(topology.cluster.node_timeout_ms),
            "cluster-require-full-coverage": "yes" if topology.cluster.full_coverage else "no",
            # The topology assigns each node to a shard; replica migration would change that.
            "cluster-allow-replica-migration": "no",
        }
    return settings | dict(topology.redis)


def static_conf(topology: Topology, spec: NodeSpec, files: NodeFiles, secrets: FleetSecrets) -> str:
    directives = common_directives(topology, spec, files)
    if topology.kind is Kind.CLUSTER:
        directives += [
            ("cluster-enabled", "yes"),
            ("cluster-config-file", files.cluster_conf.name),
            ("cluster-announce-ip", spec.address),
            ("cluster-port", str(spec.port + BUS_PORT_OFFSET)),
        ]
        if topology.security.tls:
            directives.append(("tls-cluster", "yes"))
    if topology.persistence.mode is PersistenceMode.NONE:
        # Without this directive, a replica keeps the snapshot of its last full resync and starts with these old counts.
        directives.append(("rdb-del-sync-files", "yes"))
    if topology.security.acl:
        directives += [
            ("masteruser", User.REPLICA.value),
            ("masterauth", secrets.password(User.REPLICA).reveal()),
        ]
    directives += [_formatted(name, value) for name, value in tunables(topology).items()]
    return conf_text(_with_save_points(directives))


def topology_directives(topology: Topology) -> tuple[Directive, ...]:
    """The section `redis` of the topology, in the form of static.conf."""
    return tuple(_formatted(name, value) for name, value in topology.redis)


def start_argv(program: str, spec: NodeSpec, files: NodeFiles) -> list[str]:
    """The command that starts a server. static.conf is included last, so it takes precedence."""
    own = files.sentinel_conf if spec.is_sentinel else files.node_conf
    return [program, str(own), "--include", str(files.static_conf), *(["--sentinel"] if spec.is_sentinel else [])]


def process_title(fleet: str, name: str) -> str:
    """The end of a node's process title, by which rlctl recognises the process."""
    return f"rlctl:{fleet}/{name}"


def common_directives(topology: Topology, spec: NodeSpec, files: NodeFiles) -> list[Directive]:
    """Directives that data nodes and sentinels share: addresses, ports, files, access."""
    port = str(spec.port)
    directives = [
        ("bind", spec.address),
        ("dir", quote(str(files.folder))),
        ("pidfile", quote(str(files.pid))),
        ("logfile", quote(str(files.log) if files.has_log else "")),
        ("daemonize", "no"),
        # With an ACL, protected mode is off: the bind address and the ACL control access, and protected mode would
        # refuse clients on addresses other than loopback.
        ("protected-mode", "no" if topology.security.acl else "yes"),
        (
            "proc-title-template",
            quote(f"{{title}} {{listen-addr}} {{server-mode}} {process_title(topology.name, spec.name)}"),
        ),
    ]
    if topology.target is TargetName.LOCAL and topology.local.spread:
        # A partition between two nodes is a packet filter rule for a pair of addresses, so each node must send from its
        # own address.
        directives.append(("bind-source-addr", spec.address))
    if topology.security.acl:
        directives.append(("aclfile", quote(str(files.acl))))
    return directives + (_tls(files, port) if topology.security.tls else [("port", port)])


def initial_cluster_conf(node_id: str) -> str:
    """nodes.conf for the first start of a node: the file has only the node's own id."""
    return f"{node_id} :0@0 myself,master - 0 0 0 connected\nvars currentEpoch 0 lastVoteEpoch 0\n"


def replica_cluster_conf(node_id: str, spec: NodeSpec, primary_id: str, primary: NodeSpec) -> str:
    """nodes.conf for a replica that has lost this file: the ids and addresses of the replica and of its primary."""
    lines = (
        f"{node_id} {_bus_endpoint(spec)} myself,slave {primary_id} 0 0 0 connected",
        f"{primary_id} {_bus_endpoint(primary)} master - 0 0 0 connected",
        "vars currentEpoch 0 lastVoteEpoch 0",
    )
    return "".join(f"{line}\n" for line in lines)


def _bus_endpoint(spec: NodeSpec) -> str:
    return f"{spec.endpoint}@{spec.port + BUS_PORT_OFFSET}"


def _formatted(name: str, value: str) -> Directive:
    return name, quote(value) if name == "save" or not value else value


def _tls(files: NodeFiles, port: str) -> list[Directive]:
    return [
        ("port", "0"),
        ("tls-port", port),
        ("tls-cert-file", quote(str(files.certificate))),
        ("tls-key-file", quote(str(files.key))),
        ("tls-ca-cert-file", quote(str(files.ca))),
        ("tls-auth-clients", "optional"),
        ("tls-replication", "yes"),
    ]


def _with_save_points(directives: list[Directive]) -> list[Directive]:
    """Write `save` as two lines: the first clears the defaults, the second sets the save points."""
    lines: list[Directive] = []
    for name, value in directives:
        if name == "save":
            lines.append(("save", '""'))
            if value != '""':
                lines.append(("save", value.strip('"')))
        else:
            lines.append((name, value))
    return lines
