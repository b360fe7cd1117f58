"""A Docker engine: the one that answers, or one of the lab's own, stopped again with all it left on the machine."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from rlctl.system.process import ProcessId
from tests.lab.shell import LabError, ensure_program, may_change_this_machine, run, succeeds, timed, wait_for

SOCKET = Path("/var/run/docker.sock")
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_BRIDGE = "docker0"
_TABLES = tuple(f"table {family} {name}" for family in ("ip", "ip6") for name in ("filter", "nat", "mangle", "raw"))
_PATHS = ("/etc/docker/key.json", "/run/docker", "/run/containerd")
_KINDS = {
    "container": ("ps", "--all", "--format", "{{.Names}}"),
    "network": ("network", "ls", "--filter", "type=custom", "--format", "{{.Name}}"),
    "volume": ("volume", "ls", "--format", "{{.Name}}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What an engine changes on its machine and does not put back."""

    tables: list[str]
    paths: list[str]
    has_bridge: bool
    forwards: str

    @classmethod
    def now(cls) -> "Machine":
        return cls(
            tables=run("nft", "list", "tables").splitlines(),
            paths=[path for path in _PATHS if Path(path).exists()],
            has_bridge=_BRIDGE in psutil.net_if_addrs(),
            forwards=_FORWARD.read_text(encoding="ascii").strip(),
        )

    def restore(self) -> None:
        """Put it back."""
        now = Machine.now()
        for table in (set(now.tables) & set(_TABLES)) - set(self.tables):
            run("nft", "delete", *table.split())
        for path in set(now.paths) - set(self.paths):
            run("rm", "--recursive", path)
        if now.has_bridge and not self.has_bridge:
            run("ip", "link", "delete", _BRIDGE)
        _FORWARD.write_text(self.forwards, encoding="ascii")


def state_folder() -> Path:
    """Where the lab's own engine lives; RLCTL_LAB_STATE names another place."""
    named = os.environ.get("RLCTL_LAB_STATE")
    return Path(named) if named else Path(tempfile.gettempdir()) / f"rlctl-lab-{os.getuid()}"


@contextmanager
def lab_lock() -> Iterator[None]:
    """One process at a time builds or starts what the lab is made of."""
    folder = state_folder()
    with folder.with_name(f"{folder.name}.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def is_up() -> bool:
    """Whether an engine answers."""
    return succeeds("docker", "version", "--format", "{{.Server.Version}}")


def is_ours() -> bool:
    """Whether the lab's own engine runs."""
    daemon = ProcessId.load(state_folder() / "process.json")
    return daemon is not None and daemon.is_alive()


def ensure_engine() -> bool:
    """See to it that an engine answers; whether it had to be started."""
    if is_up():
        return False
    if not may_change_this_machine():
        raise LabError("no Docker engine answers; root with CI=true or RLCTL_LAB=start starts one of the lab's own")
    if _is_served():
        raise LabError(f"something listens on {SOCKET}, and it is no Docker engine")
    for program, package in {"dockerd": "docker.io", "docker": "docker.io", "nft": "nftables"}.items():
        ensure_program(program, package)
    with timed("engine started"):
        _start(state_folder())
    return True


def things() -> list[str]:
    """Containers, networks and volumes that are there now."""
    return sorted(f"{kind} {name}" for kind, argv in _KINDS.items() for name in run("docker", *argv).split())


def things_of(folder: Path) -> list[str]:
    """Those that tell of work in this folder, in a label or a mount."""
    return [thing for thing in things() if str(folder) in _description(thing)]


def stop_engine() -> list[str]:
    """Stop the lab's own engine and remove its folder; what was still in it."""
    folder = state_folder()
    daemon = ProcessId.load(folder / "process.json")
    if daemon is None or not daemon.is_alive():
        raise LabError(f"no engine runs from {folder}")
    left = things()
    _remove(left)
    with timed("engine stopped"):
        _end(daemon)
    Machine(**json.loads((folder / "machine.json").read_text(encoding="utf-8"))).restore()
    SOCKET.unlink(missing_ok=True)
    for mount in _mounts_below(folder):
        run("umount", str(mount))
    shutil.rmtree(folder)
    return left


def _mounts_below(folder: Path) -> list[Path]:
    """What an engine leaves mounted, such as the network of this machine; the innermost first."""
    mounted = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    return sorted((path for path in mounted if path.is_relative_to(folder)), reverse=True)


def _is_served() -> bool:
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.connect(str(SOCKET))
        except OSError:
            return False
    return True


def _start(folder: Path) -> None:
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    before = folder / "machine.json"
    if not before.exists():  # an engine that was killed put nothing back
        before.write_text(json.dumps(asdict(Machine.now())), encoding="utf-8")
    log = folder / "dockerd.log"
    options = {"host": f"unix://{SOCKET}", "data-root": folder / "data", "exec-root": folder / "exec"}
    options |= {"pidfile": folder / "dockerd.pid", "log-level": "warn"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["dockerd", *(f"--{name}={value}" for name, value in options.items())],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    daemon = ProcessId.of(process.pid)
    if daemon is None:
        raise LabError(f"dockerd ended at once, see {log}")
    daemon.save(folder / "process.json")
    wait_for(lambda: process.poll() is not None or is_up(), f"dockerd answers, see {log}")
    if process.returncode is not None:
        raise LabError(f"dockerd ended with {process.returncode}:\n{log.read_text(encoding='utf-8')[-2000:]}")
    # It is ended by its id, and need not be ended by this process.
    process.returncode = 0


def _description(thing: str) -> str:
    kind, _, name = thing.partition(" ")
    try:
        return run("docker", "inspect", "--type", kind, name)
    except LabError:
        return ""  # its owner removed it meanwhile


def _remove(left: list[str]) -> None:
    removal = {"container": ("rm", "--force", "--volumes"), "network": ("network", "rm"), "volume": ("volume", "rm")}
    for thing in left:
        kind, _, name = thing.partition(" ")
        with suppress(LabError):  # an anonymous volume went with its container
            run("docker", *removal[kind], name)


def _end(daemon: ProcessId) -> None:
    """End dockerd; its containerd goes with it, or is killed when dockerd had to be."""
    children = psutil.Process(daemon.pid).children(recursive=True)
    daemon.send(signal.SIGTERM)
    with suppress(LabError):
        wait_for(lambda: not daemon.is_alive(), "dockerd ended", timeout_s=60)
    for process in children:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    daemon.send(signal.SIGKILL)
    wait_for(lambda: not daemon.is_alive(), "dockerd was killed")
