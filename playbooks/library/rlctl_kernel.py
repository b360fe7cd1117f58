"""Ansible module: puts kernel settings in force now; a host that does not let it gets a warning."""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_kernel
short_description: Put kernel settings in force
description:
  - Writes below /proc/sys and /sys what differs, and remembers in C(record) what was there before.
  - In a container the kernel's settings are read-only; this is a warning, no failure.
options:
  sysctl: {type: dict, default: {}, description: settings by their names}
  huge_pages: {type: str, description: mode of transparent huge pages}
  record: {type: path, required: true, description: JSON file}
  state: {type: str, choices: [present, absent], default: present, description: absent puts back what is recorded}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Put kernel settings in force
  rlctl_kernel: {sysctl: {vm.overcommit_memory: "1"}, huge_pages: never, record: /etc/rlctl/.host/kernel.json}
"""

RETURN = r"""
settings: {type: dict, returned: always, description: what was, or would be, set}
"""

_HUGE_PAGES = "transparent_hugepage"


def path_of(name: str) -> Path:
    """The file of a setting."""
    if name == _HUGE_PAGES:
        return Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return Path("/proc/sys") / name.replace(".", "/")


def value_of(name: str) -> str | None:
    """The setting's value now; None where the kernel has no such thing."""
    try:
        text = path_of(name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return text.partition("[")[2].partition("]")[0] if name == _HUGE_PAGES else text


def can_write(name: str) -> bool:
    """Whether the host lets this be set; opening changes nothing."""
    try:
        path_of(name).open("r+", encoding="ascii").close()
    except OSError:
        return False
    return True


def recorded(module: AnsibleModule, record: Path) -> dict[str, Any]:
    """What was there before an earlier run set it."""
    if not record.exists():
        return {}
    try:
        return dict(json.loads(record.read_text(encoding="utf-8")))
    except ValueError as failure:
        module.fail_json(
            msg=f"{record} is damaged: {failure}. Remove it and run again; what was set before rlctl is not known then"
        )
        raise


def remember(record: Path, before: dict[str, Any]) -> None:
    """Whole or not at all: a run may be killed here."""
    record.parent.mkdir(parents=True, exist_ok=True)
    unfinished = record.with_suffix(".new")
    unfinished.write_text(json.dumps(before), encoding="utf-8")
    unfinished.replace(record)


def main() -> None:
    """Set what differs, remember what was."""
    module = AnsibleModule(
        argument_spec={
            "sysctl": {"type": "dict", "default": {}},
            "huge_pages": {"type": "str"},
            "record": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        settle(module, Path(module.params["record"]))
    except OSError as failure:
        module.fail_json(msg=f"cannot write {failure.filename}: {failure.strerror}. Put it right and run again")


def settle(module: AnsibleModule, record: Path) -> None:
    """Bring the settings to what is wanted, or back to what was."""
    known = recorded(module, record)
    wanted = dict(known)
    if module.params["state"] == "present":
        wanted = {name: str(value) for name, value in module.params["sysctl"].items()}
        if module.params["huge_pages"]:
            wanted[_HUGE_PAGES] = module.params["huge_pages"]
    found = {name: value_of(name) for name in wanted}
    differing = {name: value for name, value in wanted.items() if found[name] not in {value, None}}
    settable = {name: value for name, value in differing.items() if can_write(name)}
    for name in sorted(differing.keys() - settable.keys()):
        module.warn(f"{name} is {found[name]} and cannot be set to {differing[name]} here: the host must set it itself")
    if not module.check_mode:
        if module.params["state"] == "present" and settable:
            remember(record, {name: found[name] for name in settable} | known)
        for name, value in settable.items():
            path_of(name).write_text(value, encoding="ascii")
        if module.params["state"] == "absent":
            record.unlink(missing_ok=True)
    module.exit_json(changed=bool(settable), settings=settable)


if __name__ == "__main__":
    main()
