"""Ansible module: enables units, loads the fleet's firewall table, and runs units that are not Redis servers."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_units
short_description: Enable units, load the fleet's firewall table, run helper units
description:
  - Makes systemd reload changed unit files, and enables units. Starts only the units in C(running).
  - Set C(reload) if a unit file changed in this run, since systemd cannot see the change in check mode.
  - Loads the firewall table if its C(revision) is not loaded. Leaves other tables unchanged.
options:
  enabled: {type: list, elements: str, default: [], description: units that start when the host boots}
  reload: {type: bool, default: false, description: whether a unit file changed}
  firewall: {type: dict, description: "unit, table and revision of the firewall table"}
  running: {type: list, elements: str, default: [], description: units that must run}
  restarted: {type: bool, default: false, description: whether to restart the units in C(running)}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Enable the nodes
  rlctl_units:
    enabled: [rlctl-limiter@node-0.service]
    firewall: {unit: rlctl-limiter-firewall.service, table: rlctl_limiter, revision: 0a1b2c}
"""

RETURN = r"""
enabled: {type: list, returned: always, description: units that were not enabled before}
"""

_PROPERTIES = ("Id", "UnitFileState", "NeedDaemonReload", "ActiveState")


def properties(module: AnsibleModule, units: list[str]) -> list[dict[str, str]]:
    """The properties in `_PROPERTIES` of each unit, in the order of the units."""
    if not units:
        return []
    arguments = [word for name in _PROPERTIES for word in ("-p", name)]
    _, out, _ = module.run_command(["systemctl", "show", *arguments, *units])
    return [dict(line.split("=", 1) for line in block.splitlines()) for block in out.strip().split("\n\n")]


def must_run(module: AnsibleModule, *argv: str) -> None:
    """Run a command; fail the task with its output if it fails."""
    code, out, err = module.run_command(list(argv))
    if code != 0:
        module.fail_json(
            msg=f"`{' '.join(argv)}` failed on the host: {(err or out).strip()}. Fix the cause and run again"
        )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "enabled": {"type": "list", "elements": "str", "default": []},
            "reload": {"type": "bool", "default": False},
            "running": {"type": "list", "elements": "str", "default": []},
            "restarted": {"type": "bool", "default": False},
            "firewall": {
                "type": "dict",
                "options": {name: {"type": "str", "required": True} for name in ("unit", "table", "revision")},
            },
        },
        supports_check_mode=True,
    )
    firewall = module.params["firewall"]
    units = [*module.params["enabled"], *([firewall["unit"]] if firewall else [])]
    known = properties(module, units)
    disabled = [unit for unit, state in zip(units, known, strict=True) if state.get("UnitFileState") != "enabled"]
    stale = module.params["reload"] or any(state.get("NeedDaemonReload") == "yes" for state in known)
    unloaded = firewall is not None and not has_revision(module, firewall)
    down = [
        state["Id"]
        for state in properties(module, module.params["running"])
        if module.params["restarted"] or state["ActiveState"] != "active"
    ]
    if not module.check_mode:
        if stale:
            must_run(module, "systemctl", "daemon-reload")
        if disabled:
            must_run(module, "systemctl", "enable", "--quiet", *disabled)
        if unloaded:
            must_run(module, "systemctl", "reload-or-restart", firewall["unit"])
        if down:
            must_run(module, "systemctl", "restart", *down)
    module.exit_json(changed=bool(disabled or stale or unloaded or down), enabled=disabled)


def has_revision(module: AnsibleModule, firewall: dict[str, str]) -> bool:
    """Whether this revision of the table is loaded: the table has an empty chain named after the hash of its text."""
    nft = module.get_bin_path("nft", opt_dirs=["/usr/sbin"])
    chain = ["list", "chain", "inet", firewall["table"], f"revision_{firewall['revision']}"]
    return nft is not None and module.run_command([nft, *chain])[0] == 0


if __name__ == "__main__":
    main()
