"""Run the playbooks by hand on hosts of the lab, with the list of nodes to start that the planner would give."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from redis import Redis

from rlctl.assets import asset_folder
from rlctl.scripts.release import load_release
from rlctl.state.home import Home
from rlctl.state.vault import read
from rlctl.targets.base import Launch
from rlctl.targets.hosts.files import staged_node
from rlctl.topology.load import load_topology
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import NodeSpec, all_nodes, node_id
from tests.lab.hosts import Lab, LabHost
from tests.lab.shell import wait_for

_VERSION = (7, 0)
_PATIENCE_S = 3600.0
_INVENTORY = f'#!/bin/sh\nexec {sys.executable} -m rlctl -f "$RLCTL_TOPOLOGY" inventory "$@"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One finished ansible-playbook."""

    code: int
    out: str
    err: str

    def recap(self, host: str) -> dict[str, int]:
        """The counters of a host in the recap."""
        line = next(line for line in self.out.splitlines() if line.startswith(f"{host} ") and " : ok=" in line)
        return {name: int(count) for name, count in (word.split("=") for word in line.split(":")[1].split())}

    def changed(self) -> dict[tuple[str, str], bool]:
        """Whether a task changed something, by host and task."""
        found: dict[tuple[str, str], bool] = {}
        task = ""
        for line in self.out.splitlines():
            if line.startswith("TASK ["):
                task = line[6:].rstrip("* ").rstrip("]")
            elif line.startswith(("ok: [", "changed: [")):
                host = line.partition("[")[2].partition("]")[0].split(" ")[0]
                found[host, task] = found.get((host, task), False) or line.startswith("changed")
        return found

    def changes(self) -> set[tuple[str, str]]:
        """Only tasks that changed something. Check mode skips tasks that run rlctl's own commands."""
        return {where for where, has_changed in self.changed().items() if has_changed}


@dataclass(kw_only=True)
class HandRun:
    """A topology on the lab's hosts, and the commands that an operator would type."""

    lab: Lab
    folder: Path
    document: dict[str, Any]
    variables: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def create(cls, lab: Lab, folder: Path, **document: Any) -> "HandRun":
        """A fleet on all hosts of the lab, which are named h1, h2, ..."""
        hosts = [{"address": host.address, "name": f"h{n}"} for n, host in enumerate(lab.hosts, start=1)]
        whole = {"version": 1, "name": "limiter", "kind": "sentinel", "target": "hosts", "hosts": hosts} | document
        made = cls(lab=lab, folder=folder, document=whole)
        folder.mkdir(parents=True, exist_ok=True)
        made.file.write_text(yaml.safe_dump(whole), encoding="utf-8")
        made.inventory.write_text(_INVENTORY, encoding="utf-8")
        made.inventory.chmod(0o755)
        return made

    @property
    def name(self) -> str:
        return str(self.document["name"])

    @property
    def file(self) -> Path:
        return self.folder / "topology.yaml"

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory"

    @property
    def home(self) -> Home:
        return Home(self.folder / "home")

    @property
    def topology(self) -> Topology:
        return load_topology(self.file.read_bytes(), str(self.file))

    def env(self) -> dict[str, str]:
        return {
            **self.lab.env(),
            "RLCTL_HOME": str(self.home.root),
            "RLCTL_TOPOLOGY": str(self.file),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
        }

    def argv(self, playbook: str, *words: str, **variables: Any) -> list[str]:
        command = {"rlctl_command": [sys.executable, "-m", "rlctl"]}
        extra = json.dumps({**command, **self.variables, **variables})
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        path = str(asset_folder("playbooks") / f"{playbook}.yml")
        return [program, "-i", str(self.inventory), "-e", extra, path, *words]

    def popen(self, playbook: str, *words: str, **variables: Any) -> "subprocess.Popen[str]":
        """Start a playbook in its own session, so that all of its processes can be killed."""
        return subprocess.Popen(
            self.argv(playbook, *words, **variables),
            env=self.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def play(self, playbook: str, *words: str, **variables: Any) -> Played:
        with self.popen(playbook, *words, **variables) as process:
            out, err = process.communicate(timeout=_PATIENCE_S)
        return Played(code=process.returncode, out=out, err=err)

    def must_play(self, playbook: str, *words: str, **variables: Any) -> Played:
        played = self.play(playbook, *words, **variables)
        assert played.code == 0, f"{played.out}\n{played.err}"
        return played

    def rlctl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run rlctl with the same environment."""
        argv = [sys.executable, "-m", "rlctl", *words]
        return subprocess.run(argv, env=self.env(), capture_output=True, text=True, check=False)

    def start(self, *names: str, followers: bool = True) -> Played:
        """The order of the planner for a fleet that never ran."""
        return self.must_play("start", **self.launch_variables(*names, followers=followers))

    def launch_variables(self, *names: str, followers: bool = True) -> dict[str, Any]:
        topology, specs = self.topology, all_nodes(self.topology)
        secrets = read(self.home.fleet(self.name).secrets, self.name)
        assert secrets is not None
        primary = specs[0]
        launches: dict[bool, dict[str, Any]] = {True: {}, False: {}}
        stage = self.home.fleet(self.name).staging_folder(rehearsal=False)
        for spec in specs:
            if names and spec.name not in names:
                continue
            follows = spec.is_sentinel or (followers and not spec.starts_as_primary and topology.kind is Kind.SENTINEL)
            leader = primary if follows else None
            own_id = node_id(secrets.fleet_id, spec.name)
            follow = {"address": primary.address, "port": primary.port} if follows and not spec.is_sentinel else None
            launches[spec.is_sentinel][spec.name] = {"follow": follow, "own_id": own_id}
            _write_first(stage, Launch(spec=spec, follow=leader), topology, self.home, self.name)
        return {
            "redis_node_launches": launches[False],
            "sentinel_launches": launches[True],
            "rlctl_stage_folder": str(stage),
        }

    def host(self, spec: NodeSpec) -> LabHost:
        return next(host for host in self.lab.hosts if host.address == spec.address)

    def spec(self, name: str) -> NodeSpec:
        return next(spec for spec in all_nodes(self.topology) if spec.name == name)

    def unit(self, name: str) -> str:
        kind = "-sentinel" if name.startswith("sentinel-") else ""
        return f"rlctl-{self.name}{kind}@{name}.service"

    def state(self, name: str) -> str:
        """Properties of the node's unit in systemd."""
        shown = self.host(self.spec(name)).exec("systemctl", "show", "-p", "ActiveState", "--value", self.unit(name))
        return shown.strip()

    def secrets(self) -> list[str]:
        """All passwords of the fleet."""
        found = read(self.home.fleet(self.name).secrets, self.name)
        assert found is not None
        return [secret.reveal() for secret in found.passwords.values()]

    def admin(self, name: str) -> "Redis":
        """A client with the admin's password."""
        spec = self.spec(name)
        secrets = read(self.home.fleet(self.name).secrets, self.name)
        assert secrets is not None
        password = next(secret for user, secret in secrets.passwords.items() if user.value == "rlctl").reveal()
        return Redis(host=spec.address, port=spec.port, username="rlctl", password=password, decode_responses=True)

    def destroy(self) -> None:
        self.must_play("destroy")
        shutil.rmtree(self.home.root, ignore_errors=True)


def _write_first(stage: Path, launch: Launch, topology: Topology, home: Home, name: str) -> None:
    """Write the initial files into the folder where start.yml looks for them."""
    secrets = read(home.fleet(name).secrets, name)
    assert secrets is not None
    node = staged_node(stage, launch.spec, topology, secrets, load_release().commands)
    node.write_first(launch, node.root / "first")


def holds(condition: Any, what: str) -> None:
    """Wait until the condition is true."""
    wait_for(condition, what, timeout_s=60)


def seed() -> int:
    return int(os.environ.get("RLCTL_SEED", "1"))
