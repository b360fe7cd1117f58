"""Throw-away folders of demos and rehearsals. A folder is removed after its run, or later if the run was killed."""

import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rlctl.execute.progress import Progress
from rlctl.lab.cleanup import remove_fleet, remove_twin_folder
from rlctl.lab.run_folder import RunFolder
from rlctl.state.home import Home
from rlctl.system.files import make_private_folder, read_text
from rlctl.system.process import ProcessId
from rlctl.topology.dump import topology_text
from rlctl.topology.load import load_topology
from rlctl.topology.model import Topology

# File with the topology of servers that outlive a killed run. The clean-up needs this file to destroy the servers. A
# run whose servers are in its own namespaces has no such file, because these servers end with the run.
_FLEET = "topology.yaml"


@contextmanager
def throw_away(home: Home, kind: str, fleet: Topology | None = None) -> Iterator[RunFolder]:
    """Create the folder of one run, with an empty `twin` folder, and remove it on exit.

    The caller must end the run's servers before the exit. If this run is killed, a later clean-up destroys `fleet`.
    """
    home.open_for_writing()
    folder = RunFolder(home.throw_away / f"{kind}-{secrets.token_hex(4)}")
    folder.open()
    ProcessId.current().save(folder.owner)
    if fleet is not None:
        folder.write_text(_FLEET, topology_text(fleet))
    make_private_folder(folder.twin)
    try:
        yield folder
    finally:
        _remove(folder)


def clean_up_throw_away(home: Home, progress: Progress) -> list[dict[str, object]]:
    """Remove the fleets and folders of killed runs, and return what was removed. Active runs are not changed."""
    left = [folder for folder in _folders(home) if _is_left(folder)]
    for folder in left:
        text = read_text(folder.root / _FLEET)
        if text is not None and folder.twin.exists():
            remove_fleet(load_topology(text.encode(), str(folder.root / _FLEET)), Home(folder.twin), progress)
        _remove(folder)
    return [{"id": folder.id, "undone": ["removed its throw-away fleet"]} for folder in left]


def note_cleaned_up(cleaned: Iterable[Mapping[str, object]], progress: Progress) -> None:
    """Report which killed runs were cleaned up."""
    for one in cleaned:
        progress.note(f"cleaned up after run {one['id']}")


def _folders(home: Home) -> list[RunFolder]:
    return [RunFolder(path) for path in sorted(home.throw_away.glob("*-*"))]


def _is_left(folder: RunFolder) -> bool:
    """Whether the folder's run was killed. False without an owner file, because the run may just have begun."""
    return folder.owner.exists() and not folder.is_owned()


def _remove(folder: RunFolder) -> None:
    """Remove the twin, and then the rest of the folder with the owner file.

    If this process is killed while it removes the twin, the owner file remains. A later clean-up needs this file to
    find the folder.
    """
    remove_twin_folder(folder)
    shutil.rmtree(folder.root, ignore_errors=True)
