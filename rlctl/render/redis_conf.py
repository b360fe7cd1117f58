"""Configuration of data nodes: what rlctl decides (static.conf), apart from what the server rewrites."""

from dataclasses import dataclass
from pathlib import PurePath

from rlctl.render.text import Directive, conf_text, quote
from rlctl.secrets import FleetSecrets, User
from rlctl.topology.model import Kind, PersistenceMode, TargetName, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeSpec

# CONFIG_MIN_RESERVED_FDS: what a server keeps for its own files.
OWN_OPEN_FILES = 32
MAXCLIENTS = "maxclients"
_DEFAULT_MAXCLIENTS = 10_000
_DEFAULT_BACKLOG = 511
# The longest text that a client may send or write; by default 512mb, and one SETRANGE of the runtime user fills a node.
# A full rolling_ring takes 4,000,024 bytes, a revision of 3,800 rules 1.8 million.
_LONGEST_TEXT = 8 * 2**20
SNAPSHOT_POINTS = "3600 1 300 100 60 10000"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """Where one node's files are, as the server sees them; without a log of its own it writes to its output."""

    folder: PurePath
    own_settings: PurePath | None = None
    has_log: bool = True

    @property
    def settings(self) -> PurePath:
        """The folder of the files that are rlctl's."""
        return self.own_settings or self.folder

    @property
    def node_conf(self) -> PurePath:
        """Belongs to the server (and to Sentinel) once it runs."""
        return self.folder / "node.conf"

    @property
    def follow_conf(self) -> PurePath:
        """Whom a server that is started by a fixed command follows at first; rlctl's, written before a start."""
        return self.folder / "follow.conf"

    @property
    def static_conf(self) -> PurePath:
        """Belongs to rlctl; included last, so it wins."""
        return self.settings / "static.conf"

    @property
    def sentinel_conf(self) -> PurePath:
        """Belongs to Sentinel once it runs."""
        return self.folder / "sentinel.conf"

    @property
    def cluster_conf(self) -> PurePath:
        """The node's own table of the cluster."""
        return self.folder / "nodes.conf"

    @property
    def acl(self) -> PurePath:
        """The users."""
        return self.settings / "users.acl"

    @property
    def pid(self) -> PurePath:
        """Written by the server as soon as it listens."""
        return self.folder / "redis.pid"

    @property
    def log(self) -> PurePath:
        """The server's log."""
        return self.folder / "redis.log"

    @property
    def certificate(self) -> PurePath:
        """The node's certificate."""
        return self.settings / "tls.crt"

    @property
    def key(self) -> PurePath:
        """The node's private key."""
        return self.settings / "tls.key"

    @property
    def ca(self) -> PurePath:
        """The authority that all certificates of the fleet come from."""
        return self.settings / "ca.crt"


def max_clients(topology: Topology) -> int:
    """Clients that a data node takes at once, unless its limit of open files made it lower the number."""
    return _number(topology, MAXCLIENTS, _DEFAULT_MAXCLIENTS)


def open_files(topology: Topology) -> int:
    """As many as a node wants for the clients that it may have."""
    return max_clients(topology) + OWN_OPEN_FILES


def backlog(topology: Topology) -> int:
    """How many connections may wait to be taken."""
    return _number(topology, "tcp-backlog", _DEFAULT_BACKLOG)


def _number(topology: Topology, name: str, default: int) -> int:
    """A number from the section `redis` of the topology, or the server's own default."""
    text = dict(topology.redis).get(name, "")
    return int(text) if text.isascii() and text.isdigit() else default


def tunables(topology: Topology) -> dict[str, str]:
    """What the topology governs on a data node, spelled as CONFIG GET answers."""
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
        # Nothing is gained by waiting for more replicas: a new replica costs 5 s by default.
        "repl-diskless-sync-delay": "0",
    }
    if topology.kind is Kind.CLUSTER:
        settings |= {
            "cluster-node-timeout": str(topology.cluster.node_timeout_ms),
            "cluster-require-full-coverage": "yes" if topology.cluster.full_coverage else "no",
            # The topology says which node serves which shard; a wandering replica would contradict it.
            "cluster-allow-replica-migration": "no",
        }
    return settings | dict(topology.redis)


def static_conf(topology: Topology, spec: NodeSpec, files: NodeFiles, secrets: FleetSecrets) -> str:
    """static.conf of one data node."""
    directives = place(topology, spec, files)
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
        # Else a replica keeps the copy it got from its primary, and would start with these old counts.
        directives.append(("rdb-del-sync-files", "yes"))
    if topology.security.acl:
        directives += [
            ("masteruser", User.REPLICA.value),
            ("masterauth", secrets.password(User.REPLICA).reveal()),
        ]
    directives += [_spelled(name, value) for name, value in tunables(topology).items()]
    return conf_text(_with_save_points(directives))


def own_directives(topology: Topology) -> tuple[Directive, ...]:
    """The section `redis` of the topology, as static.conf has it."""
    return tuple(_spelled(name, value) for name, value in topology.redis)


def start_argv(program: str, spec: NodeSpec, files: NodeFiles) -> list[str]:
    """How a server is started: its own file, then ours, which wins."""
    own = files.sentinel_conf if spec.is_sentinel else files.node_conf
    return [program, str(own), "--include", str(files.static_conf), *(["--sentinel"] if spec.is_sentinel else [])]


def process_title(fleet: str, name: str) -> str:
    """What a node's command line ends with."""
    return f"rlctl:{fleet}/{name}"


def place(topology: Topology, spec: NodeSpec, files: NodeFiles) -> list[Directive]:
    """What a data node and a sentinel share: where they listen and where their files are."""
    port = str(spec.port)
    directives = [
        ("bind", spec.address),
        ("dir", quote(str(files.folder))),
        ("pidfile", quote(str(files.pid))),
        ("logfile", quote(str(files.log) if files.has_log else "")),
        ("daemonize", "no"),
        # Access is governed by bind and ACL; protected mode would only refuse bound addresses off loopback.
        ("protected-mode", "no" if topology.security.acl else "yes"),
        (
            "proc-title-template",
            quote(f"{{title}} {{listen-addr}} {{server-mode}} {process_title(topology.name, spec.name)}"),
        ),
    ]
    if topology.target is TargetName.LOCAL and topology.local.spread:
        # Who speaks is told by the address: a cut between two nodes is a rule about a pair of addresses.
        directives.append(("bind-source-addr", spec.address))
    if topology.security.acl:
        directives.append(("aclfile", quote(str(files.acl))))
    return directives + (_tls(files, port) if topology.security.tls else [("port", port)])


def initial_cluster_conf(node_id: str) -> str:
    """nodes.conf of a node that never ran: it only knows who it is."""
    return f"{node_id} :0@0 myself,master - 0 0 0 connected\nvars currentEpoch 0 lastVoteEpoch 0\n"


def replica_cluster_conf(node_id: str, spec: NodeSpec, leader_id: str, leader: NodeSpec) -> str:
    """nodes.conf of a node that lost its own: it knows who it is and whom it follows."""
    lines = (
        f"{node_id} {_bus_endpoint(spec)} myself,slave {leader_id} 0 0 0 connected",
        f"{leader_id} {_bus_endpoint(leader)} master - 0 0 0 connected",
        "vars currentEpoch 0 lastVoteEpoch 0",
    )
    return "".join(f"{line}\n" for line in lines)


def _bus_endpoint(spec: NodeSpec) -> str:
    return f"{spec.endpoint}@{spec.port + BUS_PORT_OFFSET}"


def _spelled(name: str, value: str) -> Directive:
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
    """`save` takes pairs: an empty text clears the defaults, then each pair is a word list."""
    lines: list[Directive] = []
    for name, value in directives:
        if name == "save":
            lines.append(("save", '""'))
            if value != '""':
                lines.append(("save", value.strip('"')))
        else:
            lines.append((name, value))
    return lines
