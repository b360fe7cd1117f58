"""Reads the script releases that rlctl ships. Their manifest is JSON, so a service needs no YAML reader. Pure.

`python -m tests.unit.scripts.shipped` writes `lua/manifest.json` from `lua/manifest.yaml`, and a test compares both.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from rlctl.errors import InvalidFile
from rlctl.limits.release import Example, Manifest, Release, Script

FILE_NAME = "manifest.json"


def shipped_release(folder: str, read_file: Callable[[str], bytes], wanted: str | None = None) -> Release:
    """Read the wanted release that rlctl ships, or the newest if None; InvalidFile if a script was edited."""
    document = json.loads(read_file(FILE_NAME))
    manifest = Manifest(
        path=f"{folder}/{FILE_NAME}",
        folder=folder,
        digest=document["digest"],
        scripts=tuple(_script(entry, folder, read_file) for entry in document["scripts"]),
        releases=document["releases"],
    )
    return manifest.release(wanted)


def _script(entry: Mapping[str, Any], folder: str, read_file: Callable[[str], bytes]) -> Script:
    source = read_file(entry["file"])
    found = hashlib.sha1(source, usedforsecurity=False).hexdigest()
    if found != entry["sha1"]:
        raise InvalidFile(
            f"{folder}/{entry['file']}:1: this script was edited: its sha1 is {found}, not {entry['sha1']}",
            hint="install the wheel again; put your own scripts into another folder and pass it with --lua",
        )
    examples = (Example(args=tuple(one["args"]), reply=tuple(one["reply"])) for one in entry["examples"])
    return Script(
        name=entry["name"],
        version=entry["version"],
        file=entry["file"],
        sha1=entry["sha1"],
        source=source,
        args=tuple(entry["args"]),
        state=entry["state"],
        bounded=entry["bounded"],
        commands=tuple(entry["commands"]),
        examples=tuple(examples),
    )
