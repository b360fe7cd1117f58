"""Sidecar containers of a drill: each shares the network of a node's container and applies packet rules there."""

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlctl.errors import TimedOut, Unreachable
from rlctl.system.process import Runner
from rlctl.system.sandbox import PacketFilter

if TYPE_CHECKING:
    from rlctl.system.docker import DockerEngine

LABEL = "io.rlctl.drill"
_NODE_LABEL = f"{LABEL}.node"
_BUILD_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A sidecar: the id of its container, and the node whose network it shares."""

    id: str
    node: str


class Sidecars:
    """The sidecars of one drill run."""

    def __init__(self, engine: "DockerEngine", runner: Runner, run: str) -> None:
        self._engine = engine
        self._runner = runner
        self._run = run

    def image(self, base: str, recipe: Path) -> str:
        """Tag of an image that adds a packet filter to the fleet's image. Builds this image if it is missing."""
        base_id = self._engine.image_id(base) or ""
        digest = hashlib.sha256(base_id.encode() + (recipe / "Dockerfile").read_bytes()).hexdigest()[:12]
        tag = f"rlctl-faults:{digest}"
        if self._engine.image_id(tag) is None:
            words = ("build", "--quiet", "--tag", tag, "--build-arg", f"BASE={base}", str(recipe))
            self._engine.checked_output(*words, timeout_s=_BUILD_S)
        return tag

    def found(self) -> dict[str, Sidecar]:
        """The running sidecars by node."""
        form = f'{{{{.ID}}}} {{{{.Label "{_NODE_LABEL}"}}}}'
        lines = self._engine.checked_output(
            "ps", "--filter", f"label={LABEL}={self._run}", "--format", form
        ).splitlines()
        return {node: Sidecar(id=container, node=node) for container, node in (line.split() for line in lines)}

    def start(self, image: str, container: str, node: str, *, undo: str, after_s: float) -> Sidecar:
        """Start a sidecar for a node's container. After `after_s` the sidecar loads the rules in `undo` and ends.

        The fault therefore ends even if rlctl is killed.
        """
        script = f"sleep {after_s:g}; printf %s '{undo}' | nft -f -"
        identity = self._engine.checked_output(
            *("run", "--detach", "--rm", "--network", f"container:{container}", "--user", "0:0"),
            *("--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--security-opt", "no-new-privileges", "--read-only"),
            *("--log-driver", "none", "--label", f"{LABEL}={self._run}", "--label", f"{_NODE_LABEL}={node}"),
            *("--entrypoint", "sh", image, "-c", script),
        )
        return Sidecar(id=identity, node=node)

    def packet_filter(self, sidecar: Sidecar) -> PacketFilter:
        """The packet filter of the network that a sidecar shares."""
        return PacketFilter(self._runner, self._engine.argv("exec", "--interactive", sidecar.id, "nft"))

    def remove(self, sidecar: Sidecar) -> None:
        """End and remove a sidecar; ignores failures, since a sidecar also ends by itself."""
        with contextlib.suppress(Unreachable, TimedOut):
            self._engine.checked_output("rm", "--force", "--volumes", sidecar.id)
