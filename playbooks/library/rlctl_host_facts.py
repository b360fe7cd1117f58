"""Ansible module: reads the facts of a host that the roles need before they change it. Needs no root."""

import ipaddress
import os
import resource
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_host_facts
short_description: Read the facts of a host that the roles need
description: [Reads the system, the package, kernel settings, and the fleets and nodes on the host. Changes nothing.]
options:
  fleet: {type: str, required: true, description: name of the fleet}
  package: {type: str, required: true, description: name of the server's package}
  sysctl: {type: list, elements: str, default: [], description: names of kernel settings to read}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Read the host
  rlctl_host_facts: {fleet: limiter, package: redis-server}
  register: found
"""

RETURN = r"""
host: {type: dict, returned: always, description: "system, package versions, fleets, nodes, operators, kernel, limits"}
"""

CONFIG, STATE = Path("/etc/rlctl"), Path("/var/lib/rlctl")


def os_release() -> tuple[str, str]:
    """Id and version of the distribution, such as `debian` and `12`."""
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return values.get("ID", "").strip('"'), values.get("VERSION_ID", "").strip('"')


def package_versions(module: AnsibleModule, package: str) -> tuple[str, str]:
    """Installed and candidate version as Debian writes them; an empty text for a version that does not exist."""
    if shutil.which("apt-cache") is None:
        return "", ""
    code, installed, _ = module.run_command(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package])
    status, _, version = installed.partition(" ")
    has = code == 0 and status == "installed"
    _, policy, _ = module.run_command(["apt-cache", "policy", package], environ_update={"LC_ALL": "C"})
    candidates = [line.split()[-1] for line in policy.splitlines() if line.strip().startswith("Candidate:")]
    return version if has else "", candidates[0] if candidates and candidates[0] != "(none)" else ""


def upstream(version: str) -> str:
    """The upstream part of a Debian version: `7.0.15` for `5:7.0.15-1~deb12u7`."""
    return version.partition(":")[2].partition("-")[0] if ":" in version else version.partition("-")[0]


def operators(fleet: str) -> list[str]:
    """IPv4 addresses from which operators have connected over ssh, including the current connection."""
    known = _lines(CONFIG / fleet / "operators")
    peer = os.environ.get("SSH_CONNECTION", "").split(" ")[0].removeprefix("::ffff:")
    return sorted({*known, peer} & {text for text in (*known, peer) if _is_ipv4(text)}, key=ipaddress.IPv4Address)


def fleets() -> list[str]:
    """Fleets with settings or data on this host."""
    return sorted(_folders(CONFIG) | _folders(STATE))


def nodes(fleet: str) -> list[str]:
    """Nodes of the fleet with settings or data on this host."""
    return sorted(_folders(CONFIG / fleet) | _folders(STATE / fleet))


def kernel(names: list[str]) -> dict[str, str | None]:
    """Current kernel settings and huge page mode; None for a setting that the kernel does not have."""
    found = {name: _first_line(Path("/proc/sys") / name.replace(".", "/")) for name in names}
    pages = _first_line(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    return found | {"transparent_hugepage": pages and pages.partition("[")[2].partition("]")[0]}


def free_bytes(folder: Path) -> int:
    """Free bytes on the folder's file system. The folder may not exist yet."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def _folders(base: Path) -> set[str]:
    return {path.name for path in base.iterdir() if path.is_dir() and path.name[0] != "."} if base.is_dir() else set()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "fleet": {"type": "str", "required": True},
            "package": {"type": "str", "required": True},
            "sysctl": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    system, release = os_release()
    installed, candidate = package_versions(module, module.params["package"])
    module.exit_json(
        changed=False,
        host={
            "os": system,
            "os_version": release,
            "systemd": Path("/run/systemd/system").is_dir(),
            "installed": upstream(installed),
            "version": upstream(installed or candidate),
            "fleets": fleets(),
            "nodes": nodes(module.params["fleet"]),
            "operators": operators(module.params["fleet"]),
            "kernel": kernel(module.params["sysctl"]),
            "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "free_bytes": free_bytes(STATE),
        },
    )


if __name__ == "__main__":
    main()
