"""Ansible module: judges a host and its nodes and changes nothing; what is wrong fails, what is unwise warns."""

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
  - With C(facts), whether the host can carry the fleet; with C(fleet), whether what was placed is as it should be.
  - Each finding names what, the evidence and the fix. Errors fail the task, warnings do not.
options:
  facts: {type: dict, description: what rlctl_host_facts found}
  kernel: {type: dict, default: {}, description: kernel settings that are wanted}
  open_files: {type: int, default: 0, description: files a server wants to open}
  memory_bytes: {type: int, default: 0, description: maxmemory of all nodes of the host}
  package: {type: str, default: "", description: the server's package}
  masked: {type: list, elements: str, default: [], description: "the package's own units, which must not run"}
  fleet: {type: str, description: name of the fleet}
  address: {type: str, description: where its nodes listen}
  nodes: {type: list, elements: dict, default: [], description: "name, port, bus_port"}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Judge the nodes
  rlctl_check: {fleet: limiter, address: 10.0.0.11, nodes: [{name: node-0, port: 7000, bus_port: 17000}]}
"""

RETURN = r"""
errors: {type: list, returned: always, description: what is wrong}
warnings: {type: list, returned: always, description: what is unwise}
"""

_MIB = 1024 * 1024
_REACHABLE_S = 2.0


class Report:
    """What was found."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, Any] = module.params
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def systemctl(self, *argv: str) -> str:
        """What systemctl prints."""
        return str(self.module.run_command(["systemctl", *argv])[1]).strip()

    def wrong(self, what: str, fix: str) -> None:
        """Something that must be put right."""
        self.errors.append(f"{what}; {fix}")

    def unwise(self, what: str, fix: str) -> None:
        """Something that works, but not well."""
        self.warnings.append(f"{what}; {fix}")


def judge_host(report: Report) -> None:
    """Kernel, limits, memory, clock, package."""
    facts = report.params["facts"]
    judge_kernel(report, facts)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < report.params["memory_bytes"]:
        report.wrong(
            f"the host has {memory // _MIB} MiB, its nodes may take {report.params['memory_bytes'] // _MIB} MiB",
            "lower memory.maxmemory or put fewer nodes here",
        )
    if not facts["version"]:
        fix = "look at /etc/apt/sources.list, run apt-get update"
        report.wrong(f"there is no package {report.params['package']}", fix)
    if report.module.run_command(["timedatectl", "show", "-p", "NTPSynchronized", "--value"])[1].strip() == "no":
        report.unwise("the clock is not synchronised", "limits count by it: install chrony or systemd-timesyncd")
    for unit in report.params["masked"]:
        if report.systemctl("is-active", unit) == "active":
            report.unwise(f"{unit} runs beside the fleet", f"if nobody needs it: systemctl disable --now {unit}")


def judge_kernel(report: Report, facts: dict[str, Any]) -> None:
    """Kernel settings, and how many files may be open."""
    for name, wanted in report.params["kernel"].items():
        found = facts["kernel"].get(name)
        if found is not None and found != wanted:
            report.unwise(f"{name} is {found}, not {wanted}", "place.yml sets it; in a container the machine must")
    limit, wanted = facts["open_files"], report.params["open_files"]
    if 0 <= limit < wanted:
        report.unwise(f"servers may open {limit} files, not {wanted}", "raise the hard limit of the machine")


def judge_node(report: Report, node: dict[str, Any]) -> None:
    """Unit, files and sockets of one node."""
    fleet, name = report.params["fleet"], node["name"]
    kind = "-sentinel" if name.startswith("sentinel-") else ""
    unit = f"rlctl-{fleet}{kind}@{name}.service"
    if report.systemctl("is-enabled", unit) != "enabled":
        report.wrong(f"{unit} is not enabled", "run place.yml")
    judge_folder(report, Path("/etc/rlctl") / fleet / name, "root", 0o750)
    judge_folder(report, Path("/var/lib/rlctl") / fleet / name, "rlctl", 0o700)
    if report.systemctl("is-active", unit) != "active":
        report.wrong(f"{unit} does not run", "`rlctl deploy` decides when it is safe to start")
        return
    for port in filter(None, (node["port"], node.get("bus_port"))):
        judge_socket(report, unit, port)


def judge_folder(report: Report, folder: Path, owner: str, mode: int) -> None:
    """A folder and the files in it are their owner's, and nobody else reads them."""
    if not folder.is_dir():
        report.wrong(f"{folder} is missing", "run place.yml")
        return
    if (stat.S_IMODE(folder.stat().st_mode), folder.owner()) != (mode, owner):
        report.wrong(f"{folder} is not {owner}'s alone", "run place.yml")
    for path in folder.iterdir():
        # A server replaces its files while we look.
        with suppress(FileNotFoundError):
            state = path.stat()
            if stat.S_ISREG(state.st_mode) and stat.S_IMODE(state.st_mode) & ~mode & 0o077:
                report.wrong(
                    f"others may read {path}", f"chmod it, and find out who changed it ({path.owner()}'s file)"
                )


def judge_socket(report: Report, unit: str, port: int) -> None:
    """A port is served at the fleet's address, and only there."""
    address = report.params["address"]
    if not _answers(address, port):
        report.wrong(f"{unit} runs, but nothing listens on {address}:{port}", f"see journalctl -u {unit}")
    if _answers("127.0.0.1", port) and address != "127.0.0.1":
        report.wrong(f"port {port} is open on loopback too", f"something else than {unit} listens there: ss -ltnp")


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=_REACHABLE_S):
            return True
    except OSError:
        return False


def main() -> None:
    """Look, and tell."""
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
        judge_host(report)
    for node in module.params["nodes"]:
        judge_node(report, node)
    for warning in report.warnings:
        module.warn(warning)
    if report.errors:
        module.fail_json(msg="\n".join(report.errors), errors=report.errors)
    module.exit_json(changed=False, errors=[])


if __name__ == "__main__":
    main()
