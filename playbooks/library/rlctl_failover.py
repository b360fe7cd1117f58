"""Ansible module: hands the primaries of one host over to replicas elsewhere, without losing a write."""

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_handover
short_description: Hand primaries over before their host is worked on
description:
  - Asks the live fleet who is primary on C(address). Each hands over by C(rlctl failover), which loses nothing, to a
    replica on another host that is in sync. Without such a replica it refuses, and nothing is changed.
  - Sentinel chooses the new primary by itself. Where that is on C(address) too, it hands over again, a few times.
  - Runs on the control machine.
options:
  command: {type: list, elements: str, required: true, description: "rlctl with its -f"}
  address: {type: str, required: true, description: the host}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Hand over
  rlctl_handover: {command: [rlctl, -f, topology.yaml], address: 10.0.0.11}
  delegate_to: localhost
"""

RETURN = r"""
handed_over: {type: list, returned: always, description: "primaries that were, or would be, handed over"}
"""

_ROUNDS = 5
Node = dict[str, Any]


class Fleet:
    """The live fleet, through rlctl and its own doors."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module

    def ask(self, *words: str) -> dict[str, Any]:
        """What rlctl answers; status tells of trouble by its exit code, too, and is read all the same."""
        code, out, err = self.module.run_command([*self.module.params["command"], *words, "-o", "json"])
        try:
            return dict(json.loads(out))
        except ValueError:
            self.module.fail_json(msg=f"`rlctl {words[0]}` answered {code} and no JSON: {err.strip()}")
            raise

    def nodes(self) -> list[Node]:
        """Every data node as it is now."""
        return [node for node in self.ask("status")["nodes"] if node["role"] in {"primary", "replica"}]

    def primaries_on(self, address: str) -> list[Node]:
        """Those that must hand over."""
        return [node for node in self.nodes() if node["role"] == "primary" and node["host"] == address]

    def replica_of(self, primary: Node) -> Node:
        """A replica in sync on another host."""
        for node in self.nodes():
            follows = node["role"] == "replica" and node["shard"] == primary["shard"] and node["link"] == "up"
            if follows and node["host"] != primary["host"]:
                return node
        self.module.fail_json(
            msg=f"{primary['id']} has no replica in sync on another host, so it cannot hand over; nothing was changed. "
            "Bring the fleet to health with `rlctl deploy`, and run again"
        )
        raise AssertionError

    def hand_over(self, primary: Node) -> None:
        """Let a replica take over; returns once the fleet has it so."""
        self.ask("failover", str(primary["shard"]), "--yes")

    def clear(self, address: str) -> None:
        """Hand over until no primary is there, each time from a fleet that is healthy again."""
        left = self.primaries_on(address)
        for _ in range(_ROUNDS):
            for primary in left:
                self.hand_over(primary)
            self.ask("status", "--wait")
            left = self.primaries_on(address)
            if not left:
                return
        named = ", ".join(node["id"] for node in left)
        self.module.fail_json(
            msg=f"after {_ROUNDS} hand-overs {address} still has a primary ({named}): Sentinel chose a replica there "
            "each time. No node was stopped; run again, or put fewer nodes of the fleet on this host"
        )


def main() -> None:
    """One primary after the other."""
    module = AnsibleModule(
        argument_spec={
            "command": {"type": "list", "elements": "str", "required": True},
            "address": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    fleet = Fleet(module)
    primaries = fleet.primaries_on(module.params["address"])
    for primary in primaries:
        fleet.replica_of(primary)
    if primaries and not module.check_mode:
        fleet.clear(module.params["address"])
    module.exit_json(changed=bool(primaries), handed_over=[node["id"] for node in primaries])


if __name__ == "__main__":
    main()
