"""Starts and stops the client processes of a run, and reads their histories."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rlctl.drills.engine.client_spec import ClientSpec
from rlctl.drills.engine.wire import Credentials
from rlctl.drills.record.ops import ClientHistory, unpack
from rlctl.drills.scenario.model import ClientLoad, LoadMode
from rlctl.errors import Unreachable
from rlctl.lab.run_folder import RunFolder
from rlctl.system.child import Child
from rlctl.system.process import OWN_PYTHON

READY_S = 30.0
END_S = 30.0


class ClientProcesses:
    def __init__(
        self,
        folder: RunFolder,
        members: Sequence[ClientSpec],
        load: ClientLoad,
        credentials: Credentials,
        service: Mapping[str, object],
    ) -> None:
        self._folder = folder
        self._specs = members
        self._load = load
        self._credentials = credentials
        self._service = service
        self._children: dict[str, Child] = {}
        self.ends: dict[str, dict[str, object]] = {}

    def start(self) -> None:
        """Start every client, and wait until each is ready."""
        for spec in self._specs:
            child = Child([*OWN_PYTHON, "-m", self._program])
            self._children[spec.name] = child
            child.send_line(json.dumps(self._settings(spec)))
        for name, child in self._children.items():
            if child.read_line(timeout_s=READY_S) is None:
                raise Unreachable(f"client {name} did not start: {child.last_errors()}", hint="see the run's folder")

    @property
    def _program(self) -> str:
        return (
            "rlctl.drills.engine.library_client"
            if self._load.mode is LoadMode.LIBRARY
            else "rlctl.drills.engine.client"
        )

    def go(self) -> None:
        """Begin the load."""
        self._send("go")

    def burst(self) -> None:
        """Let the hot user exceed its limit."""
        self._send("burst")

    def end(self) -> None:
        """Stop the load, and collect each client's final statistics. Idempotent."""
        self._send("stop")
        children, self._children = self._children, {}
        for name, child in children.items():
            last = child.read_line(timeout_s=END_S)
            self.ends[name] = json.loads(last) if last else {}
            child.end()

    def kill(self) -> None:
        """Kill the clients that still run."""
        for child in self._children.values():
            child.kill()
            child.end()
        self._children = {}

    def _send(self, word: str) -> None:
        for child in self._children.values():
            child.send_line(word)

    def _settings(self, spec: ClientSpec) -> dict[str, object]:
        if self._load.mode is LoadMode.LIBRARY:
            return {
                "connection": self._service,
                "hot": spec.tag,
                "policy": self._load.policy,
                "limit": self._load.limit,
                "window_ms": int(spec.work.hot_args[1]),
                "rate": self._load.rate,
                "history": str(self._folder.history(spec.name)),
            }
        return {
            "places": [asdict(place) for place in spec.places],
            "work": spec.work.to_json(),
            "entry": self._credentials.to_json(),
            "connections": self._load.connections,
            "depth": self._load.depth,
            "rate": self._load.rate,
            "timeout_s": self._load.timeout_ms / 1000,
            "pinned": spec.pinned,
            "source": asdict(spec.source),
            "history": str(self._folder.history(spec.name)),
        }


def read_history(folder: RunFolder, name: str, side: str, end: Mapping[str, object]) -> ClientHistory:
    """Read a client's history. `end` is the client's final statistics, and is empty for a killed run."""
    path = folder.history(name)
    data = path.read_bytes() if path.exists() else b""
    refusals = end.get("refusals")
    hops = end.get("hops")
    return ClientHistory(
        name=name,
        side=side,
        batches=tuple(unpack(data)),
        refusals={str(key): int(value) for key, value in refusals.items()} if isinstance(refusals, dict) else {},
        hops=hops if isinstance(hops, int) else 0,
    )
