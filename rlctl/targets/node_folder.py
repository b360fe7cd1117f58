"""A node's folder on this machine: writes rlctl's files and the server's initial files, and reads the saved state."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from rlctl.observe.model import OnDisk
from rlctl.render.acl import Version, node_acl
from rlctl.render.redis_conf import NodeFiles, initial_cluster_conf, replica_cluster_conf, start_argv, static_conf
from rlctl.render.sentinel_conf import InitialMonitor, initial_sentinel_conf, sentinel_static_conf
from rlctl.secrets import Authority, FleetSecrets
from rlctl.system.files import make_private_folder, read_damaged, write_private
from rlctl.system.server_log import last_error
from rlctl.targets.base import Launch, NodeResult
from rlctl.targets.remains import SavedFiles, is_own_table, on_disk
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import NodeId, NodeSpec, data_nodes, node_id, sentinel_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSizes:
    """Sizes in bytes of a node's log files at one moment."""

    log: int
    output: int


class NodeFolder:
    """The files of one node in a folder of this machine; `files` has the paths at which the server sees them."""

    def __init__(
        self,
        root: Path,
        spec: NodeSpec,
        topology: Topology,
        secrets: FleetSecrets,
        commands: tuple[str, ...],
        files: NodeFiles | None = None,
    ) -> None:
        self.root = root
        self.files = files or NodeFiles(folder=root)
        self._spec = spec
        self._topology = topology
        self._secrets = secrets
        self._commands = commands

    @property
    def process(self) -> Path:
        """Path of the record of the process that rlctl started."""
        return self.root / "process.json"

    @property
    def output(self) -> Path:
        """Path of the file that gets the server's output until the server has opened its own log."""
        return self.root / "output.log"

    def prepare(self, launch: Launch, version: Version) -> None:
        """Write all files that a start needs. Files that the server owns are written only if they are missing."""
        make_private_folder(self.root)
        self.write_own(version)
        for path, text in self._first_files(launch):
            if path.exists() and not self._is_own(path):
                # The file does not contain this node's id, so a server that reads it would never join the fleet. Keep
                # it under another name, and write a new file.
                path.replace(path.with_suffix(".conf.damaged"))
            if not path.exists():
                write_private(path, text)

    def write_own(self, version: Version) -> None:
        """Write rlctl's own files: static.conf, users and certificates."""
        render = sentinel_static_conf if self._spec.is_sentinel else static_conf
        write_private(self._here(self.files.static_conf), render(self._topology, self._spec, self.files, self._secrets))
        if self._topology.security.acl:
            users = node_acl(self._spec, self._secrets, version, self._commands)
            write_private(self._here(self.files.acl), users)
        if self._secrets.authority is not None and self._topology.security.tls:
            self._write_certificate(self._secrets.authority)

    def argv(self, program: str, launch: Launch) -> list[str]:
        """The command line that starts the server on this machine."""
        follow = self._primary_at_start(launch)
        extra = ["--replicaof", follow.address, str(follow.port)] if follow else []
        return [*start_argv(program, self._spec, self.files), *extra]

    def write_follow(self, launch: Launch | None) -> None:
        """Write the file that names the primary for the server's next start.

        With None the file names no primary, and the server uses its own configuration.
        """
        if not self._starts_with_replicaof:
            return
        follow = self._primary_at_start(launch) if launch is not None else None
        text = f"replicaof {follow.address} {follow.port}\n" if follow else ""
        write_private(self._here(self.files.follow_conf), text)

    def read(self, *, running: bool) -> OnDisk:
        """The state that the node would have after a start.

        If the node runs, the result has only its id, because `observe` asks the server for the rest.
        """
        if running or not self.root.is_dir():
            return OnDisk(running=running, own_id=self._own_id() if running else None)
        log_folder = self.root / "appendonlydir"
        remains = SavedFiles(
            cluster_conf=read_damaged(self._here(self.files.cluster_conf)),
            sentinel_conf=read_damaged(self._here(self.files.sentinel_conf)),
            has_log=log_folder.is_dir() and any(log_folder.glob("*.manifest")),
            has_snapshot=(self.root / "dump.rdb").exists(),
        )
        return on_disk(remains, self._own_id())

    def log_sizes(self) -> LogSizes:
        """Current sizes of the logs, to which servers append."""
        return LogSizes(log=_size(self._here(self.files.log)), output=_size(self.output))

    def last_error(self, since: LogSizes) -> str:
        """The last error in the logs, without the parts up to the sizes `since`, which belong to earlier starts."""
        log, output = _read_from(self._here(self.files.log), since.log), _read_from(self.output, since.output)
        return last_error(f"{log}\n{output}")

    @property
    def _starts_with_replicaof(self) -> bool:
        """Whether the command line sets the primary. Cluster nodes and sentinels read the primary from files."""
        return self._topology.kind is Kind.SENTINEL and not self._spec.is_sentinel

    def _primary_at_start(self, launch: Launch) -> NodeSpec | None:
        return launch.follow if self._starts_with_replicaof else None

    def _here(self, path: PurePath) -> Path:
        return self.root / path.name

    def write_first(self, launch: Launch, folder: Path) -> None:
        """Write the files for a node's first start into a separate folder. Later the server owns these files."""
        make_private_folder(folder)
        for path, text in self._first_files(launch):
            write_private(folder / path.name, text)

    def _first_files(self, launch: Launch) -> Sequence[tuple[Path, str]]:
        own_id = self._own_id()
        if self._spec.is_sentinel:
            primary = launch.follow
            if primary is None:
                raise ValueError(f"{self._spec.name}: a sentinel starts with a primary to watch")
            monitor = InitialMonitor(primary=primary, replicas=self._replicas(primary), peers=self._peers())
            text = initial_sentinel_conf(self._topology, own_id, monitor, self._secrets)
            return [(self._here(self.files.sentinel_conf), text)]
        first = [(self._here(self.files.node_conf), "")]
        if self._topology.kind is Kind.CLUSTER:
            first.append((self._here(self.files.cluster_conf), self._first_table(launch.follow)))
        return first

    def _first_table(self, leader: NodeSpec | None) -> str:
        if leader is None:
            return initial_cluster_conf(self._own_id())
        return replica_cluster_conf(self._own_id(), self._spec, node_id(self._secrets.fleet_id, leader.name), leader)

    def _is_own(self, path: Path) -> bool:
        """Whether the id in the file is this node's id; True for a kind of file that has no id."""
        text = read_damaged(path)
        if path == self._here(self.files.cluster_conf):
            return is_own_table(text, self._own_id())
        return path != self._here(self.files.sentinel_conf) or f"sentinel myid {self._own_id()}\n" in text

    def _replicas(self, primary: NodeSpec) -> tuple[NodeSpec, ...]:
        return tuple(spec for spec in data_nodes(self._topology) if spec.name != primary.name)

    def _peers(self) -> tuple[tuple[NodeSpec, str], ...]:
        others = (spec for spec in sentinel_nodes(self._topology) if spec.name != self._spec.name)
        return tuple((spec, node_id(self._secrets.fleet_id, spec.name)) for spec in others)

    def _own_id(self) -> NodeId:
        return node_id(self._secrets.fleet_id, self._spec.name)

    def _write_certificate(self, authority: Authority) -> None:
        certificate, key = self._here(self.files.certificate), self._here(self.files.key)
        write_private(self._here(self.files.ca), authority.certificate)
        if not (certificate.exists() and key.exists()):
            from rlctl.system.tls import node_certificate  # noqa: PLC0415  costs start-up time that only TLS pays

            name = f"{self._topology.name}/{self._spec.name}"
            certificate_text, key_text = node_certificate(authority, name, (self._spec.address, "127.0.0.1"))
            write_private(key, key_text)
            write_private(certificate, certificate_text)


def delete_folder(folder: Path) -> NodeResult:
    """Remove a node's folder with its contents; does nothing if the folder does not exist."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return NodeResult()
    except OSError as failure:
        return NodeResult(error=f"cannot remove {folder}: {failure.strerror}")
    return NodeResult()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _read_from(path: Path, offset: int) -> str:
    try:
        with path.open("rb") as log:
            log.seek(offset)
            return log.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
