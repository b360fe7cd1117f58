"""RLCTL_HOME: the folder with this machine's state of its fleets, and the version of the folder's layout."""

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
# Folders that `from_environment` checks. The folders of the single fleets are not among them, because `open_own` checks
# a fleet's folder each time that it opens a file there.
_FOLDERS = ("fleets", "journal", "locks", "drills", "runbooks", "throw-away", "bugs")
# Unicode categories: control characters, surrogates, line and paragraph separators.
_UNWRITABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Home:
    """The state folder, with the paths of its files and folders.

    `topology_folder` is not part of the state folder. It contains the topology file and, for target `hosts`, the
    operator's Ansible variables.
    """

    root: Path
    topology_folder: Path | None = None

    @classmethod
    def from_environment(cls) -> "Home":
        """The folder that RLCTL_HOME names, else `rlctl` in the XDG data folder.

        Raises Refused if another user can change the folder. The path is normalised, because rlctl compares it with
        paths that `docker compose` prints.
        """
        home = cls(_normalised(_configured()))
        _check_characters(home.root)
        for folder in (home.root, *(home.root / name for name in _FOLDERS)):
            check_folder(folder)
        return home

    def fleet(self, name: str) -> "FleetFolder":
        return FleetFolder(self.root / "fleets" / name)

    def journal(self, name: str) -> Path:
        """The journal of a fleet. `destroy` adds a record and keeps the journal."""
        return self.root / "journal" / f"{name}.jsonl"

    def staging_lock(self, name: str) -> Path:
        """Lock file of the staging folder.

        The staging folder needs its own lock, because a playbook fills that folder while `deploy` holds the fleet's
        lock.
        """
        return self.root / "locks" / f"{name}.staging.lock"

    def lock(self, name: str) -> Path:
        """The fleet's lock file.

        It is outside the fleet's folder, because `destroy` deletes that folder while it holds the lock.
        """
        return self.root / "locks" / f"{name}.lock"

    @property
    def drills(self) -> Path:
        """The parent of the drill runs' folders."""
        return self.root / "drills"

    @property
    def throw_away(self) -> Path:
        """The parent of the folders of demos and runbook rehearsals that are running or were killed."""
        return self.root / "throw-away"

    @property
    def transcripts(self) -> Path:
        """Transcripts of runbook runs, for reviews."""
        return self.root / "runbooks"

    @property
    def accepted(self) -> Path:
        """File of `AcceptedDirectives`."""
        return self.root / "accepted.json"

    @property
    def bugs(self) -> Path:
        """Tracebacks of bugs, which the terminal does not show."""
        return self.root / "bugs"

    def open_for_writing(self) -> None:
        """Create the state folder if needed.

        Raises an error if this user cannot write to the folder, or if this version of rlctl does not know its layout.
        """
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
        """Raise Refused if this rlctl does not know the layout version of the folder. Writes nothing."""
        marker = self.root / "state.json"
        text = read_own(marker)
        if text is not None:
            _check_version(marker, text)


@dataclass(frozen=True, slots=True)
class FleetFolder:
    """The folder of one fleet."""

    root: Path

    @property
    def record(self) -> Path:
        """The record of the last deploy."""
        return self.root / "fleet.json"

    @property
    def secrets(self) -> Path:
        """The generated secrets, mode 0600."""
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
        """File of the compose variables that differ between machines.

        Its name is `.env`, because Docker Compose reads a file of that name by default, also for an operator's own
        commands.
        """
        return self.root / ".env"

    @property
    def server(self) -> Path:
        """The file with the server program and version of a Docker fleet's image."""
        return self.root / "server.json"

    @property
    def ca(self) -> Path:
        """The CA certificate with which clients verify servers."""
        return self.root / "ca.crt"

    def staging_folder(self, *, rehearsal: bool) -> Path:
        """The folder from which playbooks copy files to hosts. A `rehearsal` (check mode) uses a separate folder."""
        return self.root / ("rehearsal" if rehearsal else "stage")

    def node(self, name: NodeName) -> Path:
        return self.nodes / name

    def placed(self) -> tuple[NodeName, ...]:
        """The nodes that have a folder on this machine."""
        if not self.nodes.is_dir():
            return ()
        return tuple(sorted(NodeName(path.name) for path in self.nodes.iterdir() if path.is_dir()))

    def remove(self) -> None:
        """Delete the fleet's folder and everything in it."""
        try:
            shutil.rmtree(self.root)
        except FileNotFoundError:
            return
        except OSError as failure:
            raise Unreachable(
                f"cannot remove {self.root}: {failure.strerror}", hint="fix its permissions and run destroy again"
            ) from failure


def _configured() -> Path:
    named, data = os.environ.get("RLCTL_HOME"), os.environ.get("XDG_DATA_HOME")
    if named:
        return Path(named).expanduser()
    return (Path(data) if data else Path.home() / ".local" / "share") / "rlctl"


def _check_characters(root: Path) -> None:
    """Raise UsageFault if the path cannot be written into one line of a server's configuration."""
    if any(unicodedata.category(character) in _UNWRITABLE for character in str(root)):
        raise UsageFault(
            f"the path of the state folder, {str(root)!r}, has a line break or another control character",
            hint="set RLCTL_HOME to a path without control characters",
        )


def _normalised(path: Path) -> Path:
    """The absolute path without `..`, as `docker compose` prints it."""
    return Path(os.path.normpath(path.absolute()))


def _check_version(marker: Path, text: str) -> None:
    try:
        version = json.loads(text)["version"]
    except (ValueError, KeyError, TypeError) as failure:
        raise Refused(
            f"{marker} is damaged: it has no state version",
            hint=f'if this rlctl wrote the folder, write {{"version": {STATE_VERSION}}} into the file',
        ) from failure
    if version != STATE_VERSION:
        raise Refused(
            f"{marker.parent} has state version {version}; this rlctl knows only version {STATE_VERSION}",
            hint="use the rlctl that wrote it, or set RLCTL_HOME to another folder",
        )
