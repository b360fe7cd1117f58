"""Fleets of containers, and queries to Docker about them."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.driver import Fleet
from tests.lab.shell import run
from tests.local.driver import cluster_document, sentinel_document

BASES = {"cluster": cluster_document, "sentinel": sentinel_document}


@dataclass(slots=True, kw_only=True)
class DockerFleet(Fleet):
    """A fleet of target docker."""

    @property
    def project(self) -> str:
        return f"rlctl-{self.name}"

    @property
    def root(self) -> Path:
        return self.home / "fleets" / self.name

    def container(self, node: str) -> str:
        return f"{self.project}-{node}"

    def containers(self) -> dict[str, dict[str, Any]]:
        """`docker inspect` of each node's container, by node."""
        ids = run("docker", "ps", "--all", "--quiet", "--filter", self._mark()).split()
        found = json.loads(run("docker", "inspect", *ids)) if ids else []
        return {one["Name"].removeprefix(f"/{self.project}-"): one for one in found}

    def networks(self) -> list[str]:
        return run("docker", "network", "ls", "--quiet", "--filter", self._mark()).split()

    def remove_by_hand(self, *nodes: str) -> None:
        run("docker", "rm", "--force", *map(self.container, nodes))

    def kill(self, node: str) -> None:
        run("docker", "kill", self.container(node))

    def end_all(self) -> None:
        """Remove all containers and networks of the fleet, in whatever state the test left them."""
        for one in self.containers().values():
            run("docker", "rm", "--force", "--volumes", one["Id"])
        for network in self.networks():
            run("docker", "network", "rm", network)

    def _mark(self) -> str:
        return f"label=com.docker.compose.project={self.project}"


def document(kind: str, image: str, **changes: object) -> dict[str, Any]:
    """A topology of this kind with unique name and ports, because all tests share one engine."""
    flavor = "valkey" if "valkey" in image else "redis"
    base = BASES[kind](name=f"test-{secrets.token_hex(4)}")
    return base | {"target": "docker", "docker": {"image": image}, "engine": {"flavor": flavor}} | changes
