"""Reads a release from its folder: the one that rlctl ships, or another with --lua."""

from pathlib import Path

from rlctl.assets import asset_folder
from rlctl.errors import NotFound
from rlctl.limits.release import Release
from rlctl.scripts.manifest import read_release


def load_release(folder: Path | None = None, wanted: str | None = None) -> Release:
    """The newest release in the folder, or the wanted one; InvalidFile where a file is not what was released."""
    root = (folder or asset_folder("lua")).resolve()
    manifest = root / "manifest.yaml"
    try:
        text = manifest.read_bytes()
    except OSError as failure:
        raise NotFound(f"{manifest}: {failure.strerror}", hint="--lua names a folder with a manifest.yaml") from failure
    return read_release(text, str(manifest), str(root), wanted, lambda name: (root / name).read_bytes())
