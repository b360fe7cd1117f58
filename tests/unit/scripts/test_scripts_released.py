"""Releases are append-only: `lua/released.txt` is the memory of what was released, in the form of sha1sum."""

import hashlib
import re
from pathlib import Path

import pytest

from rlctl.assets import asset_folder
from rlctl.files.mistakes import Mistakes
from rlctl.files.yaml import Mapping, Scalar, Sequence, compose

LINE = re.compile(r"([0-9a-f]{40})  ([a-z0-9_]+-\d+\.\d+\.\d+\.lua)")
FOLDER = asset_folder("lua")


def sha1(source: bytes) -> str:
    return hashlib.sha1(source, usedforsecurity=False).hexdigest()


def ledger_of(folder: Path) -> dict[str, str]:
    """File name -> SHA1, from the ledger; a line that is not one fails."""
    ledger: dict[str, str] = {}
    for line in (folder / "released.txt").read_text(encoding="ascii").splitlines():
        parts = LINE.fullmatch(line)
        assert parts, f"not a line of sha1sum: {line}"
        assert parts[2] not in ledger, f"{parts[2]} is released twice"
        ledger[parts[2]] = parts[1]
    return ledger


def pinned_in(folder: Path) -> dict[str, str]:
    """File name -> SHA1, from the manifest."""
    top = compose((folder / "manifest.yaml").read_bytes(), Mistakes("manifest.yaml"))
    scripts = top.entries["scripts"].value
    assert isinstance(scripts, Sequence)
    return dict(_file_and_sha1(entry) for entry in scripts.items if isinstance(entry, Mapping))


def _file_and_sha1(entry: Mapping) -> tuple[str, str]:
    file, digest = entry.entries["file"].value, entry.entries["sha1"].value
    assert isinstance(file, Scalar)
    assert isinstance(digest, Scalar)
    return file.text, digest.text


def broken_promises(folder: Path) -> list[str]:
    """What of the ledger no longer holds, and what lies there beyond it."""
    ledger, pinned = ledger_of(folder), pinned_in(folder)
    found = [fate for file, digest in ledger.items() if (fate := _fate(folder / file, digest))]
    found += [f"{file} was released and has left the manifest" for file in ledger if file not in pinned]
    for file, digest in pinned.items():
        if ledger.get(file) != digest:
            found.append(f"{file} is in the manifest as {digest}, not so in released.txt")
    found += [f"{path.name} is not in released.txt" for path in folder.glob("*.lua") if path.name not in ledger]
    return found


def _fate(path: Path, digest: str) -> str:
    if not path.exists():
        return f"{path.name} was released and is gone"
    if sha1(path.read_bytes()) != digest:
        return f"{path.name} was released and is changed: a new text is a new version"
    return ""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The shipped folder, to be spoiled."""
    for path in FOLDER.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_what_was_released_is_as_it_was() -> None:
    assert broken_promises(FOLDER) == []


def test_an_edited_file_is_found(copy: Path) -> None:
    with (copy / "gcra-1.0.0.lua").open("ab") as file:
        file.write(b"-- quick fix\n")
    assert broken_promises(copy) == ["gcra-1.0.0.lua was released and is changed: a new text is a new version"]


def test_an_edit_that_adjusts_the_manifest_is_found_too(copy: Path) -> None:
    file, manifest = copy / "gcra-1.0.0.lua", copy / "manifest.yaml"
    before = sha1(file.read_bytes())
    file.write_bytes(file.read_bytes() + b"-- quick fix\n")
    after = sha1(file.read_bytes())
    manifest.write_text(manifest.read_text(encoding="ascii").replace(before, after), encoding="ascii")
    assert broken_promises(copy) == [
        "gcra-1.0.0.lua was released and is changed: a new text is a new version",
        f"gcra-1.0.0.lua is in the manifest as {after}, not so in released.txt",
    ]


def test_a_vanished_file_is_found(copy: Path) -> None:
    (copy / "gcra-1.0.0.lua").unlink()
    assert broken_promises(copy) == ["gcra-1.0.0.lua was released and is gone"]


def test_an_entry_that_left_the_manifest_is_found(copy: Path) -> None:
    manifest = copy / "manifest.yaml"
    text = manifest.read_text(encoding="ascii").replace("file: gcra-1.0.0.lua", "file: other-1.0.0.lua")
    manifest.write_text(text, encoding="ascii")
    found = broken_promises(copy)
    assert found[0] == "gcra-1.0.0.lua was released and has left the manifest"
    assert found[1].startswith("other-1.0.0.lua is in the manifest as ")


def test_a_file_that_nobody_released_is_found(copy: Path) -> None:
    (copy / "gcra-9.0.0.lua").write_bytes(b"#!lua\nreturn 1\n")
    assert broken_promises(copy) == ["gcra-9.0.0.lua is not in released.txt"]
