"""Reads a release of scripts from its folder: the shipped one, or that of --lua."""

from functools import partial
from pathlib import Path

from rlctl.assets import asset_folder, read_asset
from rlctl.errors import NotFound
from rlctl.limits.release import Release
from rlctl.limits.shipped import shipped_release


def load_release(folder: Path | None = None, wanted: str | None = None) -> Release:
    """Read the newest release in the folder, or the wanted one; InvalidFile where a file was changed."""
    if folder is None:
        return shipped_release(str(asset_folder("lua")), partial(read_asset, "lua"), wanted)
    from rlctl.scripts.manifest import read_manifest  # noqa: PLC0415  needs the YAML reader

    root = folder.resolve()
    manifest = root / "manifest.yaml"
    try:
        text = manifest.read_bytes()
    except OSError as failure:
        raise NotFound(f"{manifest}: {failure.strerror}", hint="--lua names a folder with a manifest.yaml") from failure
    return read_manifest(text, str(manifest), str(root), lambda name: (root / name).read_bytes()).release(wanted)
