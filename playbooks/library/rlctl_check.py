"""Ansible module: checks a host and its nodes, and changes nothing. Errors fail the task; warnings do not."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_check
short_description: Report on a host and its nodes
description:
  - If C(facts) is set, checks whether the host can run the fleet. Checks units, files and sockets of C(nodes).
  - Each finding names the problem, the evidence and the fix. Errors fail the task, warnings do not.
options:
  facts: {type: dict, description: result of rlctl_host_facts}
  kernel: {type: dict, default: {}, description: wanted kernel settings}
  open_files: {type: int, default: 0, description: number of files that a server may have to open}
  memory_bytes: {type: int, default: 0, description: sum of maxmemory of the host's nodes}
  package: {type: str, default: "", description: name of the server's package}
  masked: {type: list, elements: str, default: [], description: "the package's own units, which must not run"}
  fleet: {type: str, description: name of the fleet}
  address: {type: str, description: address that the nodes listen on}
  nodes: {type: list, elements: dict, default: [], description: "name, port and bus_port of each node"}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Check the nodes
  rlctl_check: {fleet: limiter, address: 10.0.0.11, nodes: [{name: node-0, port: 7000, bus_port: 17000}]}
"""

RETURN = r"""
errors: {type: list, returned: always, description: findings that fail the task}
warnings: {type: list, returned: always, description: findings that do not fail the task}
"""

_MIB = 1024 * 1024
_REACHABLE_S = 2.0


class Report:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, Any] = module.params
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def systemctl(self, *argv: str) -> str:
        """Run systemctl and return its output without surrounding white space."""
        return str(self.module.run_command(["systemctl", *argv])[1]).strip()

    def error(self, what: str, fix: str) -> None:
        self.errors.append(f"{what}; {fix}")

    def warning(self, what: str, fix: str) -> None:
        self.warnings.append(f"{what}; {fix}")


def check_host(report: Report) -> None:
    """Check kernel settings, limits, memory, clock and package of the host."""
    facts = report.params["facts"]
    check_kernel(report, facts)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < report.params["memory_bytes"]:
        report.error(
            f"the host has {memory // _MIB} MiB, its nodes may take {report.params['memory_bytes'] // _MIB} MiB",
            "lower memory.maxmemory or put fewer nodes here",
        )
    if not facts["version"]:
        fix = "check /etc/apt/sources.list, run apt-get update"
        report.error(f"there is no package {report.params['package']}", fix)
    if report.module.run_command(["timedatectl", "show", "-p", "NTPSynchronized", "--value"])[1].strip() == "no":
        report.warning("the clock is not synchronised", "rate limits depend on it: install chrony or systemd-timesyncd")
    for unit in report.params["masked"]:
        if report.systemctl("is-active", unit) == "active":
            report.warning(f"{unit} runs beside the fleet", f"if it is not needed: systemctl disable --now {unit}")


def check_kernel(report: Report, facts: dict[str, Any]) -> None:
    """Check kernel settings and the limit of open files."""
    for name, wanted in report.params["kernel"].items():
        found = facts["kernel"].get(name)
        if found is not None and found != wanted:
            fix = "place.yml sets it; for a container set it on the machine that runs the container"
            report.warning(f"{name} is {found}, not {wanted}", fix)
    limit, wanted = facts["open_files"], report.params["open_files"]
    if 0 <= limit < wanted:
        report.warning(f"servers may open {limit} files, not {wanted}", "raise the hard limit of the machine")


def check_node(report: Report, node: dict[str, Any]) -> None:
    """Check unit, files and sockets of one node."""
    fleet, name = report.params["fleet"], node["name"]
    kind = "-sentinel" if name.startswith("sentinel-") else ""
    unit = f"rlctl-{fleet}{kind}@{name}.service"
    if report.systemctl("is-enabled", unit) != "enabled":
        report.error(f"{unit} is not enabled", "run place.yml")
    check_folder(report, Path("/etc/rlctl") / fleet / name, "root", 0o750)
    check_folder(report, Path("/var/lib/rlctl") / fleet / name, "rlctl", 0o700)
    if report.systemctl("is-active", unit) != "active":
        report.error(f"{unit} does not run", "`rlctl deploy` decides when it is safe to start")
        return
    for port in filter(None, (node["port"], node.get("bus_port"))):
        check_socket(report, unit, port)


def check_folder(report: Report, folder: Path, owner: str, mode: int) -> None:
    """Check owner and mode of a folder, and that other users cannot read its files."""
    if not folder.is_dir():
        report.error(f"{folder} is missing", "run place.yml")
        return
    if (stat.S_IMODE(folder.stat().st_mode), folder.owner()) != (mode, owner):
        report.error(f"{folder} does not belong to {owner} with mode {mode:04o}", "run place.yml")
    for path in folder.iterdir():
        # A running server may replace a file between the listing and the stat.
        with suppress(FileNotFoundError):
            state = path.stat()
            if stat.S_ISREG(state.st_mode) and stat.S_IMODE(state.st_mode) & ~mode & 0o077:
                report.error(
                    f"other users may read {path}", f"chmod it, and find out what changed it (it is {path.owner()}'s)"
                )


def check_socket(report: Report, unit: str, port: int) -> None:
    """Check that the port is open on the fleet's address and closed on loopback."""
    address = report.params["address"]
    if not _answers(address, port):
        report.error(f"{unit} runs, but nothing listens on {address}:{port}", f"see journalctl -u {unit}")
    if _answers("127.0.0.1", port) and address != "127.0.0.1":
        report.error(f"port {port} is open on loopback too", "find the other process that listens there: ss -ltnp")


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=_REACHABLE_S):
            return True
    except OSError:
        return False


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "facts": {"type": "dict"},
            "kernel": {"type": "dict", "default": {}},
            "open_files": {"type": "int", "default": 0},
            "memory_bytes": {"type": "int", "default": 0},
            "package": {"type": "str", "default": ""},
            "masked": {"type": "list", "elements": "str", "default": []},
            "fleet": {"type": "str"},
            "address": {"type": "str"},
            "nodes": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    report = Report(module)
    if module.params["facts"] is not None:
        check_host(report)
    for node in module.params["nodes"]:
        check_node(report, node)
    for warning in report.warnings:
        module.warn(warning)
    if report.errors:
        module.fail_json(msg="\n".join(report.errors), errors=report.errors)
    module.exit_json(changed=False, errors=[])


if __name__ == "__main__":
    main()
