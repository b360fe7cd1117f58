"""Ansible module: stops nodes and removes all that is theirs, and the fleet's own things with the last one."""

import shutil
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_remove
short_description: Remove nodes from a host
description:
  - Stops and disables the units of C(nodes) (of all, without it), then removes their settings and data.
  - With the last node the fleet's units, firewall table and folders go. C(fleets_left) tells whether others are here.
options:
  fleet: {type: str, required: true, description: name of the fleet}
  nodes: {type: list, elements: str, description: names of nodes; all of the fleet where it is not given}
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
    """Names of the folders in there."""
    return sorted(p.name for p in base.iterdir() if p.is_dir() and p.name[0] != ".") if base.is_dir() else []


class Fleet:
    """What one fleet has on this host."""

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
        """Nodes that left anything here."""
        patterns = (f"rlctl-{self.name}@*", f"rlctl-{self.name}-sentinel@*")
        listed = self.systemctl("list-units", "--all", "--plain", "--no-legend", *patterns)
        loaded = {line.split()[0].partition("@")[2].removesuffix(".service") for line in listed.splitlines()}
        return sorted(loaded | {node for place in self.places for node in folders(place)})

    def unit(self, node: str) -> str:
        """The unit that runs a node."""
        kind = "-sentinel" if node.startswith("sentinel-") else ""
        return f"rlctl-{self.name}{kind}@{node}.service"

    def systemctl(self, *argv: str) -> str:
        """What systemctl prints."""
        return str(self.module.run_command(["systemctl", *argv])[1])

    def stop(self, nodes: list[str]) -> list[str]:
        """Stop and disable; the nodes that do not end."""
        units = [self.unit(node) for node in nodes]
        self.systemctl("disable", "--quiet", *units)
        self.systemctl("stop", "--no-block", *units)
        deadline = time.monotonic() + _STOP_S
        while (left := self._running(nodes)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.systemctl("reset-failed", *units)
        return left

    def remove(self, node: str) -> None:
        """Everything of one node."""
        for path in (place / node for place in self.places):
            if path.exists():
                shutil.rmtree(path)
        for suffix in ("go", "env"):
            (RUN / self.name / f"{node}.{suffix}").unlink(missing_ok=True)

    def remove_itself(self) -> None:
        """What all nodes of the fleet shared."""
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
    """Stop, then delete; a node that does not end keeps its files."""
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
    stubborn = fleet.stop(wanted) if wanted else []
    for node in stubborn:
        results[node] = {"status": "failed", "message": f"{fleet.unit(node)} does not end; its files were left"}
    try:
        for node in wanted:
            if node not in stubborn:
                fleet.remove(node)
        if last and not stubborn:
            fleet.remove_itself()
    except OSError as failure:
        module.fail_json(msg=f"cannot remove {failure.filename}: {failure.strerror}. Put it right and run again")
    if stubborn:
        module.fail_json(msg="; ".join(results[node]["message"] for node in stubborn), nodes=results)
    module.exit_json(changed=bool(wanted) or last, nodes=results, fleets_left=left)


if __name__ == "__main__":
    main()
