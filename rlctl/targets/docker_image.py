"""Which server an image holds: asked once in a container that is thrown away, then remembered by the image's id."""

import json
from pathlib import Path

from rlctl.errors import Unreachable
from rlctl.system.docker import DockerEngine
from rlctl.system.files import read_damaged, write_private
from rlctl.targets.server_program import ServerProgram, check_fit, dotted, parse_version, read_banner
from rlctl.topology.model import Flavor, Topology

_OTHERWISE = "name another image in docker.image"


def image_server(engine: DockerEngine, topology: Topology, image_id: str, memory: Path) -> ServerProgram:
    """The server of the topology's image; Unreachable where it has none that fits."""
    program = _remembered(topology, image_id, memory) or _asked(engine, topology)
    check_fit(program, topology.engine, _OTHERWISE)
    return program


def remember(program: ServerProgram, image_id: str, memory: Path) -> None:
    """Spare the next command the question."""
    record = {"image": image_id, "flavor": program.flavor.value, "version": dotted(program.version)}
    write_private(memory, json.dumps(record) + "\n")


def _remembered(topology: Topology, image_id: str, memory: Path) -> ServerProgram | None:
    try:
        record = json.loads(read_damaged(memory))
        if record["image"] != image_id:
            return None
        flavor, version = Flavor(record["flavor"]), parse_version(record["version"])
    except (ValueError, KeyError, TypeError):
        return None
    return ServerProgram(path=_path(topology), flavor=flavor, version=version)


def _asked(engine: DockerEngine, topology: Topology) -> ServerProgram:
    """By way of a shell, as the nodes start: an image without one is found out here."""
    image, server = topology.docker.image, f"{topology.engine.flavor}-server"
    done = engine.try_out(image, "sh", "-c", 'exec "$0" --version', server)
    program = read_banner(done.output, _path(topology))
    if program is None:
        said = " ".join((done.errors or done.output).split())
        raise Unreachable(
            f"image {image} does not run {server} by way of sh: {said or 'it said nothing'}",
            hint=f"the image must hold {server} and a shell; set engine.flavor, or {_OTHERWISE}",
        )
    return program


def _path(topology: Topology) -> str:
    return f"image {topology.docker.image}"
