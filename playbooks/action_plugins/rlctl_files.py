# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plugin of rlctl_files: repeats the entries for each node, and reads source files on the control machine."""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

Entry = dict[str, Any]


class ActionModule(ActionBase):
    """Passes the files' contents to the module, so that one round trip places all files of all nodes of a host."""

    def run(self, tmp: None = None, task_vars: Entry | None = None) -> Entry:
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        nodes = arguments.pop("for_each", {"": ""})
        if not isinstance(nodes, dict):
            nodes = dict.fromkeys(nodes, "")
        sent = {kind: _expand(arguments.pop(kind, []), nodes) for kind in ("folders", "files")}
        sent["files"] = [read for entry in sent["files"] if (read := _with_content(entry)) is not None]
        return dict(self._execute_module(module_args={**arguments, **sent}, task_vars=task_vars))


def _expand(entries: list[Entry], nodes: Entry) -> list[Entry]:
    """Each entry once for each node, with %i replaced by the node's name and %u by its id."""
    return [
        {key: _named(value, name, str(own_id)) for key, value in entry.items()}
        for name, own_id in nodes.items()
        for entry in entries
    ]


def _named(value: object, name: str, own_id: str) -> object:
    return value.replace("%i", name).replace("%u", own_id) if isinstance(value, str) and name else value


def _with_content(entry: Entry) -> Entry | None:
    """The entry with its source's text as `secret`; None for an optional source that is missing."""
    given = {key: value for key, value in entry.items() if key not in {"source", "optional"}}
    if "source" not in entry:
        return given
    source = Path(entry["source"])
    try:
        return given | {"secret": source.read_text(encoding="utf-8")}
    except FileNotFoundError:
        if entry.get("optional"):
            return None
        raise AnsibleActionFail(f"{source} is missing: rlctl renders it before this task runs") from None
    except OSError as failure:
        raise AnsibleActionFail(f"{source}: {failure.strerror}") from failure
