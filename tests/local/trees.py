"""What a command changed, seen from outside: files by content and time, servers by run id."""

from pathlib import Path

from tests.local.driver import LocalFleet

# What rlctl writes, and what a server would write again when it is reconfigured.
SETTLED = {"static.conf", "node.conf", "sentinel.conf", "users.acl", "secrets.json", "fleet.json", "process.json"}

Tree = dict[str, tuple[int, bytes]]


def tree(folder: Path) -> Tree:
    """Every file below, with its time and content; folders too."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def settled_files(fleet: LocalFleet) -> Tree:
    """The files that stay as they are while nothing is deployed."""
    return {name: state for name, state in tree(fleet.home).items() if Path(name).name in SETTLED}


def run_ids(fleet: LocalFleet) -> dict[str, str]:
    """Which very process serves each node."""
    found = {}
    access = fleet.access()
    for folder in sorted((fleet.home / "fleets" / fleet.name / "nodes").iterdir()):
        client = fleet.connect(folder.name, access=access)
        found[folder.name] = client.info("server")["run_id"]
        client.close()
    return found
