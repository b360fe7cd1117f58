# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible callback: writes task results and the playbook's end for rlctl, as lines of JSON."""

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rlctl_events
type: notification
short_description: Events as lines of JSON
description:
  - Appends to the file that the environment variable C(RLCTL_EVENTS) names (C(/dev/fd/N) for an open descriptor).
  - Messages of tasks under no_log are never written.
requirements: [C(RLCTL_EVENTS) in the environment; without it nothing is written]
author: [rlctl]
"""

Result = dict[str, Any]


class CallbackModule(CallbackBase):
    """Writes events as they happen."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "rlctl_events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        named = os.environ.get("RLCTL_EVENTS")
        self._file = Path(named).open("a", encoding="utf-8") if named else None  # noqa: SIM115 - open until Ansible ends

    def v2_runner_on_ok(self, result: Any) -> None:
        self._write_result(result, "changed" if result._result.get("changed") else "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002 - Ansible's signature
        # For a loop, v2_runner_item_on_failed has written each failed item with its reason.
        if result._task.loop is None or "results" not in result._result:
            self._write_result(result, "ok" if ignore_errors else "failed")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._write_result(result, "skipped")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._write_result(result, "unreachable")

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._write_result(result, "failed", item=self._get_item_label(result._result))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        totals = {}
        for host in sorted(stats.processed):
            counts = stats.summarize(host)
            totals[host] = {name: counts[name] for name in ("ok", "changed", "failures", "unreachable")}
        self._write({"event": "end", "stats": totals})

    def _write_result(self, result: Any, status: str, item: object = None) -> None:
        """Write one event, or one for each node if the result has `nodes`."""
        event = {
            "event": "result",
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "item": None if item is None else str(item),
            "status": status,
            "message": _message(result._result, status, result._task.action),
            "node": None,
            "refused": result._result.get("refused") or {},
        }
        nodes = result._result.get("nodes")
        if not isinstance(nodes, dict) or not nodes:
            self._write(event)
            return
        for name, own in nodes.items():
            self._write({**event, "status": own["status"], "message": own["message"] or None, "node": name})

    def _write(self, event: Result) -> None:
        if self._file is not None:
            self._file.write(json.dumps({**event, "time_s": round(time.time(), 3)}) + "\n")
            self._file.flush()


def _message(result: Result, status: str, action: str) -> str | None:
    """The reason of a failure, or the text of a debug task; None for a task under no_log, which may contain secrets."""
    says = status in {"failed", "unreachable"} or (status == "ok" and action.rpartition(".")[2] == "debug")
    if "censored" in result or not says:
        return None
    text = result.get("msg") or result.get("module_stderr") or result.get("stderr")
    return str(text).strip() if text else None
