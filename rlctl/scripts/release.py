"""Reads a script release: one that rlctl ships, or one from the folder given with --lua."""

from functools import partial
from pathlib import Path

from rlctl.assets import asset_folder, read_asset
from rlctl.errors import NotFound
from rlctl.limits.release import Release
from rlctl.limits.shipped import shipped_release


def load_release(folder: Path | None = None, wanted: str | None = None) -> Release:
    """Read the wanted release, or the newest if None.

    If `folder` is None, read a release that rlctl ships. Raises NotFound if the folder has no manifest or lacks the
    release, and InvalidFile if a script was edited.
    """
    if folder is None:
        return shipped_release(str(asset_folder("lua")), partial(read_asset, "lua"), wanted)
    from rlctl.scripts.manifest import read_manifest  # noqa: PLC0415  needs the YAML reader

    root = folder.resolve()
    manifest = root / "manifest.yaml"
    try:
        text = manifest.read_bytes()
    except OSError as failure:
        raise NotFound(f"{manifest}: {failure.strerror}", hint="--lua needs a folder with a manifest.yaml") from failure
    return read_manifest(text, str(manifest), str(root), lambda name: (root / name).read_bytes()).release(wanted)
