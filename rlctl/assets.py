"""Find the data folders lua/, playbooks/, compose/ and runbooks/, in a checkout or in the installed wheel."""

from pathlib import Path

from rlctl.errors import NotFound

FOLDERS = ("lua", "playbooks", "compose", "runbooks")


def asset_folder(name: str) -> Path:
    """Path of a data folder. Raises NotFound if the installation lacks it."""
    if name not in FOLDERS:
        raise ValueError(f"{name} is not one of {', '.join(FOLDERS)}")
    package = Path(__file__).resolve().parent
    for candidate in (package / "_assets" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise NotFound(f"this installation of rlctl has no folder {name}", hint="install the wheel again")


def read_asset(folder: str, name: str) -> bytes:
    """Content of a file in a data folder. Raises NotFound if the installation lacks it."""
    path = asset_folder(folder) / name
    try:
        return path.read_bytes()
    except OSError as failure:
        raise NotFound(f"cannot read {path}: {failure.strerror}", hint="install the wheel again") from failure
