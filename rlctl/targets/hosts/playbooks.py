"""Runs the playbooks of target `hosts`: writes their inventory and topology, and reports the progress of each host."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlctl.assets import asset_folder
from rlctl.errors import Unreachable
from rlctl.render.inventory import refuse_templates, static_inventory
from rlctl.state.home import Home
from rlctl.system.ansible import AnsibleSettings, Playbook, run_playbook
from rlctl.system.files import make_private_folder, write_private
from rlctl.system.playbook_events import Event, PlaybookRun, TaskResult
from rlctl.system.process import OWN_PYTHON
from rlctl.targets.base import ProgressListener
from rlctl.topology.dump import topology_text
from rlctl.topology.model import Topology

# Folders with the operator's Ansible variables, which are beside the topology file. The playbooks that rlctl runs use
# these variables too.
_VARIABLE_FOLDERS = ("group_vars", "host_vars")


class HostPlaybooks:
    def __init__(self, topology: Topology, home: Home, sockets: Path, listener: ProgressListener) -> None:
        self._topology = topology
        self._home = home
        self._folder = home.fleet(topology.name)
        self._settings = AnsibleSettings(home=home.root, sockets=sockets)
        self._listener = listener

    def run(
        self, name: str, hosts: Sequence[str], variables: Mapping[str, object] | None = None, *, check: bool = False
    ) -> PlaybookRun:
        """Run a playbook on these hosts.

        A run in check mode uses separate files, so that it does not disturb a real run at the same time.
        """
        stage = self._folder.staging_folder(rehearsal=check)
        inventory = self._write_inventory(stage / "ansible")
        own = {"rlctl_command": [*OWN_PYTHON, "-m", "rlctl"], "rlctl_stage_folder": str(stage)}
        given = own | dict(variables or {})
        # Ansible would run a Jinja template in these values, and a local path or the name of a folder on a host could
        # contain one.
        refuse_templates(given)
        call = Playbook(
            path=asset_folder("playbooks") / name,
            inventory=inventory,
            hosts=hosts,
            variables=given,
            check=check,
        )
        return run_playbook(call, self._settings, _HostProgress(self._listener, check=check), self._listener.check_stop)

    def _write_inventory(self, folder: Path) -> Path:
        make_private_folder(folder)
        topology_file, inventory = folder / "topology.yaml", folder / "hosts.yml"
        write_private(topology_file, topology_text(self._topology))
        document = static_inventory(self._topology, topology_file)
        write_private(inventory, json.dumps(document, indent=2) + "\n")
        for name in _VARIABLE_FOLDERS:
            _link(folder / name, self._home.topology_folder / name if self._home.topology_folder else None)
        return inventory


class _HostProgress:
    """Reports the failures of each host to the listener, and in a real run also the changes of each host."""

    def __init__(self, listener: ProgressListener, *, check: bool) -> None:
        self._listener = listener
        self._check = check

    def __call__(self, event: Event) -> None:
        if not isinstance(event, TaskResult):
            return
        if event.is_failure:
            self._listener.note(f"  host {event.host}: {event.reason}")
        elif event.status == "changed" and not self._check:
            self._listener.note(f"  host {event.host}: {event.node or event.task}: done")


def _link(link: Path, target: Path | None) -> None:
    try:
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        if target is not None and target.is_dir():
            link.symlink_to(target)
    except OSError as failure:
        raise Unreachable(f"cannot link {link}: {failure.strerror}", hint="fix its permissions") from failure
