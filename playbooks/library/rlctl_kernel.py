"""Ansible module: applies kernel settings immediately, and warns about settings that it cannot change."""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_kernel
short_description: Apply kernel settings immediately
description:
  - Writes the settings that differ to /proc/sys and /sys, and saves their previous values in C(record).
  - Only warns about a setting that cannot be written, since most are read-only in a container.
options:
  sysctl: {type: dict, default: {}, description: values by the settings' names}
  huge_pages: {type: str, description: mode of transparent huge pages}
  record: {type: path, required: true, description: JSON file on the host}
  state: {type: str, choices: [present, absent], default: present, description: absent restores the recorded values}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Set kernel settings
  rlctl_kernel: {sysctl: {vm.overcommit_memory: "1"}, huge_pages: never, record: /etc/rlctl/.host/kernel.json}
"""

RETURN = r"""
settings: {type: dict, returned: always, description: "values that were set, or in check mode would be set"}
"""

_HUGE_PAGES = "transparent_hugepage"


def path_of(name: str) -> Path:
    if name == _HUGE_PAGES:
        return Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return Path("/proc/sys") / name.replace(".", "/")


def value_of(name: str) -> str | None:
    """The setting's current value; None if the kernel does not have it."""
    try:
        text = path_of(name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return text.partition("[")[2].partition("]")[0] if name == _HUGE_PAGES else text


def can_write(name: str) -> bool:
    """Whether the setting can be written; opening its file changes nothing."""
    try:
        path_of(name).open("r+", encoding="ascii").close()
    except OSError:
        return False
    return True


def recorded(module: AnsibleModule, record: Path) -> dict[str, Any]:
    """The values that settings had before the first run changed them."""
    if not record.exists():
        return {}
    try:
        return dict(json.loads(record.read_text(encoding="utf-8")))
    except ValueError as failure:
        module.fail_json(
            msg=f"{record} is damaged: {failure}. Remove it and run again; this loses the values from before rlctl"
        )
        raise


def write_record(record: Path, before: dict[str, Any]) -> None:
    """Replace the record atomically, since a run may be killed at any point."""
    record.parent.mkdir(parents=True, exist_ok=True)
    unfinished = record.with_suffix(".new")
    unfinished.write_text(json.dumps(before), encoding="utf-8")
    unfinished.replace(record)


def main() -> None:
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
        module.fail_json(msg=f"cannot write {failure.filename}: {failure.strerror}. Fix the cause and run again")


def settle(module: AnsibleModule, record: Path) -> None:
    """Set the wanted values, or the recorded ones if `state` is `absent`, and end the module."""
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
        module.warn(
            f"{name} is {found[name]} and cannot be set to {differing[name]} here; "
            "in a container, set it on the machine that runs the container"
        )
    if not module.check_mode:
        if module.params["state"] == "present" and settable:
            write_record(record, {name: found[name] for name in settable} | known)
        for name, value in settable.items():
            path_of(name).write_text(value, encoding="ascii")
        if module.params["state"] == "absent":
            record.unlink(missing_ok=True)
    module.exit_json(changed=bool(settable), settings=settable)


if __name__ == "__main__":
    main()
