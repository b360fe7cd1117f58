"""Ansible module: installs Debian packages and masks their services first. Works without python3-apt on the host."""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_package
short_description: Install packages without starting their services
description:
  - Masks the units in C(masked) before it installs C(names). If the first package is installed already, its units may
    be in use and stay unmasked.
  - Records the installed packages and masked units in C(record), so that rlctl_package_removal removes no others.
  - Unlike ansible.builtin.apt it does not need python3-apt on the host, so check mode works on a fresh host.
options:
  names: {type: list, elements: str, default: [], description: names of packages}
  masked: {type: list, elements: str, default: [], description: units of the first package}
  record: {type: path, required: true, description: JSON file on the host}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Install the server
  rlctl_package: {names: [redis-server], masked: [redis-server.service], record: /etc/rlctl/.host/packages.json}
"""

RETURN = r"""
packages: {type: list, returned: always, description: "packages that were installed, or in check mode would be"}
version: {type: str, returned: always, description: "upstream version of the first package, empty if not installed"}
"""

_APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")
_INSTALL = ("install", "--no-install-recommends", "-o", "DPkg::Options::=--force-confold")
_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
_SHOWN_LINES = 4
Record = dict[str, list[str]]


class Host:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.record_path = Path(module.params["record"])

    def run(self, *argv: str) -> tuple[int, str]:
        """Exit code and all output of the program."""
        code, out, err = self.module.run_command(list(argv), environ_update=_ENVIRONMENT)
        return code, f"{out}\n{err}"

    def installed(self) -> set[str]:
        """Names of the packages that are completely installed."""
        _, listed = self.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n")
        words = [line.split(" ") for line in listed.splitlines()]
        return {word[1] for word in words if len(word) > 1 and word[0] == "installed"}

    def version(self) -> str:
        """The first package's upstream version: `7.0.15` for `5:7.0.15-1~deb12u7`."""
        first = self.module.params["names"][:1]
        code, version = self.run("dpkg-query", "-W", "-f", "${Version}", *first) if first else (1, "")
        return version.strip().rpartition(":")[2].partition("-")[0] if code == 0 else ""

    def recorded(self) -> Record:
        """Packages and units that earlier runs installed and masked."""
        if not self.record_path.exists():
            return {"packages": [], "masked": []}
        found = json.loads(self.record_path.read_text(encoding="utf-8"))
        return {"packages": found["packages"], "masked": found["masked"]}

    def is_kept(self) -> bool:
        """Whether packages were kept when the host's last fleet was removed, and no fleet was placed since."""
        return self.record_path.exists() and bool(json.loads(self.record_path.read_text(encoding="utf-8")).get("kept"))

    def add_to_record(self, packages: set[str], masked: set[str]) -> None:
        """Add packages and units to the record, and clear its flag `kept`, since the host has a fleet again."""
        known = self.recorded()
        text = json.dumps(
            {
                "packages": sorted({*known["packages"], *packages}),
                "masked": sorted({*known["masked"], *masked}),
            }
        )
        self.record_path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.record_path.with_suffix(".new")
        unfinished.write_text(f"{text}\n", encoding="utf-8")
        unfinished.replace(self.record_path)


def install(host: Host) -> list[str]:
    """Install the missing packages and return their names; in check mode only return them."""
    names, units = host.module.params["names"], host.module.params["masked"]
    before = host.installed()
    missing = [name for name in names if name not in before]
    if not missing or host.module.check_mode:
        return missing
    masked = set(units) if missing[0] == names[0] else set()
    if masked:
        host.run("systemctl", "mask", *sorted(masked))
    host.add_to_record(set(missing), masked)
    host.run("dpkg", "--configure", "-a")  # a killed run may have left a package half-installed
    code, output = host.run(*_APT, *_INSTALL, *missing)
    if code != 0:  # the lists may be missing, or older than the archive
        _, updated = host.run(*_APT, "update")
        code, output = host.run(*_APT, *_INSTALL, *missing)
        output = updated + output
    if code != 0:
        host.module.fail_json(msg=_why(missing, output))
    host.add_to_record(host.installed() - before, masked)
    return missing


def _why(names: list[str], output: str) -> str:
    complaints = [line for line in output.splitlines() if line.startswith(("E:", "Err:", "dpkg: error"))]
    reason = " / ".join((complaints or output.split("\n"))[-_SHOWN_LINES:])
    return (
        f"cannot install {', '.join(names)}: {reason}. "
        "Check /etc/apt/sources.list, the network and the space in /var on the host, and run again"
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "default": []},
            "masked": {"type": "list", "elements": "str", "default": []},
            "record": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    host = Host(module)
    try:
        was_kept = host.is_kept()
        packages = install(host)
        if was_kept and not module.check_mode:
            host.add_to_record(set(), set())
        module.exit_json(changed=bool(packages) or was_kept, packages=packages, version=host.version())
    except OSError as failure:
        module.fail_json(msg=f"cannot write {host.record_path}: {failure.strerror}. Fix the cause and run again")


if __name__ == "__main__":
    main()
