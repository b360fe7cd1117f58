"""Reads which server an image has: runs the image once in a temporary container, and caches the result by image id."""

import json
from pathlib import Path

from rlctl.errors import Unreachable
from rlctl.system.docker import DockerEngine
from rlctl.system.files import read_damaged, write_private
from rlctl.targets.server_program import ServerProgram, check_fit, dotted, parse_version, read_banner
from rlctl.topology.model import Flavor, Topology

# The image may have no client, so the script waits for the ready message in the server's output, and then kills the
# server. If no such message comes, the script kills the server after 40 s, even if rlctl has ended before. When the
# server ends, the script's shell and the container end too.
START = """
cd /trial && printf '%s' "$1" >trial.conf || exit 1
sh -c 'echo "$$"; exec "$0" trial.conf 2>&1' "$0" | {
    read -r pid
    (sleep 40; kill -9 "$pid") >/dev/null 2>&1 &
    while IFS= read -r line; do
        printf '%s\\n' "$line"
        case $line in *"eady to accept connections"*) kill -9 "$pid" ;; esac
    done
}
"""
# The trial server is empty and needs less memory than this limit. Without the limit, a large value of `databases` or
# `maxclients` could take all memory of the machine.
_TRIAL_OPTIONS = ("--tmpfs", "/trial:size=1m", "--memory", "512m", "--memory-swap", "512m")
_ALTERNATIVE = "name another image in docker.image"


def image_server(engine: DockerEngine, topology: Topology, image_id: str, cache: Path) -> ServerProgram:
    """The server of the topology's image. Raises Unreachable or Refused if the image has no server that fits."""
    program = _cached_server(topology, image_id, cache) or _read_from_image(engine, topology)
    check_fit(program, topology.engine, _ALTERNATIVE)
    return program


def start_in_image(engine: DockerEngine, topology: Topology, conf: str) -> str:
    """Start the image's server in a container without a network. Returns its log until it was ready or had ended."""
    server = f"{topology.engine.flavor}-server"
    done = engine.run_once(topology.docker.image, "sh", "-c", START, server, conf, options=_TRIAL_OPTIONS)
    return f"{done.output}\n{done.errors}"


def cache_server(program: ServerProgram, image_id: str, cache: Path) -> None:
    """Cache which server an image has, so that `image_server` need not run the image again."""
    record = {"image": image_id, "flavor": program.flavor.value, "version": dotted(program.version)}
    write_private(cache, json.dumps(record) + "\n")


def _cached_server(topology: Topology, image_id: str, cache: Path) -> ServerProgram | None:
    try:
        record = json.loads(read_damaged(cache))
        if record["image"] != image_id:
            return None
        flavor, version = Flavor(record["flavor"]), parse_version(record["version"])
    except (ValueError, KeyError, TypeError):
        return None
    return ServerProgram(path=_path(topology), flavor=flavor, version=version)


def _read_from_image(engine: DockerEngine, topology: Topology) -> ServerProgram:
    """Run the server with --version in a temporary container. The image must have a shell, which the nodes need too."""
    image, server = topology.docker.image, f"{topology.engine.flavor}-server"
    done = engine.run_once(image, "sh", "-c", 'exec "$0" --version', server)
    program = read_banner(done.output, _path(topology))
    if program is None:
        printed = " ".join((done.errors or done.output).split())
        raise Unreachable(
            f"image {image} does not run {server} by way of sh: {printed or 'it printed nothing'}",
            hint=f"the image must have {server} and a shell; set engine.flavor, or {_ALTERNATIVE}",
        )
    return program


def _path(topology: Topology) -> str:
    return f"image {topology.docker.image}"
