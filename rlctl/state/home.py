"""RLCTL_HOME: where this machine keeps its fleets, and in which version of the layout."""

import json
import os
import shutil
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import Refused, Unreachable, UsageFault
from rlctl.system.files import check_folder, make_private_folder, read_own, write_private
from rlctl.topology.nodes import NodeName

STATE_VERSION = 1
# Each is opened by name; fleets' own folders are checked with the files that are opened in them.
_FOLDERS = ("fleets", "journal", "locks", "drills", "runbooks", "throw-away", "bugs")
# Control characters, halves of characters that are no UTF-8, and the line breaks of Unicode.
_UNWRITABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Home:
    """The state folder; every path that rlctl keeps is named here.

    `beside` is no part of it: the folder of the topology file, whose group_vars count on target hosts.
    """

    root: Path
    beside: Path | None = None

    @classmethod
    def from_environment(cls) -> "Home":
        """RLCTL_HOME, else the XDG data folder; Refused where another user can change it.

        In one spelling, since folders are compared with what others say.
        """
        home = cls(_spelled(_named()))
        _check_characters(home.root)
        for folder in (home.root, *(home.root / name for name in _FOLDERS)):
            check_folder(folder)
        return home

    def fleet(self, name: str) -> "FleetFolder":
        """The folder of one fleet."""
        return FleetFolder(self.root / "fleets" / name)

    def journal(self, name: str) -> Path:
        """The journal outlives its fleet: it also tells who destroyed it."""
        return self.root / "journal" / f"{name}.jsonl"

    def staging_lock(self, name: str) -> Path:
        """Playbooks stage for many hosts at once, also while a deploy holds the fleet's lock."""
        return self.root / "locks" / f"{name}.staging.lock"

    def lock(self, name: str) -> Path:
        """The lock file is outside the fleet's folder, so that destroy can hold it to the end."""
        return self.root / "locks" / f"{name}.lock"

    @property
    def drills(self) -> Path:
        """One folder for each drill run."""
        return self.root / "drills"

    @property
    def throw_away(self) -> Path:
        """One folder for each demo and each trial of a runbook test that runs, or was killed."""
        return self.root / "throw-away"

    @property
    def transcripts(self) -> Path:
        """What was done by the runbooks, for the reviews afterwards."""
        return self.root / "runbooks"

    @property
    def accepted(self) -> Path:
        """Which directives which server has started with."""
        return self.root / "accepted.json"

    @property
    def bugs(self) -> Path:
        """Where tracebacks go instead of the terminal."""
        return self.root / "bugs"

    def open_for_writing(self) -> None:
        """Make sure that the folder exists, is ours to write and has a layout we understand."""
        make_private_folder(self.root)
        marker = self.root / "state.json"
        text = read_own(marker)
        if text is None:
            write_private(marker, json.dumps({"version": STATE_VERSION}) + "\n")
        else:
            _check_version(marker, text)
        for folder in ("fleets", "journal", "locks", "drills"):
            make_private_folder(self.root / folder)

    def check(self) -> None:
        """The reading half of `open_for_writing`: refuse a layout that is newer than we are."""
        marker = self.root / "state.json"
        text = read_own(marker)
        if text is not None:
            _check_version(marker, text)


@dataclass(frozen=True, slots=True)
class FleetFolder:
    """What is kept of one fleet."""

    root: Path

    @property
    def record(self) -> Path:
        """What was deployed under this name."""
        return self.root / "fleet.json"

    @property
    def secrets(self) -> Path:
        """The generated secrets, 0600."""
        return self.root / "secrets.json"

    @property
    def nodes(self) -> Path:
        """The parent of the local nodes' folders."""
        return self.root / "nodes"

    @property
    def compose(self) -> Path:
        """The rendered compose file of a Docker fleet."""
        return self.root / "compose.yaml"

    @property
    def compose_variables(self) -> Path:
        """What the compose file leaves to the machine; compose itself reads it from there."""
        return self.root / ".env"

    @property
    def server(self) -> Path:
        """Which server the image of a Docker fleet holds."""
        return self.root / "server.json"

    @property
    def ca(self) -> Path:
        """The certificate that clients verify with."""
        return self.root / "ca.crt"

    def stage(self, *, rehearsal: bool) -> Path:
        """Where files wait for their hosts; what is only compared with them lies apart."""
        return self.root / ("rehearsal" if rehearsal else "stage")

    def node(self, name: NodeName) -> Path:
        """One local node's folder."""
        return self.nodes / name

    def placed(self) -> tuple[NodeName, ...]:
        """The nodes that have a folder here."""
        if not self.nodes.is_dir():
            return ()
        return tuple(sorted(NodeName(path.name) for path in self.nodes.iterdir() if path.is_dir()))

    def remove(self) -> None:
        """Delete the fleet's folder with all it holds."""
        try:
            shutil.rmtree(self.root)
        except FileNotFoundError:
            return
        except OSError as failure:
            raise Unreachable(
                f"cannot remove {self.root}: {failure.strerror}", hint="fix its permissions and run destroy again"
            ) from failure


def _named() -> Path:
    named, data = os.environ.get("RLCTL_HOME"), os.environ.get("XDG_DATA_HOME")
    if named:
        return Path(named).expanduser()
    return (Path(data) if data else Path.home() / ".local" / "share") / "rlctl"


def _check_characters(root: Path) -> None:
    """The path goes into configuration files of servers, line by line, and into compose files and inventories."""
    if any(unicodedata.category(character) in _UNWRITABLE for character in str(root)):
        raise UsageFault(
            f"the state folder {str(root)!r} has a line break or another control character in its name",
            hint="set RLCTL_HOME to a path of plain characters",
        )


def _spelled(path: Path) -> Path:
    """Without `..`, as `docker compose` writes paths."""
    return Path(os.path.normpath(path.absolute()))


def _check_version(marker: Path, text: str) -> None:
    try:
        version = json.loads(text)["version"]
    except (ValueError, KeyError, TypeError) as failure:
        raise Refused(
            f"{marker} is damaged: it does not hold a state version",
            hint=f'if this folder is of this rlctl, write {{"version": {STATE_VERSION}}} into it',
        ) from failure
    if version != STATE_VERSION:
        raise Refused(
            f"{marker.parent} has state version {version}; this rlctl knows version {STATE_VERSION}",
            hint="use the rlctl that wrote it, or another RLCTL_HOME",
        )
