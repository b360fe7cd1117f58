"""Program that runs as root on a host: prints as JSON the host's facts and the fleet's nodes there."""

import ctypes
import errno
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# sentinel.conf contains passwords, so only these of its lines leave the host.
_SENTINEL_LINES = re.compile(r"^sentinel (?:monitor|config-epoch|myid) .*$", re.MULTILINE)
# The probe does not read larger files. The nodes.conf of a thousand nodes is far smaller.
_MOST_BYTES = 1024 * 1024
# Position of the field `status` in struct timex, counted in ints. Before it are `modes` with padding, and four longs.
_STATUS_WORD = 10
_TEXTS = {
    "overcommit_memory": "/proc/sys/vm/overcommit_memory",
    "thp": "/sys/kernel/mm/transparent_hugepage/enabled",
    "meminfo": "/proc/meminfo",
    "somaxconn": "/proc/sys/net/core/somaxconn",
    "ephemeral_ports": "/proc/sys/net/ipv4/ip_local_port_range",
    "reserved_ports": "/proc/sys/net/ipv4/ip_local_reserved_ports",
}


def main() -> None:
    """Print the state of the host for the fleet and the nodes that the first argument names."""
    asked = json.loads(sys.argv[1])
    settings, data = Path(asked["settings"]), Path(asked["data"])
    placed = sorted(_names(settings) | _names(data))
    running = _running(asked["nodes"])
    answer = {
        "now": time.time(),
        "placed": placed,
        "orphaned": not placed and _is_orphaned(settings, data),
        "packages": _kept_packages(settings, data),
        "running_without_folder": sorted(set(_active(asked["patterns"])) - set(placed)),
        "nodes": {name: _node(data / name, node, running.get(name, 0)) for name, node in asked["nodes"].items()},
        "texts": {name: _text(Path(path)) for name, path in _TEXTS.items()},
        "cpus": os.cpu_count(),
        "disk": _disk(data),
        "clock": _clock(),
    }
    sys.stdout.write(json.dumps(answer))


def _node(folder: Path, asked: dict[str, Any], pid: int) -> dict[str, Any]:
    return {
        "pid": pid,
        "has_files": any((folder / name).exists() for name in ("node.conf", "nodes.conf", "sentinel.conf")),
        "cluster_conf": _text(folder / "nodes.conf"),
        "sentinel_conf": "".join(f"{line}\n" for line in _SENTINEL_LINES.findall(_text(folder / "sentinel.conf"))),
        "has_log": any((folder / "appendonlydir").glob("*.manifest")),
        "has_snapshot": (folder / "dump.rdb").exists(),
        "bind_error": None if pid else _bind_error(asked["address"], asked["bus_port"]),
    }


def _names(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir() if path.is_dir()}
    except OSError:
        return set()


def _is_orphaned(settings: Path, data: Path) -> bool:
    """Whether a killed run left files that no node needs, in the fleet's folders or in those that all fleets share."""
    fleets = _fleets(settings, data)
    is_left = settings.parent.exists() and not _kept_packages(settings, data)
    return settings.name in fleets or (not fleets and is_left)


def _fleets(settings: Path, data: Path) -> set[str]:
    return {name for base in (settings.parent, data.parent) for name in _names(base) if not name.startswith(".")}


def _kept_packages(settings: Path, data: Path) -> list[str]:
    """The packages that rlctl_package_removal recorded as kept when the host's last fleet was removed."""
    if _fleets(settings, data):
        return []
    try:
        record = json.loads(_text(settings.parent / ".host" / "packages.json"))
    except ValueError:
        return []
    return [str(name) for name in record["packages"]] if record.get("kept") else []


def _running(nodes: dict[str, Any]) -> dict[str, int]:
    """Main pid of each node's unit; 0 if the unit does not run."""
    units = {node["unit"]: name for name, node in nodes.items()}
    found: dict[str, int] = {}
    for block in _systemctl("show", "--property=Id,MainPID", *units).split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("Id") in units:
            found[units[values["Id"]]] = int(values.get("MainPID", "0"))
    return found


def _active(patterns: list[str]) -> list[str]:
    """Nodes whose units are active or starting."""
    listed = _systemctl("list-units", "--state=active,activating", "--plain", "--no-legend", *patterns)
    return [line.split("@", 1)[1].split(".service", 1)[0] for line in listed.splitlines() if "@" in line]


def _systemctl(*words: str) -> str:
    try:
        done = subprocess.run(
            ["/usr/bin/env", "systemctl", "--no-pager", *words], stdout=subprocess.PIPE, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout


def _bind_error(address: str, port: int) -> str | None:
    """Name of the errno of a failed bind to the address; None if the bind works. Port 0 checks only the address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as failure:
            return errno.errorcode.get(failure.errno or 0, "")
    return None


def _text(path: Path) -> str:
    """The text of a regular file; empty for anything else, and for a file that is too large.

    The probe runs as root and must not trust a server's folder, into which the server may put a link to another file, a
    FIFO or a huge file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return _bounded(descriptor)
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _bounded(descriptor: int) -> str:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return ""
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        found = stream.read(_MOST_BYTES + 1)
    return found.decode("utf-8", "replace") if len(found) <= _MOST_BYTES else ""


def _clock() -> list[int] | None:
    """Return value of adjtimex and the status of the kernel's clock; None if the system has no adjtimex."""
    words = (ctypes.c_long * 64)()
    try:
        returned = ctypes.CDLL(None).adjtimex(words)
    except (OSError, AttributeError):
        return None
    return [returned, ctypes.cast(words, ctypes.POINTER(ctypes.c_int))[_STATUS_WORD]]


def _disk(folder: Path) -> list[int] | None:
    try:
        place = next(path for path in (folder, *folder.parents) if path.exists())
        usage = shutil.disk_usage(place)
    except (OSError, StopIteration):
        return None
    return [usage.total, usage.free]


if __name__ == "__main__":
    main()
