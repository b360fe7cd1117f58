"""Target `docker`: one container for each node on this machine, all in one rendered compose project."""

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from signal import Signals

from rlctl.assets import asset_folder
from rlctl.errors import Refused, RlctlError, Unreachable
from rlctl.observe.model import Address, OnDisk
from rlctl.render.acl import Version
from rlctl.render.compose import (
    FILES,
    LABEL_IMAGE,
    LABEL_NODE,
    LABEL_OPEN_FILES,
    PUBLISHED_AT,
    USER_VARIABLE,
    compose_file,
    container_name,
    memory_limit_bytes,
    project_name,
)
from rlctl.render.redis_conf import open_files, topology_directives
from rlctl.secrets import FleetSecrets
from rlctl.state.accepted import AcceptedDirectives
from rlctl.state.home import FleetFolder
from rlctl.system.clock import Clock
from rlctl.system.docker import Container, DockerEngine, last_line
from rlctl.system.files import make_private_folder, read_text, write_private
from rlctl.system.host import own_addresses
from rlctl.system.ports import answers, is_free
from rlctl.system.server_log import last_error
from rlctl.targets.base import Launch, NodeResult, OnThisMachine
from rlctl.targets.docker.image import cache_server, image_server, start_in_image
from rlctl.targets.docker.network import check_network, has_network
from rlctl.targets.listening import await_listening
from rlctl.targets.node_folder import NodeFolder, delete_folder
from rlctl.targets.server_program import ServerProgram, dotted, parse_version
from rlctl.targets.trial import RefusedDirective, TrialServer, check_directives
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec, network_of

# The first version that accepts `name:` in a compose file.
OLDEST_COMPOSE: Version = (2, 3)
WORKERS = 8
STOP_S = 5
_AGAIN = "fix the cause and run the same command again: it continues with the containers that exist"


class DockerTarget(OnThisMachine):
    """Creates, starts, finds and removes the containers of one fleet on this machine."""

    def __init__(
        self,
        topology: Topology,
        secrets: FleetSecrets,
        folder: FleetFolder,
        commands: tuple[str, ...],
        engine: DockerEngine,
        clock: Clock,
        accepted: AcceptedDirectives,
    ) -> None:
        self._topology = topology
        self._secrets = secrets
        self._folder = folder
        self._commands = commands
        self._engine = engine
        self._clock = clock
        self._accepted = accepted

    def check(self) -> str:
        """Check engine, compose, network and image, and describe the server program."""
        self._engine.check_users()
        compose = self._engine.compose_version()
        if parse_version(compose) < OLDEST_COMPOSE:
            raise Unreachable(
                f"`docker compose` is version {compose}; rlctl needs {dotted(OLDEST_COMPOSE)} or newer",
                hint="install a newer Compose plugin (docker-compose-plugin, or docker-compose-v2)",
            )
        self._check_owner()
        check_network(self._topology, self._engine)
        image = self._topology.docker.image
        if self._engine.image_id(image) is None:
            return f"image {image} is not on this machine yet: `rlctl deploy` pulls it; Docker Compose {compose}"
        program = self._program
        return f"{program.path} is {program.flavor} {dotted(program.version)}; Docker Compose {compose}"

    def refused_directives(self, *, fetch: bool = False) -> tuple[RefusedDirective, ...] | None:
        image_id = self._pulled_image() if fetch else self._engine.image_id(self._topology.docker.image)
        if image_id is None:
            return None
        program = self._program
        server = TrialServer(name=f"{program.path} ({program.flavor} {dotted(program.version)})", identity=image_id)
        return check_directives(
            server,
            topology_directives(self._topology),
            self._accepted,
            lambda conf: start_in_image(self._engine, self._topology, conf),
        )

    def route(self, spec: NodeSpec) -> Address:
        """The node's own address if this machine reaches it, else the address of its published port."""
        return (spec.address if self._is_direct else PUBLISHED_AT), spec.port

    def converge(self, launches: Sequence[Launch]) -> Mapping[NodeName, NodeResult]:
        """Create the missing containers, then start primaries before replicas, as target `local` does."""
        image_id = self._pulled_image()
        program = self._program
        make_private_folder(self._folder.nodes)
        cache_server(program, image_id, self._folder.server)
        for launch in launches:
            node = self._node(launch.spec)
            node.prepare(launch, program.version)
            node.write_follow(launch)
        self._write_project()
        self._create([launch.spec for launch in launches])
        results: dict[NodeName, NodeResult] = {}
        for wave in (
            [launch.spec for launch in launches if launch.follow is None],
            [launch.spec for launch in launches if launch.follow is not None],
        ):
            results |= self._start(wave)
        return results

    def configure(self, versions: Mapping[NodeSpec, Version]) -> Mapping[NodeName, NodeResult]:
        """Write rlctl's files, and raise the containers' memory limits, so that CONFIG SET can then raise maxmemory."""
        self._write_project()
        for spec, version in versions.items():
            self._node(spec).write_own(version)
            self._engine.grow_memory(self._container(spec.name), memory_limit_bytes(self._topology, spec))
        return {spec.name: NodeResult() for spec in versions}

    def remove(self, names: Sequence[NodeName]) -> Mapping[NodeName, NodeResult]:
        """Remove the nodes' containers and folders. Removes the network after the last container."""
        found = self._containers()

        def remove_one(name: NodeName) -> NodeResult:
            folder, container = self._folder.node(name), found.get(name)
            if container is not None and not self._is_ours(name, container):
                # The container belongs to another RLCTL_HOME and is kept. That is an error only if the node has a
                # folder here too.
                return NodeResult(error=_not_ours(container)) if folder.is_dir() else NodeResult()
            try:
                if container is not None:
                    self._engine.remove(container.name, patience_s=STOP_S)
            except RlctlError as failure:
                return NodeResult(error=failure.message)
            return delete_folder(folder)

        with ThreadPoolExecutor(max_workers=WORKERS) as pool:
            results = dict(zip(names, pool.map(remove_one, names), strict=True))
        if not self._containers() and has_network(self._topology, self._engine):
            self._engine.remove_network(project_name(self._topology.name))
        return results

    def why_unproven(self, spec: NodeSpec) -> str | None:
        """None if the node's container runs.

        The Docker engine then reserves the node's address and its published port for this container, so no other
        process can listen there.
        """
        container = self._containers().get(spec.name)
        return None if container is not None and container.running else "its container does not run"

    def inspect(self, specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
        found = self._containers()
        return {spec.name: self._inspect(spec, found.get(spec.name)) for spec in specs}

    def placed(self) -> Sequence[NodeName]:
        return self._folder.placed()

    def running_without_folder(self) -> Sequence[NodeName]:
        """Nodes whose container exists although their folder was removed."""
        found = self._containers()
        ours = (name for name, container in found.items() if self._is_ours(name, container))
        return tuple(sorted(name for name in ours if not self._folder.node(name).is_dir()))

    def signal(self, specs: Sequence[NodeSpec], number: Signals) -> None:
        for spec in specs:
            self._engine.signal(self._container(spec.name), number)

    def log(self, name: NodeName) -> str:
        return self._engine.log(self._container(name))

    def rotate_logs(self) -> None:
        """Do nothing: the engine rotates the containers' logs."""

    @cached_property
    def _program(self) -> ServerProgram:
        image_id = self._engine.image_id(self._topology.docker.image)
        return image_server(self._engine, self._topology, image_id or "", self._folder.server)

    @cached_property
    def _is_direct(self) -> bool:
        """Whether this machine reaches the containers' network. False if the engine runs in a virtual machine."""
        if sys.platform != "linux":
            return False
        gateway = str(network_of(self._topology)[1])
        # If no container runs, the network's interface may be down or missing although this machine can reach the
        # network. Assume in that case that it can.
        return gateway in own_addresses() or not any(one.running for one in self._containers().values())

    def _pulled_image(self) -> str:
        image = self._topology.docker.image
        if self._engine.image_id(image) is None:
            self._engine.pull(image)
        return self._engine.image_id(image) or ""

    def _node(self, spec: NodeSpec) -> NodeFolder:
        folder = self._folder.node(spec.name)
        return NodeFolder(folder, spec, self._topology, self._secrets, self._commands, FILES)

    def _container(self, name: NodeName) -> str:
        return container_name(self._topology.name, name)

    def _containers(self) -> dict[NodeName, Container]:
        """The project's containers by node, including those that another RLCTL_HOME made."""
        found = self._engine.containers(project_name(self._topology.name))
        return {NodeName(one.labels[LABEL_NODE]): one for one in found if LABEL_NODE in one.labels}

    def _is_ours(self, name: NodeName, container: Container) -> bool:
        """Whether the container mounts the node's folder.

        If it does not, the container belongs to a fleet of the same name in another RLCTL_HOME. The comparison uses
        resolved paths, since a symbolic link in RLCTL_HOME gives a folder several paths.
        """
        return self._folder.node(name).resolve() in {Path(folder).resolve() for folder in container.folders}

    def _check_owner(self) -> None:
        others = [found for name, found in self._containers().items() if not self._is_ours(name, found)]
        if others:
            raise Refused(
                f"containers of project {project_name(self._topology.name)} were made from another RLCTL_HOME: "
                f"{_folders_of(others[0])}",
                hint="give this fleet another name, or use the RLCTL_HOME that made them",
            )

    def _inspect(self, spec: NodeSpec, container: Container | None) -> OnDisk:
        running = container is not None and container.running
        disk = replace(self._node(spec).read(running=running), misfit=self._misfit(container))
        if running:
            return disk
        # Check the port only if the node has no container. Docker opens the port of a container before the container
        # counts as running, so the check could take the node's own container for another process.
        is_taken = container is None and not is_free(spec.port)
        return replace(disk, reachable=False, port_taken=spec.port if is_taken else None)

    def _misfit(self, container: Container | None) -> str | None:
        if container is None:
            return None
        wanted = self._topology.docker.image
        image = container.labels.get(LABEL_IMAGE, wanted)
        if image != wanted:
            return f"its container was made from {image}, the topology says {wanted}"
        # Docker fixes the limit of open files when it creates a container. With too low a limit the server refuses a
        # larger maxclients, so the container must be created again.
        files = open_files(self._topology)
        limit = int(container.labels.get(LABEL_OPEN_FILES, files))
        return None if limit >= files else f"its container may open {limit} files, maxclients needs {files}"

    def _write_project(self) -> None:
        """Write the compose file and the file with this machine's compose variables."""
        fragment = read_text(asset_folder("compose") / "node.yaml") or ""
        write_private(self._folder.compose, compose_file(self._topology, fragment))
        write_private(self._folder.compose_variables, f"{USER_VARIABLE}={os.getuid()}:{os.getgid()}\n")

    def _create(self, specs: Sequence[NodeSpec]) -> None:
        """Create the missing containers.

        The `docker compose` of a killed rlctl may still run, create some of the containers, and make the command of
        this call fail. The call therefore repeats the command as long as new containers appear.
        """
        self._remove_without_network(specs)
        before = self._containers()
        while missing := [str(spec.name) for spec in specs if spec.name not in before]:
            done = self._engine.compose(
                project_name(self._topology.name),
                self._folder.compose,
                self._folder.compose_variables,
                *("create", "--no-recreate", *missing),
            )
            after = self._containers()
            if len(after) <= len(before):
                raise Unreachable(f"`docker compose create` failed: {last_line(done)}", hint=_AGAIN)
            before = after
        for spec in specs:
            self._engine.grow_memory(self._container(spec.name), memory_limit_bytes(self._topology, spec))

    def _remove_without_network(self, specs: Sequence[NodeSpec]) -> None:
        """Remove stopped containers if their network is gone, because such containers cannot start again.

        No data is lost, since the data of a node is in its folder.
        """
        if has_network(self._topology, self._engine):
            return
        found = self._containers()
        for spec in specs:
            if spec.name in found and not found[spec.name].running:
                self._engine.remove(found[spec.name].name, patience_s=STOP_S)

    def _start(self, specs: Sequence[NodeSpec]) -> dict[NodeName, NodeResult]:
        def start_one(spec: NodeSpec) -> NodeResult:
            try:
                self._engine.start(self._container(spec.name))
            except RlctlError as failure:
                return NodeResult(error=failure.message)
            return NodeResult()

        # The engine runs on this machine, so the times in its logs come from the same clock as `since`.
        outcome = partial(self._outcome, since=self._clock.now())
        with ThreadPoolExecutor(max_workers=WORKERS) as pool:
            results = {spec.name: result for spec, result in zip(specs, pool.map(start_one, specs), strict=True)}
        started = [spec for spec in specs if results[spec.name].error is None]
        results |= await_listening(started, outcome, self._clock)
        for spec in started:
            self._node(spec).write_follow(None)
        return results

    def _outcome(self, spec: NodeSpec, *, since: datetime) -> NodeResult | None:
        """Result of a start; None while the server neither listens nor has ended. `since` is just before the start."""
        if answers(*self.route(spec)):
            return NodeResult()
        container = self._containers().get(spec.name)
        if container is not None and container.running:
            return None
        error = last_error(self._engine.log_since(self._container(spec.name), since))
        return NodeResult(error=f"the server ended at once: {error or 'its log has no error'}")


def _folders_of(container: Container) -> str:
    return f"{container.name} has the folder {', '.join(container.folders)}"


def _not_ours(container: Container) -> str:
    return f"its container was made from another RLCTL_HOME, and was kept: {_folders_of(container)}"
