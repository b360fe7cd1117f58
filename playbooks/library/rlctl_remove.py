"""Ansible module: stops nodes and removes their files. Removes the fleet's units and folders with the last node."""

import shutil
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_remove
short_description: Remove nodes from a host
description:
  - Stops and disables the units of C(nodes), then removes their settings and data.
  - With the last node it removes the fleet's unit files, firewall table and folders. C(fleets_left) names the other
    fleets on the host.
options:
  fleet: {type: str, required: true, description: name of the fleet}
  nodes: {type: list, elements: str, description: "names of nodes, by default all nodes of the fleet"}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Remove a fleet
  rlctl_remove: {fleet: limiter}
"""

RETURN = r"""
nodes: {type: dict, returned: always, description: status and message by node}
fleets_left: {type: list, returned: always, description: fleets that are still on the host}
"""

CONFIG, STATE, RUN, UNITS = Path("/etc/rlctl"), Path("/var/lib/rlctl"), Path("/run/rlctl"), Path("/etc/systemd/system")
_STOP_S = 150.0
_POLL_S = 0.1


def folders(base: Path) -> list[str]:
    """Names of the folders below `base`."""
    return sorted(p.name for p in base.iterdir() if p.is_dir() and p.name[0] != ".") if base.is_dir() else []


class Fleet:
    """Units, files and folders of one fleet on this host."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.name: str = module.params["fleet"]
        self.places = [base / self.name for base in (CONFIG, STATE)]
        self.unit_files = sorted(
            path
            for suffix in ("@.service", "-sentinel@.service", "-firewall.service")
            if (path := UNITS / f"rlctl-{self.name}{suffix}").exists()
        )

    def nodes(self) -> list[str]:
        """Nodes with a unit, settings or data on this host."""
        patterns = (f"rlctl-{self.name}@*", f"rlctl-{self.name}-sentinel@*")
        listed = self.systemctl("list-units", "--all", "--plain", "--no-legend", *patterns)
        loaded = {line.split()[0].partition("@")[2].removesuffix(".service") for line in listed.splitlines()}
        return sorted(loaded | {node for place in self.places for node in folders(place)})

    def unit(self, node: str) -> str:
        kind = "-sentinel" if node.startswith("sentinel-") else ""
        return f"rlctl-{self.name}{kind}@{node}.service"

    def systemctl(self, *argv: str) -> str:
        """Run systemctl and return its output."""
        return str(self.module.run_command(["systemctl", *argv])[1])

    def stop(self, nodes: list[str]) -> list[str]:
        """Stop and disable the nodes; returns the nodes that still run after the time limit."""
        units = [self.unit(node) for node in nodes]
        self.systemctl("disable", "--quiet", *units)
        self.systemctl("stop", "--no-block", *units)
        deadline = time.monotonic() + _STOP_S
        while (left := self._running(nodes)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.systemctl("reset-failed", *units)
        return left

    def remove(self, node: str) -> None:
        """Remove settings, data and start tokens of one node."""
        for path in (place / node for place in self.places):
            if path.exists():
                shutil.rmtree(path)
        for suffix in ("go", "env"):
            (RUN / self.name / f"{node}.{suffix}").unlink(missing_ok=True)

    def remove_shared(self) -> None:
        """Remove the firewall table, unit files and folders that all nodes of the fleet shared."""
        self.systemctl("disable", "--quiet", "--now", f"rlctl-{self.name}-firewall.service")
        for path in self.unit_files:
            path.unlink()
        self.systemctl("daemon-reload")
        for place in (*self.places, RUN / self.name):
            if place.exists():
                shutil.rmtree(place)

    def _running(self, nodes: list[str]) -> list[str]:
        shown = self.systemctl("show", "-p", "ActiveState", "--value", *(self.unit(node) for node in nodes)).split()
        return [node for node, state in zip(nodes, shown, strict=True) if state not in {"inactive", "failed"}]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "fleet": {"type": "str", "required": True},
            "nodes": {"type": "list", "elements": "str"},
        },
        supports_check_mode=True,
    )
    fleet = Fleet(module)
    there = fleet.nodes()
    wanted = there if module.params["nodes"] is None else [n for n in there if n in module.params["nodes"]]
    last = set(wanted) == set(there) and (bool(fleet.unit_files) or any(place.exists() for place in fleet.places))
    fleets = {name for base in (CONFIG, STATE) for name in folders(base)}
    left = sorted(name for name in fleets if name != fleet.name or not last)
    results = {node: {"status": "changed", "message": ""} for node in wanted}
    if module.check_mode:
        module.exit_json(changed=bool(wanted) or last, nodes=results, fleets_left=left)
    still_running = fleet.stop(wanted) if wanted else []
    for node in still_running:
        results[node] = {"status": "failed", "message": f"{fleet.unit(node)} did not stop; its files were kept"}
    try:
        for node in wanted:
            if node not in still_running:
                fleet.remove(node)
        if last and not still_running:
            fleet.remove_shared()
    except OSError as failure:
        module.fail_json(msg=f"cannot remove {failure.filename}: {failure.strerror}. Fix the cause and run again")
    if still_running:
        module.fail_json(msg="; ".join(results[node]["message"] for node in still_running), nodes=results)
    module.exit_json(changed=bool(wanted) or last, nodes=results, fleets_left=left)


if __name__ == "__main__":
    main()
