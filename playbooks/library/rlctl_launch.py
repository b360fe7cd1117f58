"""Ansible module: starts nodes of rlctl's plan, all at once, and reports the result of each node."""

import json
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_launch
short_description: Start nodes
description:
  - Writes the token that the node's start-guard requires, starts the unit, and waits until it is active.
  - The task succeeds even if a node does not start. C(nodes) has the result of each node.
options:
  fleet: {type: str, required: true, description: name of the fleet}
  launches: {type: dict, required: true, description: "by node C(follow), its primary's address and port, or null"}
  unit: {type: str, required: true, description: "unit of a node; %i is its name"}
  timeout: {type: int, default: 120, description: seconds to wait until all nodes are active}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Start a node
  rlctl_launch: {fleet: limiter, launches: {node-0: {follow: null}}, unit: rlctl-limiter@%i.service}
"""

RETURN = r"""
nodes: {type: dict, returned: always, description: "status (ok, changed, failed) and message, by node"}
"""

_POLL_S = 0.1
_STATES = ("ActiveState", "SubState", "Result")
_SETTLED = {"active", "failed", "inactive"}
_SHOWN_LINES = 5
_GUARD = "start-guard"
# systemd's lines about a failed start, and its lines with the reason. The server's lines have the other reasons.
_FAILED = re.compile(r"Main process exited|Failed at step|Failed with result")
_REASON = re.compile(r"Failed at step|Failed to set up|status=2\d\d/|code=(killed|dumped)|timed out")
_NO_NAMESPACES = re.compile(r"step USER|status=217/")
# A line of the configuration file that the server refused and whose value is a password.
_PASSWORD = re.compile(r"^(>>> '(?:requirepass|masterauth|primaryauth|user|sentinel|tls-\S*-pass))\b.*$", re.IGNORECASE)
State = dict[str, str]


class Launcher:
    """Starts the units of one batch of nodes."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.launches: dict[str, dict[str, Any]] = module.params["launches"]
        self.units = {node: module.params["unit"].replace("%i", node) for node in self.launches}
        self.run_folder = Path("/run/rlctl") / module.params["fleet"]
        self.begin = self._journal_end()

    def states(self) -> dict[str, State]:
        """The properties in `_STATES` of each node's unit."""
        wanted = [word for name in _STATES for word in ("-p", name)]
        _, out, _ = self.module.run_command(["systemctl", "show", *wanted, *self.units.values()])
        blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in out.strip().split("\n\n")]
        return dict(zip(self.units, blocks, strict=True))

    def write_token(self, node: str) -> None:
        """Write the node's start token, and its --replicaof option. `remove_token` removes both after the start."""
        self.run_folder.mkdir(parents=True, exist_ok=True)
        primary = self.launches[node].get("follow")
        option = f"--replicaof {primary['address']} {primary['port']}" if primary else ""
        (self.run_folder / f"{node}.env").write_text(f'RLCTL_FOLLOW="{option}"\n', encoding="ascii")
        (self.run_folder / f"{node}.go").touch()

    def remove_token(self, node: str) -> None:
        # A token that stayed after a failed start would allow a later start that is not in a plan.
        for suffix in ("go", "env"):
            (self.run_folder / f"{node}.{suffix}").unlink(missing_ok=True)

    def start(self, nodes: list[str]) -> str:
        """Start the nodes and wait until each is active or has failed; returns what systemctl printed."""
        units = [self.units[node] for node in nodes]
        self.module.run_command(["systemctl", "reset-failed", *units])
        _, out, err = self.module.run_command(["systemctl", "start", "--no-block", *units])
        deadline = time.monotonic() + self.module.params["timeout"]
        while time.monotonic() < deadline and not self._all_settled(nodes):
            time.sleep(_POLL_S)
        return f"{out}{err}".strip()

    def failure_reason(self, node: str) -> str:
        """Why the last start failed, from the journal of the server and systemd; empty if it shows none."""
        unit = self.units[node]
        _, out, _ = self.module.run_command(["journalctl", "-q", "--no-pager", "-o", "json", *self.begin, "-u", unit])
        lines = [text.removeprefix(f"{unit}: ") for text in failure_lines(entries(out))]
        return " / ".join(list(dict.fromkeys(lines))[-_SHOWN_LINES:])

    def _journal_end(self) -> list[str]:
        """The journalctl option that skips all entries up to now."""
        # Uses a cursor: --since counts whole seconds, and would show some earlier entries too.
        _, out, _ = self.module.run_command(["journalctl", "-q", "--no-pager", "-n", "0", "--show-cursor"])
        return journal_after(out) or ["--since", f"@{int(time.time())}"]

    def _all_settled(self, nodes: list[str]) -> bool:
        """Whether systemd has no job left for these units. A unit that waits for its automatic restart has a job."""
        states = self.states()
        _, jobs, _ = self.module.run_command(["systemctl", "list-jobs", "--no-legend", "--plain"])
        waiting = {word for line in jobs.splitlines() for word in line.split()}
        return all(states[node]["ActiveState"] in _SETTLED and self.units[node] not in waiting for node in nodes)


def journal_after(shown: str) -> list[str]:
    """The option for entries after the cursor that journalctl printed; empty for an empty journal."""
    cursor = shown.strip().rpartition("-- cursor: ")[2]
    return ["--after-cursor", cursor] if cursor else []


def entries(journal: str) -> Iterator[tuple[str, str]]:
    """Identifier and message of each journal entry; binary messages are left out."""
    for line in journal.splitlines():
        entry = json.loads(line)
        if isinstance(entry.get("MESSAGE"), str):
            yield entry.get("SYSLOG_IDENTIFIER", ""), entry["MESSAGE"]


def failure_lines(journal: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The messages with the reason of a failed start. Leaves out start-guard's messages about automatic restarts."""
    has_failed = False
    for identifier, text in journal:
        # Before systemd's child executes the program, its identifier is the program's name in brackets.
        if identifier == "systemd" or identifier.startswith("("):
            has_failed = has_failed or _FAILED.search(text) is not None
            if _REASON.search(text):
                yield text
        # Lines that begin with a space are the server's banner.
        elif text.strip() and not text.startswith(" ") and not (identifier == _GUARD and has_failed):
            yield _PASSWORD.sub(r"\1 (value not shown)'", text.strip())


def result_of(launcher: Launcher, node: str, state: State, complaint: str) -> State:
    """Status and message of one node after its start."""
    if state["ActiveState"] == "active":
        return {"status": "changed", "message": ""}
    how = f"{state['ActiveState']} ({state['SubState']}, {state['Result']})"
    unit, why = launcher.units[node], launcher.failure_reason(node) or complaint
    hint = f"See `journalctl -u {unit}`"
    if _NO_NAMESPACES.search(why):
        hint = f"If the host allows no user namespaces, set redis_host_private_users to auto. {hint}"
    return {"status": "failed", "message": f"{node} did not come up, {unit} is {how}: {why}. {hint}"}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "fleet": {"type": "str", "required": True},
            "launches": {"type": "dict", "required": True},
            "unit": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    launcher = Launcher(module)
    down = [node for node, state in launcher.states().items() if state["ActiveState"] != "active"]
    nodes = {node: {"status": "ok", "message": ""} for node in launcher.units}
    if module.check_mode:
        module.exit_json(
            changed=bool(down), nodes=nodes | {node: {"status": "changed", "message": ""} for node in down}
        )
    try:
        for node in down:
            launcher.write_token(node)
        complaint = launcher.start(down) if down else ""
        states = launcher.states()
        nodes |= {node: result_of(launcher, node, states[node], complaint) for node in down}
    except OSError as failure:
        why = f"{failure.filename}: {failure.strerror}; fix the cause and run again"
        nodes |= {node: {"status": "failed", "message": f"{node} was not started: {why}"} for node in down}
    finally:
        for node in down:
            launcher.remove_token(node)
    changed = any(result["status"] == "changed" for result in nodes.values())
    module.exit_json(changed=changed, nodes=nodes)


if __name__ == "__main__":
    main()
