"""Detect what a command changed: files by content and time, servers by run id."""

from pathlib import Path

from tests.local.driver import LocalFleet

# Files that rlctl writes, and files that a server rewrites when it is reconfigured.
SETTLED = {"static.conf", "node.conf", "sentinel.conf", "users.acl", "secrets.json", "fleet.json", "process.json"}

Tree = dict[str, tuple[int, bytes]]


def tree(folder: Path) -> Tree:
    """Every file and folder below, with time and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def settled_files(fleet: LocalFleet) -> Tree:
    """The files that only a deploy changes."""
    return {name: state for name, state in tree(fleet.home).items() if Path(name).name in SETTLED}


def run_ids(fleet: LocalFleet) -> dict[str, str]:
    """The run id of the process of each node."""
    found = {}
    access = fleet.access()
    for folder in sorted((fleet.home / "fleets" / fleet.name / "nodes").iterdir()):
        client = fleet.connect(folder.name, access=access)
        found[folder.name] = client.info("server")["run_id"]
        client.close()
    return found
