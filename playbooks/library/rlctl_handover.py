"""Ansible module: hands the primaries of one host over to replicas elsewhere, without losing a write."""

import json
import time
from contextlib import suppress
from typing import Any

from ansible.module_utils.basic import AnsibleModule

try:
    from redis import Redis
    from redis.exceptions import RedisError
except ImportError:
    HAS_REDIS = False
else:
    HAS_REDIS = True

DOCUMENTATION = r"""
module: rlctl_handover
short_description: Hand primaries over before their host is worked on
description:
  - Asks the live fleet who is primary on C(address). Each hands over to a replica on another host that is in sync, and
    the module waits until the fleet has it so. Without such a replica it refuses, and nothing is changed.
  - Sentinel chooses the new primary by itself. Where that is on C(address) too, it hands over again, a few times.
  - Runs on the control machine, with the Python of rlctl. Passwords come from `rlctl env` and are never shown.
options:
  command: {type: list, elements: str, required: true, description: "rlctl with its -f"}
  address: {type: str, required: true, description: the host}
  timeout: {type: int, default: 60, description: seconds for each primary}
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

_POLL_S = 0.2
_ROUNDS = 5
# Long enough for a failover of Sentinel; writes go on by themselves after it.
_PAUSE_MS = 5000
Node = dict[str, Any]


class Fleet:
    """The live fleet, through rlctl and its own doors."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.env = self.ask("env", "--as", "admin")

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

    def client(self, host: str, port: int) -> Any:  # noqa: ANN401 - the library may be missing
        """A connection as the admin."""
        secured = {"ssl": True, "ssl_ca_certs": self.env["ca"]} if self.env["tls"] else {}
        user, password = self.env["username"], self.env["password"]
        return Redis(host=host, port=port, username=user, password=password, socket_timeout=10, **secured)

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
        """Let a replica take over, and wait until it has."""
        replica = self.replica_of(primary)
        if self.env["kind"] == "cluster":
            with self.client(replica["host"], replica["port"]) as client:
                client.execute_command("CLUSTER", "FAILOVER")
        else:
            self._by_sentinel(primary)
        deadline = time.monotonic() + self.module.params["timeout"]
        while any(node["id"] == primary["id"] and node["role"] == "primary" for node in self.nodes()):
            if time.monotonic() > deadline:
                self.module.fail_json(msg=f"{primary['id']} is still primary; see `rlctl status`, then run again")
            time.sleep(_POLL_S)

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

    def _by_sentinel(self, primary: Node) -> None:
        """Sentinel's own failover does not wait for replicas, so writes do until these have everything."""
        host, _, port = self.env["sentinels"][0].rpartition(":")
        with self.client(primary["host"], primary["port"]) as client, self.client(host, int(port)) as sentinel:
            client.execute_command("CLIENT", "PAUSE", _PAUSE_MS, "WRITE")
            try:
                self._await_offsets(client)
                sentinel.execute_command("SENTINEL", "FAILOVER", self.env["master_name"])
            except RedisError:
                with suppress(RedisError):
                    client.execute_command("CLIENT", "UNPAUSE")
                raise

    def _await_offsets(self, client: Any) -> None:  # noqa: ANN401 - the library may be missing
        deadline = time.monotonic() + _PAUSE_MS / 2000
        while time.monotonic() < deadline:
            found = client.info("replication")
            replicas = [found[f"slave{number}"] for number in range(found["connected_slaves"])]
            if all(replica["offset"] >= found["master_repl_offset"] for replica in replicas):
                return
            time.sleep(_POLL_S / 10)
        client.execute_command("CLIENT", "UNPAUSE")
        self.module.fail_json(
            msg="the replicas do not catch up while writes wait; nothing was changed, run again later"
        )


def main() -> None:
    """One primary after the other."""
    module = AnsibleModule(
        argument_spec={
            "command": {"type": "list", "elements": "str", "required": True},
            "address": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    if not HAS_REDIS:
        module.fail_json(
            msg="this Python has no redis library: run ansible-playbook from the environment that rlctl is in"
        )
    fleet = Fleet(module)
    primaries = fleet.primaries_on(module.params["address"])
    try:
        for primary in primaries:
            fleet.replica_of(primary)
        if primaries and not module.check_mode:
            fleet.clear(module.params["address"])
    except RedisError as failure:
        module.fail_json(msg=f"a node refused: {failure}. See `rlctl status`, then run again")
    module.exit_json(changed=bool(primaries), handed_over=[node["id"] for node in primaries])


if __name__ == "__main__":
    main()
