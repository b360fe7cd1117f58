"""Ansible module: starts nodes that rlctl's planner decided to start, all at once, and tells what became of each."""

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
  - Gives each node the token that its start-guard asks for, starts its unit, and waits until it is active.
  - A node that does not come up fails alone: C(nodes) tells of each, and the task itself does not fail.
options:
  fleet: {type: str, required: true, description: name of the fleet}
  launches: {type: dict, required: true, description: "by node: follow, the address and port of its primary, or null"}
  unit: {type: str, required: true, description: "unit of a node; %i is its name"}
  timeout: {type: int, default: 120, description: seconds until all are up}
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
# What systemd says of a start that failed, and those of its words that tell why; the server tells the other reasons.
_FAILED = re.compile(r"Main process exited|Failed at step|Failed with result")
_REASON = re.compile(r"Failed at step|Failed to set up|status=2\d\d/|code=(killed|dumped)|timed out")
_NO_NAMESPACES = re.compile(r"step USER|status=217/")
# A line of the configuration file that the server refuses, whose value is a password.
_PASSWORD = re.compile(r"^(>>> '(?:requirepass|masterauth|primaryauth|user|sentinel|tls-\S*-pass))\b.*$", re.IGNORECASE)
State = dict[str, str]


class Launcher:
    """The units of one batch."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.launches: dict[str, dict[str, Any]] = module.params["launches"]
        self.units = {node: module.params["unit"].replace("%i", node) for node in self.launches}
        self.run_folder = Path("/run/rlctl") / module.params["fleet"]
        self.begin = self._journal_end()

    def states(self) -> dict[str, State]:
        """What systemd says of each node's unit."""
        wanted = [word for name in _STATES for word in ("-p", name)]
        _, out, _ = self.module.run_command(["systemctl", "show", *wanted, *self.units.values()])
        blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in out.strip().split("\n\n")]
        return dict(zip(self.units, blocks, strict=True))

    def order(self, node: str) -> None:
        """The token, and whom to follow; both are used up by the start."""
        self.run_folder.mkdir(parents=True, exist_ok=True)
        primary = self.launches[node].get("follow")
        option = f"--replicaof {primary['address']} {primary['port']}" if primary else ""
        (self.run_folder / f"{node}.env").write_text(f'RLCTL_FOLLOW="{option}"\n', encoding="ascii")
        (self.run_folder / f"{node}.go").touch()

    def forget(self, node: str) -> None:
        """A token must not outlive its order."""
        for suffix in ("go", "env"):
            (self.run_folder / f"{node}.{suffix}").unlink(missing_ok=True)

    def start(self, nodes: list[str]) -> str:
        """Start them together, wait until each is up or is not coming; what systemd itself complained of."""
        units = [self.units[node] for node in nodes]
        self.module.run_command(["systemctl", "reset-failed", *units])
        _, out, err = self.module.run_command(["systemctl", "start", "--no-block", *units])
        deadline = time.monotonic() + self.module.params["timeout"]
        while time.monotonic() < deadline and not self._all_settled(nodes):
            time.sleep(_POLL_S)
        return f"{out}{err}".strip()

    def last_words(self, node: str) -> str:
        """Why it did not come up this time, in the words of the server or of systemd."""
        unit = self.units[node]
        _, out, _ = self.module.run_command(["journalctl", "-q", "--no-pager", "-o", "json", *self.begin, "-u", unit])
        said = [text.removeprefix(f"{unit}: ") for text in telling(entries(out))]
        return " / ".join(list(dict.fromkeys(said))[-_SHOWN_LINES:])

    def _journal_end(self) -> list[str]:
        """The option that leaves out of the journal what was there before; whole seconds would let some of it in."""
        _, out, _ = self.module.run_command(["journalctl", "-q", "--no-pager", "-n", "0", "--show-cursor"])
        return journal_after(out) or ["--since", f"@{int(time.time())}"]

    def _all_settled(self, nodes: list[str]) -> bool:
        """Jobs are done; a unit that waits for its automatic restart is not settled."""
        states = self.states()
        _, jobs, _ = self.module.run_command(["systemctl", "list-jobs", "--no-legend", "--plain"])
        waiting = {word for line in jobs.splitlines() for word in line.split()}
        return all(states[node]["ActiveState"] in _SETTLED and self.units[node] not in waiting for node in nodes)


def journal_after(shown: str) -> list[str]:
    """The option for what comes after the cursor that journalctl shows; an empty journal has none."""
    cursor = shown.strip().rpartition("-- cursor: ")[2]
    return ["--after-cursor", cursor] if cursor else []


def entries(journal: str) -> Iterator[tuple[str, str]]:
    """Who said what; a line that is no text has nothing for people."""
    for line in journal.splitlines():
        entry = json.loads(line)
        if isinstance(entry.get("MESSAGE"), str):
            yield entry.get("SYSLOG_IDENTIFIER", ""), entry["MESSAGE"]


def telling(said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The lines that tell why a start failed; what start-guard then says of the automatic restart is no reason."""
    has_failed = False
    for who, text in said:
        # A child that does not come to its program yet has the program's name in brackets.
        if who == "systemd" or who.startswith("("):
            has_failed = has_failed or _FAILED.search(text) is not None
            if _REASON.search(text):
                yield text
        # The server's banner says nothing.
        elif text.strip() and not text.startswith(" ") and not (who == _GUARD and has_failed):
            yield _PASSWORD.sub(r"\1 (value not shown)'", text.strip())


def result_of(launcher: Launcher, node: str, state: State, complaint: str) -> State:
    """What became of one node."""
    if state["ActiveState"] == "active":
        return {"status": "changed", "message": ""}
    how = f"{state['ActiveState']} ({state['SubState']}, {state['Result']})"
    unit, why = launcher.units[node], launcher.last_words(node) or complaint
    hint = f"See `journalctl -u {unit}`"
    if _NO_NAMESPACES.search(why):
        hint = f"Where a host allows no user namespaces, set redis_host_private_users to auto. {hint}"
    return {"status": "failed", "message": f"{node} did not come up, {unit} is {how}: {why}. {hint}"}


def main() -> None:
    """Start what does not run."""
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
            launcher.order(node)
        complaint = launcher.start(down) if down else ""
        states = launcher.states()
        nodes |= {node: result_of(launcher, node, states[node], complaint) for node in down}
    except OSError as failure:
        why = f"{failure.filename}: {failure.strerror}; put it right and run again"
        nodes |= {node: {"status": "failed", "message": f"{node} was not started: {why}"} for node in down}
    finally:
        for node in down:
            launcher.forget(node)
    changed = any(result["status"] == "changed" for result in nodes.values())
    module.exit_json(changed=changed, nodes=nodes)


if __name__ == "__main__":
    main()
