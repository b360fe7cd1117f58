"""Folders of demos and rehearsals: removed at the end of the run, or later when the run was killed."""

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

# Only for servers that outlive a killed run; servers in a run's namespaces end with it.
_FLEET = "topology.yaml"


@contextmanager
def throw_away(home: Home, kind: str, fleet: Topology | None = None) -> Iterator[RunFolder]:
    """Make the folder of one run, with an empty `twin` folder, and remove it at the end.

    Its servers must have ended by then. `fleet` is what a later clean-up destroys when this run is killed.
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
    """Remove the fleets and folders of killed runs. Running ones stay."""
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
        progress.note(f"healed what run {one['id']} had left")


def _folders(home: Home) -> list[RunFolder]:
    return [RunFolder(path) for path in sorted(home.throw_away.glob("*-*"))]


def _is_left(folder: RunFolder) -> bool:
    """Whether its run was killed; a run without an owner may just have begun."""
    return folder.owner.exists() and not folder.is_owned()


def _remove(folder: RunFolder) -> None:
    """Remove the owner's file last: without it a later clean-up finds nothing."""
    remove_twin_folder(folder)
    shutil.rmtree(folder.root, ignore_errors=True)
