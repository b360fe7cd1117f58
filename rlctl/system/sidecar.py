"""Sidecars of containers: each shares one container's network, and lets packet rules in there."""

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
    """One sidecar: its own container, and the node it stands beside."""

    id: str
    node: str


class Sidecars:
    """The sidecars of one run, on this machine's engine."""

    def __init__(self, engine: "DockerEngine", runner: Runner, run: str) -> None:
        self._engine = engine
        self._runner = runner
        self._run = run

    def image(self, base: str, recipe: Path) -> str:
        """The fleet's image with a packet filter in it, built where it is missing."""
        base_id = self._engine.image_id(base) or ""
        digest = hashlib.sha256(base_id.encode() + (recipe / "Dockerfile").read_bytes()).hexdigest()[:12]
        tag = f"rlctl-faults:{digest}"
        if self._engine.image_id(tag) is None:
            words = ("build", "--quiet", "--tag", tag, "--build-arg", f"BASE={base}", str(recipe))
            self._engine.checked_output(*words, timeout_s=_BUILD_S)
        return tag

    def found(self) -> dict[str, Sidecar]:
        """The sidecars that run, by node."""
        form = f'{{{{.ID}}}} {{{{.Label "{_NODE_LABEL}"}}}}'
        lines = self._engine.checked_output(
            "ps", "--filter", f"label={LABEL}={self._run}", "--format", form
        ).splitlines()
        return {node: Sidecar(id=container, node=node) for container, node in (line.split() for line in lines)}

    def start(self, image: str, container: str, node: str, *, undo: str, after_s: float) -> Sidecar:
        """Stand beside a container; when the time is up, undo and go, whatever became of everybody else."""
        script = f"sleep {after_s:g}; printf %s '{undo}' | nft -f -"
        identity = self._engine.checked_output(
            *("run", "--detach", "--rm", "--network", f"container:{container}", "--user", "0:0"),
            *("--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--security-opt", "no-new-privileges", "--read-only"),
            *("--log-driver", "none", "--label", f"{LABEL}={self._run}", "--label", f"{_NODE_LABEL}={node}"),
            *("--entrypoint", "sh", image, "-c", script),
        )
        return Sidecar(id=identity, node=node)

    def packet_filter(self, sidecar: Sidecar) -> PacketFilter:
        """The packet filter of the network that a sidecar stands in."""
        return PacketFilter(self._runner, self._engine.argv("exec", "--interactive", sidecar.id, "nft"))

    def remove(self, sidecar: Sidecar) -> None:
        """End a sidecar; one that is gone needs no ending."""
        with contextlib.suppress(Unreachable, TimedOut):
            self._engine.checked_output("rm", "--force", "--volumes", sidecar.id)
