"""The Docker engine of this machine through its SDK, and `docker compose` through the docker command."""

import errno
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]
from docker.context import ContextAPI  # type: ignore[import-untyped]
from docker.errors import APIError, DockerException  # type: ignore[import-untyped]
from docker.errors import NotFound as NotThere
from requests.exceptions import RequestException

from rlctl.errors import Refused, Unreachable
from rlctl.system.process import Finished, Runner

ANSWER_S = 60.0
COMPOSE_S = 120.0
PULL_S = 900.0
PROJECT = "com.docker.compose.project"
_LOCAL = "unix://"
_RUNNING = {"running", "paused", "restarting"}
_START_HINT = "start Docker, or name its socket in DOCKER_HOST; then run the same command again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container as the engine lists it; `folders` are the folders of this machine that the container mounts."""

    name: str
    labels: Mapping[str, str]
    running: bool
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A Docker network with its IPv4 subnets."""

    name: str
    labels: Mapping[str, str]
    subnets: tuple[IPv4Network, ...]


class DockerEngine:
    """The engine that the operator's docker command uses. Raises Refused if that engine is not on this machine."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @cached_property
    def host(self) -> str:
        """The URL of the engine's socket, from DOCKER_HOST, else from the docker command's current context."""
        named = os.environ.get("DOCKER_HOST")
        if not named:
            try:
                context = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT"))
            except DockerException as failure:
                raise Unreachable(
                    f"Docker's context cannot be read: {failure}", hint="see `docker context ls`"
                ) from failure
            named = (context.Host if context is not None else None) or f"{_LOCAL}/var/run/docker.sock"
        # The SDK accepts URLs that begin with `http+unix`, but the docker command does not.
        named = named.replace("http+unix://", _LOCAL)
        if not named.startswith(_LOCAL):
            raise Refused(
                f"the Docker engine {named} is not reached through a socket of this machine; "
                "a remote Docker engine cannot mount this machine's node folders",
                hint="run rlctl on the machine of the engine, or unset DOCKER_HOST (or choose another docker context)",
            )
        return named

    @cached_property
    def _api(self) -> Any:  # noqa: ANN401  the SDK carries no annotations
        _check_socket(self.host)
        with self._sdk_errors("the Docker engine"):
            return docker.APIClient(base_url=self.host, version="auto", timeout=ANSWER_S, max_pool_size=32)

    def check_users(self) -> None:
        """Raise Refused if the engine maps user ids.

        A server in a container would then run as another user, and could not read the node's files, which belong to the
        user that runs rlctl.
        """
        with self._sdk_errors("the Docker engine"):
            options = self._api.info().get("SecurityOptions") or ()
        mapped = [name for name in ("rootless", "userns") if any(f"name={name}" in option for option in options)]
        if mapped:
            raise Refused(
                f"the Docker engine maps user ids ({mapped[0]}): a node could not read its files (0600, this user's)",
                hint="use an engine without user namespaces; this version of rlctl does not support them",
            )

    def compose_version(self) -> str:
        """The version of `docker compose`. Raises Unreachable if Docker Compose is not installed."""
        done = self._docker("compose", "version", "--short", timeout_s=ANSWER_S)
        found = re.search(r"\d+\.\d+[\w.+-]*", done.output)
        if done.code != 0 or found is None:
            raise Unreachable(
                f"`docker compose` is missing: {last_line(done) or 'it printed no version'}",
                hint="install the Compose plugin: docker-compose-plugin, or docker-compose-v2",
            )
        return found.group()

    def compose(self, project: str, file: Path, variables: Path, *words: str) -> Finished:
        """Run a `docker compose` command for this project; ignores COMPOSE_FILE and COMPOSE_PROJECT_NAME."""
        what = ("--project-name", project, "--env-file", str(variables), "--file", str(file))
        return self._docker("compose", *what, *words, timeout_s=COMPOSE_S)

    def containers(self, project: str) -> tuple[Container, ...]:
        """All containers of a compose project, running or not."""
        with self._sdk_errors(f"the containers of {project}"):
            found = self._api.containers(all=True, filters={"label": f"{PROJECT}={project}"})
        return tuple(
            Container(
                name=one["Names"][0].removeprefix("/"),
                labels=one["Labels"],
                running=one["State"] in _RUNNING,
                folders=tuple(mount.get("Source", "") for mount in one["Mounts"]),
            )
            for one in found
        )

    def networks(self) -> tuple[Network, ...]:
        with self._sdk_errors("the networks"):
            found = self._api.networks()
        return tuple(
            Network(name=one["Name"], labels=one["Labels"] or {}, subnets=tuple(_subnets(one))) for one in found
        )

    def remove_network(self, name: str) -> None:
        """Remove a network; does nothing if it does not exist."""
        with self._sdk_errors(f"network {name}"), suppress(NotThere):
            self._api.remove_network(name)

    def start(self, name: str) -> None:
        """Start a container; does nothing if it already runs."""
        with self._sdk_errors(f"container {name}"):
            self._api.start(name)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a container's server; does nothing if the container does not run."""
        with self._sdk_errors(f"container {name}"):
            try:
                self._api.kill(name, number)
            except APIError as failure:
                if failure.status_code not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                    raise

    def remove(self, name: str, *, patience_s: int) -> None:
        """Stop a container (SIGKILL after `patience_s`) and remove it with its anonymous volumes."""
        with self._sdk_errors(f"container {name}"), suppress(NotThere):
            self._api.stop(name, timeout=patience_s)
            self._api.remove_container(name, v=True, force=True)

    def log_since(self, name: str, since: datetime) -> str:
        """Output of a container from `since` on; empty if `docker logs` fails."""
        # The StartedAt of the container cannot serve as `since`. If a server ends at once, the engine sets StartedAt
        # only after the server's last output, so that output would be missing.
        done = self._docker("logs", "--since", since.isoformat(), name, timeout_s=ANSWER_S)
        return f"{done.output}\n{done.errors}" if done.code == 0 else ""

    def log(self, name: str) -> str:
        """Output of a container; empty if the container does not exist."""
        with self._sdk_errors(f"container {name}"):
            try:
                return str(self._api.logs(name).decode("utf-8", "replace"))
            except NotThere:
                return ""

    def grow_memory(self, name: str, limit_bytes: int) -> None:
        """Raise a container's memory limit. A higher limit is kept, since the server may already use that memory."""
        with self._sdk_errors(f"container {name}"):
            now = self._api.inspect_container(name)["HostConfig"]["Memory"]
            if 0 < now < limit_bytes:
                self._api.update_container(name, mem_limit=limit_bytes, memswap_limit=2 * limit_bytes)

    def image_id(self, image: str) -> str | None:
        """The id of the image with this name; None if this machine does not have the image."""
        with self._sdk_errors(f"image {image}"):
            try:
                return str(self._api.inspect_image(image)["Id"])
            except NotThere:
                return None

    def pull(self, image: str) -> None:
        """Pull an image with the docker command, which uses the operator's registry logins."""
        done = self._docker("pull", "--quiet", image, timeout_s=PULL_S)
        if done.code != 0:
            raise Unreachable(
                f"image {image} is not on this machine, and `docker pull {image}` failed: {last_line(done)}",
                hint="check the registry, load the image with `docker load`, or name another one in docker.image",
            )

    def run_once(self, image: str, *words: str, options: Sequence[str] = ()) -> Finished:
        """Run a command of an image in a temporary container without a network."""
        argv = ("--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL", *options)
        return self._docker("run", *argv, "--entrypoint", words[0], image, *words[1:], timeout_s=ANSWER_S)

    def argv(self, *words: str) -> list[str]:
        """The command line of a docker command for this engine."""
        return ["docker", "--host", self.host, *words]

    def checked_output(self, *words: str, timeout_s: float = ANSWER_S) -> str:
        """Run a docker command and return its output. Raises Unreachable if the command fails."""
        done = self._docker(*words, timeout_s=timeout_s)
        if done.code != 0:
            raise Unreachable(f"`docker {words[0]}` failed: {last_line(done)}", hint="`rlctl doctor` checks the engine")
        return done.output.strip()

    def _docker(self, *words: str, timeout_s: float) -> Finished:
        _check_socket(self.host)
        return self._runner.run(self.argv(*words), timeout_s=timeout_s)

    @contextmanager
    def _sdk_errors(self, what: str) -> Iterator[None]:
        """Turn failures of the SDK into Unreachable errors about `what`."""
        try:
            yield
        except APIError as failure:
            text = f"{what}: the Docker engine reports an error: {_explanation(failure)}"
            raise Unreachable(text, hint="fix the cause and run the same command again") from failure
        except (DockerException, RequestException) as failure:
            raise Unreachable(f"{what}: the Docker engine does not answer: {failure}", hint=_START_HINT) from failure


def _check_socket(host: str) -> None:
    """Raise Unreachable if the engine's socket accepts no connection.

    The error has the reason, such as a missing permission. The errors of the SDK do not have it.
    """
    path = host.removeprefix(_LOCAL)
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError as failure:
            if failure.errno in {errno.EACCES, errno.EPERM}:
                raise Unreachable(
                    f"this user may not use the Docker socket {path}: {failure.strerror}",
                    hint="join its group (often `docker`) and log in again, or run rlctl as a user with access",
                ) from failure
            raise Unreachable(
                f"no Docker engine answers at {path}: {failure.strerror or failure}", hint=_START_HINT
            ) from failure


def _subnets(network: Mapping[str, Any]) -> Iterator[IPv4Network]:
    for config in (network.get("IPAM") or {}).get("Config") or ():
        subnet = ip_network(config["Subnet"])
        if isinstance(subnet, IPv4Network):
            yield subnet


def _explanation(failure: Any) -> str:  # noqa: ANN401  the SDK carries no annotations
    return str(failure.explanation or failure)


def last_line(done: Finished) -> str:
    """The last line that a command printed, usually the reason of its failure."""
    lines = [line.strip() for line in (done.errors or done.output).splitlines() if line.strip()]
    return lines[-1] if lines else ""
