"""Program that runs as root on a host: prints as JSON for each node whether the node's unit holds the node's port."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

# The kernel's table of TCP sockets, and its code for a listening socket.
_SOCKETS = Path("/proc/net/tcp")
_LISTENS = "0A"


def main() -> None:
    """Print, for each node that the first argument names, whether its unit holds its port."""
    nodes = json.loads(sys.argv[1])
    listening = dict(_listening(_SOCKETS.read_text(encoding="ascii")))
    users = _users([node["unit"] for node in nodes.values()])
    answer = {name: _holds(node, users.get(node["unit"]), listening) for name, node in nodes.items()}
    sys.stdout.write(json.dumps(answer))


def _holds(node: dict[str, Any], user: int | None, listening: dict[str, int]) -> bool:
    """Whether the unit runs and its user has the socket that listens on the node's port."""
    # The unit and the socket are compared by their users, not by their processes, because root in a container may not
    # read /proc/PID/fd.
    packed = socket.inet_aton(node["address"])[::-1].hex().upper()
    found = (listening.get(f"{address}:{node['port']:04X}") for address in (packed, "00000000"))
    return user is not None and user in found


def _listening(table: str) -> list[tuple[str, int]]:
    fields = (row.split() for row in table.splitlines()[1:])
    return [(field[1], int(field[7])) for field in fields if field[3] == _LISTENS]


def _users(units: list[str]) -> dict[str, int]:
    """The user of each unit's main process; units that do not run are left out."""
    done = subprocess.run(
        ["/usr/bin/env", "systemctl", "--no-pager", "show", "--property=Id,MainPID", *units],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, int] = {}
    for block in done.stdout.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        process = Path("/proc") / values.get("MainPID", "0")
        if process.exists():
            found[values["Id"]] = process.stat().st_uid
    return found


if __name__ == "__main__":
    main()
