"""Ansible module: fails the primaries of one host over to replicas on other hosts, without losing a write."""

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_failover
short_description: Fail over all primaries of a host before maintenance
description:
  - Reads from the live fleet which primaries run on C(address), and runs a planned C(rlctl failover) for each. A
    planned failover loses no write.
  - Fails before any change if one of these primaries has no replica in sync on another host.
  - Sentinel chooses the new primary itself. If that node is on C(address) too, the module runs another failover, at
    most five for each primary.
  - Runs on the control machine.
options:
  command: {type: list, elements: str, required: true, description: "rlctl with its option -f"}
  address: {type: str, required: true, description: address of the host}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Fail over the primaries of a host
  rlctl_failover: {command: [rlctl, -f, topology.yaml], address: 10.0.0.11}
  delegate_to: localhost
"""

RETURN = r"""
failed_over: {type: list, returned: always, description: "primaries that were failed over, or in check mode would be"}
"""

_ROUNDS = 5
Node = dict[str, Any]


class Fleet:
    """The live fleet, read and changed by rlctl commands."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module

    def run_rlctl(self, *words: str) -> dict[str, Any]:
        """Run an rlctl command and return its JSON. `status` prints JSON even if its exit code reports a problem."""
        code, out, err = self.module.run_command([*self.module.params["command"], *words, "-o", "json"])
        try:
            return dict(json.loads(out))
        except ValueError:
            self.module.fail_json(msg=f"`rlctl {words[0]}` ended with exit code {code} and no JSON: {err.strip()}")
            raise

    def nodes(self) -> list[Node]:
        """The fleet's data nodes, read again at each call."""
        return [node for node in self.run_rlctl("status")["nodes"] if node["role"] in {"primary", "replica"}]

    def primaries_on(self, address: str) -> list[Node]:
        return [node for node in self.nodes() if node["role"] == "primary" and node["host"] == address]

    def replica_of(self, primary: Node) -> Node:
        """A replica in sync on another host; fails the task if there is none."""
        for node in self.nodes():
            follows = node["role"] == "replica" and node["shard"] == primary["shard"] and node["link"] == "up"
            if follows and node["host"] != primary["host"]:
                return node
        self.module.fail_json(
            msg=f"{primary['id']} has no replica in sync on another host, so it cannot fail over; nothing was changed. "
            "Repair the fleet with `rlctl deploy`, and run again"
        )
        raise AssertionError

    def fail_over(self, primary: Node) -> None:
        """Run a planned failover of the primary's shard; returns once it is done."""
        self.run_rlctl("failover", str(primary["shard"]), "--yes")

    def clear(self, address: str) -> None:
        """Fail over until the host has no primary, and wait for a healthy fleet after each round."""
        left = self.primaries_on(address)
        for _ in range(_ROUNDS):
            for primary in left:
                self.fail_over(primary)
            self.run_rlctl("status", "--wait")
            left = self.primaries_on(address)
            if not left:
                return
        named = ", ".join(node["id"] for node in left)
        self.module.fail_json(
            msg=f"after {_ROUNDS} failovers {address} still has a primary ({named}): Sentinel chose a replica there "
            "each time. No node was stopped; run again, or put fewer nodes of the fleet on this host"
        )


def main() -> None:
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
    module.exit_json(changed=bool(primaries), failed_over=[node["id"] for node in primaries])


if __name__ == "__main__":
    main()
